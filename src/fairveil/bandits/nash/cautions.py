"""Where a plan cannot work, and what would: waiting, noise, silence, and too few people, each told from the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fairveil.bandits.lateness import AT_ONCE, Lateness
from fairveil.bandits.plans import Outlook

if TYPE_CHECKING:
    from fairveil.bandits.nash.planning import PlanQuestion

SURE = 0.8
"""Below this chance to name the best arm a plan is warned about."""


def cautions(
    question: PlanQuestion,
    main: Outlook,
    steps: Sequence[Outlook],
    difference: float,
    wanted: float,
    at_once: Callable[[], float],
) -> list[str]:
    """Sentences; ``at_once``: how often the same plan names the best arm if all answers come at once."""
    people, late = question.people, question.late
    found = list(question.policy.quote(people).warnings)
    under_way = late.window if late.hidden else max(late.numbers)
    if under_way > people / 2:
        found.append(
            f"outcomes take {under_way:,.0f} further people and the plan has {people:,}: most of it is over before "
            "anything is learned; shorten the wait"
        )
    elif under_way > people / 4:
        found.append(f"the first {under_way:,.0f} people of {people:,} are allotted before anything is learned")
    means = np.sort(question.world.true_means)
    if len(means) > 1 and means[-1] == means[-2]:
        found.append("several arms are best in the guess: there is nothing to separate")
    elif main.named.value < SURE:
        found.append(_unsure(main.named.value, None if late == AT_ONCE else at_once()))
    if main.needed is not None and main.needed <= people:
        return found
    apart = f"with {people:,} people a difference of {difference:g} is not separated with chance {wanted:g}"
    if main.needed is not None:
        return [*found, f"{apart}: that needs {main.needed:,} people"]
    reached = f"{apart}: that is not reached within {question.longest:,} people"
    least = silence_hides(late) if question.silence == "any" and question.policy.shape().keep else 0.0
    reaching = [step for step in steps[1:] if step.needed is not None]
    better = min(reaching, key=lambda step: step.needed or 0, default=None)
    if difference <= least:
        reached += (
            f", because whoever never answers might have said anything: with {late.missing:.0%} silent the rule "
            f"separates no lead below {least:.2g}, however many take part"
        )
    elif better is not None:
        reached += (
            f", because worse arms get few people on purpose; exploration = {better.exploration:g} gives them "
            f"{better.worse.value:,.0f} instead of {main.worse.value:,.0f} and needs {better.needed:,}"
        )
    return [*found, reached]


def silence_hides(late: Lateness) -> float:
    """The largest lead that no number of people separates where a share m of the answers is left out for ever.

    The rule counts silent rounds of the best arm 0 and of others 1: (1 - m) lead - m is left, above 0 from m / (1 - m).

    >>> round(silence_hides(Lateness.of({"missing": 0.15})), 3), silence_hides(Lateness.of({"delay": 9}))
    (0.176, 0.0)
    """
    return 0.0 if late.hidden or not late.even else late.missing / (1 - late.missing)


def _unsure(named: float, at_once: float | None) -> str:
    """Why the best arm is not found: the same plan with answers at once tells waiting from noise."""
    said = f"the best arm has the largest estimate in {named:.0%} of the runs only"
    noise = "more noise and chance than the plan can carry; take more people or a larger epsilon"
    if at_once is None:
        return f"{said}: {noise}"
    said += f", and in {at_once:.0%} if answers came at once"
    if at_once - named > 1 - at_once:
        return f"{said}: waiting is the larger part; shorten it, or take more people"
    return f"{said}: {noise}"
