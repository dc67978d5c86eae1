"""The family `meritocratic`: runs a policy on rounds of candidates and measures fairness by relative ranks.

Fair pseudo-regret adds, in every round, the best relative rank shown minus the relative rank chosen (Grazzi et al.
2022), both under the true score distribution of each group.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairveil.bandits.estimates import number
from fairveil.bandits.family import Family, Series, first_estimates, noted_estimates
from fairveil.bandits.meritocratic.runner import Played, Runner, StepRunner, UniformRunner
from fairveil.bandits.meritocratic.schema import Floats
from fairveil.bandits.meritocratic.world import MeritocraticEnvironment
from fairveil.bandits.simulate import Case, Streams, curves, spread
from fairveil.errors import SpecError
from fairveil.fairness.counting import wilson
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
class Meritocratic(Family):
    """Choose the candidate of the highest relative rank within its own group."""

    def check(self, case: Case) -> dict[str, Any]:
        _world(case).fits(case.rounds)
        return {}

    def uniform(self, case: Case, streams: Streams) -> Runner:
        return UniformRunner(case, streams)

    def simulate(self, case: Case, runs: range) -> Part:
        parts = [_one_run(case, run) for run in runs]
        return {name: np.stack([part[name] for part in parts]) for name in parts[0]}

    def measure(self, case: Case, parts: list[Part]) -> tuple[dict[str, Any], Series]:
        joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        guarantee = case.policy.guarantee()
        metrics, series = curves(case.checkpoints, {name: joined[name] for name in CURVES})
        names = _world(case).group_names
        metrics["selection_share"] = _by_group(names, joined["selections"].mean(axis=0) / case.rounds)
        if not np.isnan(joined["rank_error"]).any():
            metrics["rank_calibration"] = float(joined["rank_error"].mean())
            metrics["rank_calibration_std"] = float(spread(joined["rank_error"]))
        if not np.isnan(joined["rank_uncertainty"]).any():
            metrics["rank_uncertainty"] = _by_group(names, joined["rank_uncertainty"].mean(axis=0))
            metrics["unsure_groups"] = [name for name, std in metrics["rank_uncertainty"].items() if std > UNSURE]
        metrics["releases"] = float(joined["releases"].mean())
        metrics["spent"] = (
            {}
            if guarantee is None
            else {
                key: value
                for key in ("epsilon", "delta", "mu", "rho")
                if (value := getattr(guarantee, key)) is not None
            }
        )
        metrics["lab"] = {"evaluation": True, "selection_rates": _rates(names, joined)}
        called = {f"group {place}": name for place, name in enumerate(names)}
        columns = {f"column {place}": name for place, name in enumerate(_world(case).schema.names)}
        return {**metrics, **first_estimates(joined["estimates"], called | columns)}, series


def _rates(names: tuple[str, ...], joined: Part) -> dict[str, Any]:
    """How often somebody of each group who was shown was chosen, with a 95 % interval over all runs."""
    chosen, shown = joined["selections"].sum(axis=0), joined["shown"].sum(axis=0)
    rate = np.divide(chosen, shown, out=np.full(len(names), np.nan), where=shown > 0)
    low, high = wilson(rate, shown)
    return {
        name: {"value": number(a), "low": number(b), "high": number(c)} for name, a, b, c in zip(names, rate, low, high)
    }


def _world(case: Case) -> MeritocraticEnvironment:
    environment = case.environment
    if not isinstance(environment, MeritocraticEnvironment):
        raise SpecError("a meritocratic environment shows candidates", path="environment.name", given=environment.name)
    return environment


def make_runner(case: Case, streams: Streams) -> Runner:
    """The compiled runner of a policy, or its step interface where it has none."""
    found: Any = case.policy.simulator(case, streams)
    return StepRunner(case.policy, case, streams) if found is None else found


def _one_run(case: Case, run: int) -> Part:
    spec, environment, runner = case.spec, _world(case), make_runner(case, case.streams(run))
    reference = _Reference(environment, generator(spec["seed"], "reference"))
    count, groups = len(spec["checkpoints"]), environment.groups
    curves: dict[str, Floats] = {name: np.full(count, np.nan) for name in CURVES}
    tally = _Tally(groups)
    at = 0
    first = 0
    while first < spec["rounds"]:
        # A chunk never crosses a checkpoint, so theta is read at the checkpoint itself.
        size = min(CHUNK, spec["rounds"] - first, (spec["checkpoints"][at] if at < count else spec["rounds"]) - first)
        first += size
        tally.add(runner.advance(first))
        while at < count and spec["checkpoints"][at] <= first:
            curves["fair_regret"][at] = tally.fair
            curves["reward_regret"][at] = tally.reward
            curves["parity_gap"][at] = parity_gap(tally.chosen, tally.shown)
            theta = runner.theta()
            if theta is not None:
                curves["theta_error"][at] = reference.error(theta)
            at += 1
    uncertainty = runner.rank_uncertainty()
    return {
        **curves,
        "selections": tally.chosen.astype(np.float64),
        "shown": tally.shown.astype(np.float64),
        "estimates": noted_estimates(case.policy, runner.published() if run == 0 else None),
        "rank_error": np.float64(tally.rank_error / tally.ranked if tally.ranked else np.nan),
        "rank_uncertainty": np.full(groups, np.nan) if uncertainty is None else uncertainty,
        "releases": np.float64(runner.releases),
    }


class _Tally:
    """Running totals of one run."""

    def __init__(self, groups: int) -> None:
        self.fair = self.reward = self.rank_error = 0.0
        self.ranked = 0
        self.chosen = np.zeros(groups, np.int64)
        self.shown = np.zeros(groups, np.int64)

    def add(self, played: Played) -> None:
        chunk, slots, estimates = played
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
