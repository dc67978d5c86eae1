"""Lemmas 17-20 of appendix C.7: what changed label rates or features do to one-shot decisions and losses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fairveil.dynamics.assumptions import assumption_7, overlap
from fairveil.dynamics.distributions import distribution, stack
from fairveil.dynamics.participation.model import Participation
from fairveil.dynamics.population import Measures, Population, measure, optimal_thresholds
from fairveil.lab.theorems.checks import Check, check
from fairveil.lab.theorems.participation import ROUNDING, SAME, inside, slow_features, slow_labels

INSIDE = "thresholds lie inside both overlaps"
ROLES = "the same one before the change"
OUTWEIGHED = "what the people change is outweighed by the move (C.3, C.4)"


def decided_inside(system: Participation) -> bool:
    """Do the decisions about the first people lie inside both overlaps? Most do not, and the lemmas leave them out."""
    return bool(inside(system, system.thresholds(system.people)[None])[0])


def lowered(system: Participation, rates: np.ndarray) -> Participation:
    """The same groups with other label rates (1, groups)."""
    return replace(system, people=system.people.with_rates(rates))


def tempered(system: Participation, factors: np.ndarray) -> Participation:
    """The same groups after the qualified have worked on their features: fewer of them in the overlap."""
    people = system.people
    items, which = list(people.distributions), people.which.copy()
    for s, factor in enumerate(factors):
        low, high = overlap(people.feature(0, s, 0), people.feature(0, s, 1))
        which[0, s, 1] = len(items)
        items.append(distribution(["tempered", people.feature(0, s, 1), low, high, float(factor)]))
    codes, params = stack(tuple(items))
    return replace(system, people=replace(people, which=which, codes=codes, params=params, distributions=tuple(items)))


def thresholds_rise(name: str, system: Participation, changed: Participation) -> Check:
    """Lemmas 17 and 19: at the same shares, lower label rates or features off the overlap raise all thresholds."""
    share = system.people.share
    before, after = (one.at_share(share)[0] for one in (system, changed))
    return check(
        f"{name} ({system.fairness})",
        {
            "features rise and fall on the overlap (assumption 7)": all(assumption_7(system.people).values()),
            INSIDE: inside(system, before[None])[0] and inside(changed, after[None])[0],
        },
        lambda: np.all(after > before - SAME),
        lambda: np.all(after < before + SAME),
        before=before[0].tolist(),
        after=after[0].tolist(),
    )


def losses_part(name: str, system: Participation, changed: Participation, share: float) -> Check:
    """Lemmas 18 and 20: both thresholds rise and the people change little; who is below the own optimum loses less.

    Group a of the lemmas is the one whose threshold is below its own optimum, b the other one, in both problems: the
    proofs take that from lemma 6, and where the two change places the lemmas are about nothing.
    """
    first, second = system.people, changed.people.with_rates(share=np.array([[share, 1.0 - share]]))
    x, seen_x = _decision(system, first)
    y, seen_y = _decision(changed, second)
    before, own = optimal_thresholds(first), optimal_thresholds(second)
    behind = np.argmax(y - own, axis=1)
    b = int(behind[0])
    a = 1 - b
    slow = slow_labels if name == "lemma 18" else slow_features
    return check(
        f"{name} ({system.fairness})",
        {
            "features rise and fall on the overlap (assumption 7)": all(assumption_7(system.people).values()),
            INSIDE: inside(system, x[None])[0] and inside(changed, y[None])[0],
            "both thresholds rise": np.all(y > x + SAME),
            "one group is below its own optimum, the other above": bool(y[0, a] < own[0, a] and y[0, b] > own[0, b]),
            ROLES: bool(x[0, a] < before[0, a] and x[0, b] > before[0, b]),
            OUTWEIGHED: lambda: slow((np.array([True]), behind), first, x, second, y)[0],
        },
        lambda: _parted(seen_x, seen_y, a, b),
        lambda: _parted(seen_x, seen_y, b, a),
        x=x[0].tolist(),
        y=y[0].tolist(),
        before=before[0].tolist(),
        own=own[0].tolist(),
    )


def _decision(system: Participation, people: Population) -> tuple[np.ndarray, Measures]:
    theta = system.thresholds(people)
    return theta, measure(people, theta)


def _parted(before: Measures, after: Measures, a: int, b: int) -> bool:
    change = (after.loss - before.loss)[0]
    return bool(change[a] < ROUNDING and change[b] > -ROUNDING)
