"""A guarantee in plain words: for one contribution and for several, what is public, what is not protected."""

from __future__ import annotations

import math

from fairveil.errors import SpecError
from fairveil.lab.handover.document import DocumentSection, TextGrid, sentence
from fairveil.privacy.guarantee import Guarantee

BARE = "No privacy promise: numbers in this report are computed from the data as they are."
SEVERAL = (1, 2, 3, 5, 10, 20)
"""Contributions of one person for which the promise is spelled out."""
CERTAIN = 0.999
"""A belief above this is no protection any more."""
NOT_PROTECTED = {
    "global": (
        "Whoever runs the study holds the raw data and has to be trusted with them.",
        "Which option a person got, and when: decisions are made in the open.",
    ),
    "joint": (
        "Whoever runs the study holds the raw data and has to be trusted with them.",
        "The decision about a person is seen by that person and by whoever carries it out, and depends on that "
        "person's own data.",
    ),
    "local": ("That a person took part, and when the report was sent.",),
    "federated": (
        "Every agent holds the raw data of its own people and has to be trusted with them.",
        "What a person was shown is seen by that person.",
    ),
}
AUDIT = "An audit attacks the noise of the served code and fails if it is smaller than promised."
ALWAYS = (
    "What is true of everybody. What is found here also says something about people who never took part.",
    "What people tell others themselves, or what is known about them from elsewhere.",
    "More contributions of one person than the table of the promise was read for.",
    "Computing time, and raw data, logs or copies that are kept outside of this software.",
)


def belief(epsilon: float) -> float:
    """How sure somebody may become who was undecided: e^eps / (1 + e^eps).

    >>> round(belief(1.0), 3)
    0.731
    """
    return 1.0 / (1.0 + math.exp(-epsilon))


def promise_section(promise: Guarantee | None) -> DocumentSection:
    """What is promised for one contribution and for one person with k of them."""
    section = DocumentSection("What is promised to the people in the data")
    if promise is None:
        section.marked = "No privacy promise: this run protects nobody's data."
        return section
    if not promise.established:
        section.marked = "The promise of this variant is not established. Nothing that serves people may rest on it."
    epsilon, delta = promise.epsilon, promise.delta or 0.0
    if epsilon is None or not math.isfinite(epsilon):
        section.text.append("No finite number is promised.")
        return section
    slip = f", apart from events of a total chance of {delta:.1g}, for which nothing is promised" if delta else ""
    section.text += [
        f"Protected is {promise.unit}. Take any one of them and imagine that it had been different. Everything that is "
        f"published would have come out with nearly the same chance: at most {math.exp(epsilon):.3g} times as likely, "
        f"at least {math.exp(-epsilon):.2g} times as likely{slip}.",
        f"As a bet: somebody who is undecided (50 %) about a secret in that one contribution can be at most "
        f"{belief(epsilon):.0%} sure after seeing everything that is published, whatever else is known to them and "
        "whatever computer they have.",
        "Whoever contributed several times is protected less. Count the most contributions that one person can have "
        "made, and read that line:",
    ]
    section.grids.append(_several(promise))
    words = promise.to_dict()["neighbours_in_words"]
    section.points.append(f"In formal terms: {_formal(promise)}. Compared are {words}.")
    return section


def _formal(promise: Guarantee) -> str:
    stated = promise.numbers.items()
    numbers = ", ".join(f"{name} = {value:.4g}" for name, value in stated if name != "delta" or value)
    return f"{promise.definition.value} differential privacy in the {promise.model.value} model, {numbers}"


def _several(promise: Guarantee) -> TextGrid:
    rows = []
    for count in SEVERAL:
        try:
            found = promise.for_units(count)
        except SpecError:
            rows.append((f"{count} or more", "none", "certain: nothing is promised"))
            break
        epsilon, delta = found.epsilon or 0.0, found.delta or 0.0
        sure = belief(epsilon)
        numbers = f"epsilon {epsilon:.3g}" + (f", delta {delta:.1g}" if delta else "")
        words = f"at most {sure:.1%}" if sure < CERTAIN and delta < 0.1 else "practically certain"
        rows.append((str(count), numbers, words))
    return TextGrid(("contributions of one person", "budget", "how sure an undecided reader can become"), tuple(rows))


def public_section(promise: Guarantee | None, *, decides: bool = True) -> DocumentSection:
    """What is taken to be public, as the guarantee notes it; ``decides``: people were decided about."""
    section = DocumentSection("What is public")
    section.text.append(
        "The configuration of the software, the number of rounds and when decisions were made are taken to be public."
        if decides
        else "The configuration of the software is taken to be public."
    )
    section.points += [] if promise is None else [sentence(note) for note in promise.notes]
    return section


def unprotected_section(promise: Guarantee | None, *, decides: bool = True) -> DocumentSection:
    """What no budget covers; where nobody was decided about, only who holds the data and what always holds."""
    own = () if promise is None else NOT_PROTECTED.get(promise.model.value, ())
    return DocumentSection("What is not protected", points=[*(own if decides else own[:1]), *ALWAYS])
