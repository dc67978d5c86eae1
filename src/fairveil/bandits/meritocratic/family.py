"""The family `meritocratic`: runs a policy on rounds of candidates and measures fairness by relative ranks.

Fair pseudo-regret adds, in every round, the best relative rank shown minus the relative rank chosen (Grazzi et al.
2022), both under the true score distribution of each group.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from fairveil.arrays import Floats
from fairveil.bandits.estimates import number
from fairveil.bandits.family import Family, Series, Tally, curves, first_estimates, noted_estimates, spread
from fairveil.bandits.meritocratic.runner import Played, world_of
from fairveil.bandits.meritocratic.world import Gallery, MeritocraticEnvironment
from fairveil.bandits.simulate import Case, Simulator, Step, Streams
from fairveil.fairness.groups import wilson
from fairveil.fairness.ranks import fair_regret, parity_gap, within_group_correlation
from fairveil.randomness import generator
from fairveil.registry import register
from fairveil.task import Part

CHUNK = 1024
"""Rounds drawn at a time. Part of the random stream: another value gives other (equally valid) runs."""
REFERENCE = 2000
"""Candidates of each group on which estimated scores are compared with true ones."""
UNSURE = 0.05
"""Groups whose ranks have a larger standard deviation are named: their selection rate may be off by as much."""
CURVES = ("fair_regret", "reward_regret", "parity_gap", "theta_error")


@register("family", "meritocratic")
class Meritocratic(Family[Played]):
    """Choose the candidate of the highest relative rank within its own group."""

    uniform = True

    def check(self, case: Case) -> dict[str, Any]:
        world_of(case).fits(case.rounds)
        return {}

    def seen(self, world: Gallery, steps: Iterable[Step], before: Played | None) -> Played:
        slots = np.array([world.slot(step.round.index, step.decision.arm) for step in steps], np.int64)
        return Played(world.chunk, slots, np.full(len(slots), np.nan))

    def at_random(
        self, world: MeritocraticEnvironment, now: int, stop: int, streams: Streams, before: Played | None
    ) -> Played:
        chunk = world.draw(now, stop - now, streams.world)
        keys = np.where(chunk.group >= 0, streams.explore.random(chunk.group.shape), -1.0)
        return Played(chunk, keys.argmax(axis=1), np.full(len(chunk), np.nan))

    def tally(self, case: Case, runs: range) -> RankTally:
        return RankTally(case, runs)

    def measure(self, case: Case, parts: list[Part]) -> tuple[dict[str, Any], Series]:
        joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        guarantee = case.policy.promise
        metrics, series = curves(case.checkpoints, {name: joined[name] for name in CURVES})
        names = world_of(case).group_names
        metrics["selection_share"] = _by_group(names, joined["selections"].mean(axis=0) / case.rounds)
        if not np.isnan(joined["rank_error"]).any():
            metrics["rank_calibration"] = float(joined["rank_error"].mean())
            metrics["rank_calibration_std"] = float(spread(joined["rank_error"]))
        if not np.isnan(joined["rank_uncertainty"]).any():
            metrics["rank_uncertainty"] = _by_group(names, joined["rank_uncertainty"].mean(axis=0))
            metrics["unsure_groups"] = [name for name, std in metrics["rank_uncertainty"].items() if std > UNSURE]
        metrics["releases"] = float(joined["releases"].mean())
        metrics["spent"] = {} if guarantee is None else guarantee.numbers
        metrics["lab"] = {"evaluation": True, "selection_rates": _rates(names, joined)}
        called = {f"group {place}": name for place, name in enumerate(names)}
        columns = {f"column {place}": name for place, name in enumerate(world_of(case).schema.names)}
        return {**metrics, **first_estimates(joined["estimates"], called | columns)}, series


def _rates(names: tuple[str, ...], joined: Part) -> dict[str, Any]:
    """How often somebody of each group who was shown was chosen, with a 95 % interval over all runs."""
    chosen, shown = joined["selections"].sum(axis=0), joined["shown"].sum(axis=0)
    rate = np.divide(chosen, shown, out=np.full(len(names), np.nan), where=shown > 0)
    low, high = wilson(rate, shown)
    return {
        name: {"value": number(a), "low": number(b), "high": number(c)} for name, a, b, c in zip(names, rate, low, high)
    }


class RankTally(Tally[Played]):
    """One run: regret by ranks and by scores at the checkpoints, who was shown and chosen, how wrong ranks were."""

    def __init__(self, case: Case, runs: range) -> None:
        self.checkpoints, self.rounds, self.chunk = case.checkpoints, case.rounds, CHUNK
        world = world_of(case)
        self.policy, self.first = case.policy, runs[0] == 0
        self.reference = _Reference(world, generator(case.spec["seed"], "reference"))
        self.fair = self.reward = self.rank_error = 0.0
        self.ranked, self.rows = 0, list[tuple[float, ...]]()
        self.chosen, self.shown = np.zeros(world.groups, np.int64), np.zeros(world.groups, np.int64)

    def add(self, seen: list[Played]) -> None:
        [(chunk, slots, estimates)] = seen
        rows = np.arange(len(chunk))
        filled = chunk.group >= 0
        some = filled.any(axis=1)
        rank = chunk.rank[rows, slots]
        self.fair += float(fair_regret(chunk.rank, slots).sum())
        best = np.where(filled, chunk.score, -np.inf).max(axis=1)
        self.reward += float((best - chunk.score[rows, slots])[some].sum())
        self.chosen += np.bincount(chunk.group[rows, slots][some], minlength=len(self.chosen))
        self.shown += np.bincount(chunk.group[filled], minlength=len(self.shown))
        known = ~np.isnan(estimates) & some
        self.rank_error += float(np.abs(estimates - rank)[known].sum())
        self.ranked += int(known.sum())

    def mark(self, played: list[Simulator[Played]]) -> None:
        theta = played[0].belief()
        error = np.nan if theta is None else self.reference.error(theta)
        self.rows.append((self.fair, self.reward, parity_gap(self.chosen, self.shown), error))

    def part(self, played: list[Simulator[Played]]) -> Part:
        [run] = played
        uncertainty = run.uncertainty()
        found = {
            **dict(zip(CURVES, np.array(self.rows, np.float64).T)),
            "selections": self.chosen.astype(np.float64),
            "shown": self.shown.astype(np.float64),
            "estimates": noted_estimates(self.policy, run.published() if self.first else None),
            "rank_error": np.float64(self.rank_error / self.ranked if self.ranked else np.nan),
            "rank_uncertainty": np.full(len(self.shown), np.nan) if uncertainty is None else uncertainty,
            "releases": np.float64(run.releases),
        }
        return {name: np.stack([value]) for name, value in found.items()}


class _Reference:
    """A fixed sample of candidates on which an estimate of theta is judged by what matters: scores within a group."""

    def __init__(self, environment: MeritocraticEnvironment, rng: Any) -> None:
        groups = np.repeat(np.arange(environment.groups), REFERENCE)
        features, scores, _ = environment.people(groups, rng)
        self.features = features.reshape(environment.groups, REFERENCE, -1)
        self.scores = scores.reshape(environment.groups, REFERENCE)

    def error(self, theta: Floats) -> float:
        """One minus the mean correlation of estimated and true scores within groups (0: same order)."""
        return 1.0 - within_group_correlation(self.features @ theta, self.scores)


def _by_group(names: tuple[str, ...], values: Floats) -> dict[str, float]:
    return {name: float(value) for name, value in zip(names, values)}
