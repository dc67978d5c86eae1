"""A quote with a quick simulation on a declared guess: expected regret and half-widths, without a look at any data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fairveil.bandits.lateness import AT_ONCE, Lateness
from fairveil.bandits.quotes import Quote
from fairveil.bandits.simulate import Case
from fairveil.bandits.task import case_of
from fairveil.errors import SpecError

if TYPE_CHECKING:
    from fairveil.running.progress import Progress

RUNS = 20
SPREAD = (0.4, 0.6)
"""Means of the arms that are guessed where nothing else is known."""
MUCH_WAIT, MOST_WAIT = 0.25, 0.5
"""Shares of a plan that hidden outcomes may take before they count."""
MOST_PEOPLE = 1_000_000
"""Plans of more people are not simulated for the quote of a loop."""
SLOW_WINDOW = 3
"""A window of so many usual delays holds up blocks."""
PUBLIC_INSTEAD = 'let arrivals be public ({key} = "public"), where an outcome counts when it comes'
TIME_TELLS = (
    "whether and when a reward came is public: if good and bad outcomes are reported at different times the time tells "
    'the outcome, and early figures are off; then use {key} = "default"'
)
REGRETS = ("nash_regret", "average_regret", "fair_regret", "fairness_regret", "parity_gap")


def forecast(
    spec: dict[str, Any],
    *,
    people: int | None = None,
    guess: dict[str, Any] | None = None,
    runs: int = RUNS,
    progress: Progress | None = None,
) -> Quote:
    """The quote of a bandit spec; ``guess``: the environment to simulate, where the spec's own is people's data.

    >>> found = forecast({"task": "bandit", "rounds": 500, "policy": {"name": "private-nash", "epsilon": 1.0},
    ...                   "environment": {"name": "bernoulli", "means": [0.3, 0.6]}}, runs=4)
    >>> found.noise[0].rounds, sorted(found.expected)[:2]
    (8, ['average_regret', 'guess'])
    """
    case = case_of(spec)
    found = case.policy.quote(case.rounds, people)
    warnings = list(found.warnings)
    warnings += waiting_in_words(case.lateness, case.rounds, case.policy.released_by == "arrivals")
    world, words = _world(case, guess)
    expected: dict[str, Any] = {}
    if world is not None and runs > 0:
        names = case.environment.arm_names if guess is None else None
        expected = _simulated(case.spec, world, runs, names, progress) | {"guess": words}
    if world is None:
        warnings.append("no simulation: the environment holds people's data; declare a guess (--guess FILE)")
    return replace(found, warnings=tuple(warnings), expected=expected)


def waiting_in_words(late: Lateness, rounds: int, by_arrival: bool, key: str = "treat") -> list[str]:
    """What waiting will do to a plan of so many rounds, from public numbers alone; ``key``: what settles the matter."""
    if late == AT_ONCE:
        return []
    if (late.window if late.hidden else late.shortest) >= rounds:
        return [f"rewards may take {late.window:,} decisions and the run has {rounds:,}: it may learn nothing"]
    if late.hidden:
        share = late.window / rounds
        said = allotted_equally(late.window, rounds)
        instead = f"shorten the window, or {PUBLIC_INSTEAD.format(key=key)}"
        if share > MOST_WAIT:
            return [f"{said}; most of it is over before anything is learned: {instead}"]
        return [f"{said}: {instead}"] if share > MUCH_WAIT else []
    found = [TIME_TELLS.format(key=key)]
    if not by_arrival and late.window > SLOW_WINDOW * late.usual and late.missing > 0:
        found.append("one missing answer holds up all arms until its window ends: release = arrivals does not wait")
    return found


def allotted_equally(window: int, rounds: int) -> str:
    """What a plan does while every window is open."""
    return (
        f"outcomes count when their window closes: the first {window:,} people are allotted equally, about "
        f"{window / rounds:.0%} of the plan"
    )


def regret_after(policy: dict[str, Any], people: int, delay: int, treat: str, runs: int = RUNS) -> float | None:
    """Average regret of arms with means 0.4 to 0.6 where every outcome counts after so many decisions; None for a plan
    that is too long to be simulated while somebody waits."""
    if people > MOST_PEOPLE:
        return None
    world = {"name": "bernoulli", "means": np.linspace(*SPREAD, policy["arms"]).round(4).tolist()}
    feedback = {"delay": min(delay, people), "treat": treat}
    spec = {"task": "bandit", "rounds": people, "seed": 0, "policy": policy, "feedback": feedback}
    found: float = _simulated(spec, world, runs)["average_regret"]
    return found


def _world(case: Any, guess: dict[str, Any] | None) -> tuple[dict[str, Any] | None, str]:
    if guess is not None:
        return guess, f"simulated on the declared guess {guess.get('name', '')}"
    if not case.environment.recorded:
        return case.spec["environment"], f"simulated on {case.environment.name}, as the spec declares it"
    if case.policy.family in ("", "nash"):
        arms = int(case.environment.arms)
        means = np.linspace(*SPREAD, arms).round(4).tolist()
        return {"name": "bernoulli", "means": means}, f"simulated on a guess: {arms} arms with means 0.4 to 0.6"
    return None, ""


def guess_of(case: Case) -> dict[str, Any]:
    """The world that a plan is simulated on where no other guess is declared; refused where there is none."""
    world, _ = _world(case, None)
    if world is None:
        raise SpecError(
            "the environment holds people's data, and a plan is simulated on a guess",
            path="environment",
            given=case.environment.name,
            fix="declare a guess",
        )
    return world


def _simulated(
    full: dict[str, Any],
    world: dict[str, Any],
    runs: int,
    names: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    from fairveil.running.runner import run

    spec = {**full, "environment": world, "runs": runs, "noise": "seeded", "checkpoints": [full["rounds"]]}
    metrics = run(spec, progress=progress)["metrics"]
    found: dict[str, Any] = {name: metrics[name][-1] for name in REGRETS if name in metrics}
    lab = metrics.get("lab", {})
    if "interval_width" in lab:
        known = names or metrics.get("arms") or [f"arm {arm}" for arm in range(len(lab["interval_width"]))]
        found["half_widths"] = {name: width / 2 for name, width in zip(known, lab["interval_width"], strict=True)}
    elif "estimates" in metrics:
        items = [item for item in metrics["estimates"]["items"] if item["low"] is not None]
        if items:
            found["half_widths"] = {
                f"{item['what']} {item['name']}": (item["high"] - item["low"]) / 2 for item in items
            }
    if "rank_uncertainty" in metrics:
        found["rank_uncertainty"] = metrics["rank_uncertainty"]
    return found
