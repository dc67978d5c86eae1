"""Welfare of a bandit run, round by round, for many runs at once and in memory that does not grow with rounds.

The fair regrets of this family apply a concave function to E[mu_{I_t}] of every round, so the mean over runs comes
before the logarithm. A `Welfare` is fed segments: for each run the arm of each segment and the number of rounds it
lasts. For every power p (1: average, 0: Nash) it keeps the sum over rounds of m_t^p (or log m_t), and for every run
its influence on that sum: sum over rounds of m_t^(p-1) x_rt. The influences give the infinitesimal jackknife over
runs; the second-order term of the logarithm gives the bias of an average of few runs.

The value of a round is mu of the arm that was pulled, or, where the policy drew the arm uniformly, the mean of all
mu (code ``arms``): the expectation over the policy's own coin, which has the same mean over runs and less variance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairveil.arrays import Floats, Ints
from fairveil.bandits.family import Tally
from fairveil.bandits.nash.base import NashPolicy, unknown_arms
from fairveil.bandits.protocol import Policy
from fairveil.bandits.simulate import Case, Simulator
from fairveil.compiling import inner, njit
from fairveil.task import Part

CHUNK_CELLS = 1 << 20
"""Runs times rounds that are held at a time; memory does not grow beyond it."""
WORLD = "world."
"""Before the names of what a world counted itself."""


@dataclass(frozen=True)
class Stretch:
    """What one run hands over: ``codes[j]`` is the arm, or the number of arms for a round that counts at the mean over
    arms, until ``ends[j]``.

    ``pulls`` of every arm and ``uniform`` rounds (drawn at random) are counted from the start of the run. ``ends`` is
    None where every entry is one round.
    """

    codes: NDArray[np.int32]
    pulls: Ints
    uniform: int = 0
    ends: Ints | None = None


@dataclass(frozen=True)
class Snapshot:
    """Welfare after ``rounds`` rounds. Rows are powers; ``influence`` is per run and centred.

    ``bias`` is what an average of few runs takes off the mean logarithm; ``log_runs`` is each run's own mean logarithm.
    """

    rounds: int
    welfare: Floats
    influence: Floats
    bias: float
    log_runs: Floats

    def std(self) -> Floats:
        """Standard deviation over runs of every welfare's jackknife pseudo-values; one run shows no spread."""
        runs = self.influence.shape[1]
        if runs < 2:
            return np.zeros(len(self.welfare))
        return np.sqrt((self.influence**2).sum(axis=1) / (runs - 1))


class RawWelfare(NamedTuple):
    """What a `Welfare` had gathered after some rounds: sums in units of exp(shift), and every run's influence."""

    rounds: int
    sums: Floats
    shifts: Floats
    influence: Floats
    bias: float
    log_runs: Floats


class Segments(NamedTuple):
    """Segments over all runs: sums in units of exp(base), logarithms of means; ``tiny``: some base is used."""

    total: Floats
    base: Floats
    log_mean: Floats
    tiny: bool


class Welfare:
    """Accumulates segments of all runs; `snapshot` may be taken at any time."""

    def __init__(self, means: Floats, log_means: Floats, powers: list[float], runs: int) -> None:
        self.powers = np.array(powers, np.float64)
        self.means = np.append(means, means.mean())
        top = log_means.max()
        average = top + np.log(np.exp(log_means - top).mean()) if np.isfinite(top) else -np.inf
        self.logs = np.append(log_means, average)
        self.runs = runs
        self.rounds = 0
        self.sums = np.zeros(len(powers))
        self.shifts = np.zeros(len(powers))
        self.influence = np.zeros((len(powers), runs))
        self.bias = np.zeros(1)
        self.log_runs = np.zeros(runs)

    def add(self, codes: NDArray[np.int32], lengths: Ints) -> None:
        """``codes[r, s]`` is the arm (``arms``: uniform) of run r in segment s, which lasts ``lengths[s]`` rounds."""
        _add(codes, lengths, self.means, self.logs, self.powers, self.sums, self.shifts, self.influence, self.bias)
        _add_logs(codes, lengths, self.logs, self.log_runs)
        self.rounds += int(lengths.sum())

    def raw(self) -> RawWelfare:
        """What has been gathered until now."""
        return RawWelfare(
            self.rounds, self.sums.copy(), self.shifts.copy(), self.influence.copy(), self.bias[0], self.log_runs.copy()
        )

    def snapshot(self) -> Snapshot:
        return snapshots(self.powers, [self.raw()])[0]


def snapshots(powers: Floats, marks: list[RawWelfare]) -> list[Snapshot]:
    """Welfare at every mark."""
    rounds = np.array([mark.rounds for mark in marks], np.float64)[:, None]
    sums, shifts, influence, bias, log_runs = (
        np.array([mark[part] for mark in marks]) for part in range(1, len(RawWelfare._fields))
    )
    nash, positive = powers == 0, sums > 0
    known = positive | nash
    level = sums / rounds
    np.log(level, out=level, where=positive & ~nash)
    welfare = np.exp((shifts + level) / np.where(nash, 1.0, powers), out=np.zeros_like(sums), where=known)
    moved = welfare[:, :, None] * (influence - influence.mean(axis=2, keepdims=True))
    np.divide(moved, np.where(nash, rounds, sums)[:, :, None], out=moved, where=known[:, :, None])
    columns = zip(marks, welfare, moved, bias / rounds[:, 0], log_runs / rounds)
    return [Snapshot(mark.rounds, own, by_run, float(off), logs) for mark, own, by_run, off, logs in columns]


class NashTally(Tally[Stretch]):
    """What a part holds of every run: pulls, releases, what its world counted and what it has published."""

    policy: Policy
    last: list[Stretch]

    def add(self, seen: list[Stretch]) -> None:
        self.last = seen

    def mark(self, played: list[Simulator[Stretch]]) -> None:
        """Nothing is kept at a checkpoint."""

    def part(self, played: list[Simulator[Stretch]]) -> Part:
        counted = [run.world.counted() for run in played]
        return {
            "pulls": np.array([stretch.pulls for stretch in self.last], np.int64),
            "phase_rounds": np.array([stretch.uniform for stretch in self.last], np.int64),
            "releases": np.array([run.releases for run in played], np.int64),
            "spent": np.array([run.spent for run in played], np.float64),
            **{WORLD + name: np.array([own[name] for own in counted]) for name in counted[0]},
            **published(self.policy, played),
        }


def published(policy: Policy, simulators: list[Simulator[Stretch]]) -> Part:
    """Estimates (runs, arms, 3) and the number of rewards behind them; nothing for policies without estimates."""
    promise = policy.promise
    if not isinstance(policy, NashPolicy) or (promise is not None and not promise.established):
        return {}
    states = [simulator.published() for simulator in simulators]
    rows, used, silent = [], [], []
    for state in states:
        if state is None:  # nothing is open: a window of its own coins
            rows.append(unknown_arms(policy.arms))
            used.append(0.0)
        else:
            rows.append(policy.arm_intervals(state))
            silent.append(policy.answers(state))
            used.append(float(sum(array.sum() for name, array in state.items() if name.split("/")[-1] == "counts")))
    found = {"estimates": np.array(rows), "used": np.array(used)}
    known = [run for run in silent if run is not None]
    return {**found, "answers": np.array(known)} if len(known) == len(rows) else found


class WholeRuns(NashTally):
    """Runs that are few long stretches: a part keeps them, and `merge` puts those of all parts side by side."""

    def __init__(self, case: Case) -> None:
        self.policy, self.checkpoints, self.rounds, self.chunk = case.policy, [], case.rounds, case.rounds

    def part(self, played: list[Simulator[Stretch]]) -> Part:
        every = np.arange(1, self.rounds + 1)
        ends = [every if stretch.ends is None else stretch.ends for stretch in self.last]
        return {
            **super().part(played),
            "ends": np.concatenate(ends),
            "codes": np.concatenate([stretch.codes for stretch in self.last]),
            "cuts": np.cumsum([len(part) for part in ends])[:-1],
        }


class SideBySide(NashTally):
    """All runs of a case, round by round in chunks: their welfare at every checkpoint, and rounds of every arm."""

    threaded = True

    def __init__(self, case: Case, welfare: Welfare) -> None:
        self.policy, self.checkpoints, self.rounds = case.policy, case.checkpoints, case.checkpoints[-1]
        self.chunk = int(np.clip(CHUNK_CELLS // welfare.runs, 256, 1 << 16))
        self.welfare, self.snapshots = welfare, list[Snapshot]()
        self.allocation = np.zeros((len(case.checkpoints), len(welfare.means)))

    def add(self, seen: list[Stretch]) -> None:
        self.last = seen
        codes = np.stack([stretch.codes for stretch in seen])
        self.welfare.add(codes, np.ones(codes.shape[1], np.int64))
        self.allocation[len(self.snapshots)] += np.bincount(codes.ravel(), minlength=self.allocation.shape[1])

    def mark(self, played: list[Simulator[Stretch]]) -> None:
        self.snapshots.append(self.welfare.snapshot())

    def part(self, played: list[Simulator[Stretch]]) -> Part:
        return {
            **super().part(played),
            "welfare": np.array([snapshot.welfare for snapshot in self.snapshots]),
            "influence": np.array([snapshot.influence for snapshot in self.snapshots]),
            "bias": np.array([snapshot.bias for snapshot in self.snapshots]),
            "log_runs": np.array([snapshot.log_runs for snapshot in self.snapshots]),
            "allocation": self.allocation,
        }


@inner
def _over_runs(codes, lengths, means, logs, bias):
    """`Segments`; adds to the bias."""
    runs, segments = codes.shape
    total, square = np.zeros(segments), np.zeros(segments)
    for r in range(runs):
        for s in range(segments):
            value = means[codes[r, s]]
            total[s] += value
            square[s] += value * value
    base = np.zeros(segments)  # logarithm of the unit in which a segment's values are counted
    log_mean = np.empty(segments)
    tiny = False
    for s in range(segments):
        if total[s] < 1e-200:
            tiny = True
            top = -np.inf
            for r in range(runs):
                top = max(top, logs[codes[r, s]])
            base[s] = top
            total[s] = square[s] = 0.0
            if top > -np.inf:
                for r in range(runs):
                    value = math.exp(logs[codes[r, s]] - top)
                    total[s] += value
                    square[s] += value * value
        if total[s] > 0:
            mean = total[s] / runs
            log_mean[s] = base[s] + math.log(mean)
            if runs > 1:
                variance = max(0.0, (square[s] - total[s] * mean) / (runs - 1))
                bias[0] += lengths[s] * variance / (2 * runs * mean * mean)
        else:
            log_mean[s] = -np.inf
    return Segments(total, base, log_mean, tiny)


@njit(cache=True, nogil=True)
def _add(codes, lengths, means, logs, powers, sums, shifts, influence, bias):
    """Take in segments: to every power's sum (counted in units of exp(shift)), and every run's influence on it.

    Nine arguments, one by one: taking a tuple of arrays apart would cost an eighth of a call with few segments.
    """
    runs, segments = codes.shape
    total, base, log_mean, tiny = _over_runs(codes, lengths, means, logs, bias)
    weight = np.empty(segments)
    for row in range(powers.size):
        p = powers[row]
        for s in range(segments):
            if p == 0:
                sums[row] += lengths[s] * log_mean[s]
                weight[s] = lengths[s] * runs / total[s] if total[s] > 0 else 0.0
                continue
            term = p * log_mean[s]
            if term > shifts[row] + 300:  # only where p < 0 meets a tiny mean: count in a larger unit from here on
                factor = math.exp(shifts[row] - term) if term < np.inf else 0.0
                sums[row] *= factor
                for r in range(runs):
                    influence[row, r] *= factor
                for before in range(s):
                    weight[before] *= factor
                shifts[row] = term
            part = lengths[s] * (math.exp(term - shifts[row]) if term < np.inf else 1.0)
            sums[row] += part
            weight[s] = part * runs / total[s] if total[s] > 0 else 0.0
        for r in range(runs):
            gathered = 0.0
            if tiny:
                for s in range(segments):
                    value = means[codes[r, s]] if base[s] == 0.0 else math.exp(logs[codes[r, s]] - base[s])
                    if weight[s] > 0:
                        gathered += weight[s] * value
            else:
                for s in range(segments):
                    gathered += weight[s] * means[codes[r, s]]
            influence[row, r] += gathered


@njit(cache=True, nogil=True)
def _add_logs(codes, lengths, logs, log_runs):
    for r in range(codes.shape[0]):
        gathered = 0.0
        for s in range(codes.shape[1]):
            gathered += lengths[s] * logs[codes[r, s]]
        log_runs[r] += gathered


def merge(ends: list[Ints], codes: list[NDArray[np.int32]], welfare: Welfare, checkpoints: list[int]) -> list[Snapshot]:
    """Feed runs given as intervals (run r pulls codes[r][j] until round ends[r][j]), with a snapshot a checkpoint."""
    offsets = np.concatenate([[0], np.cumsum([len(part) for part in ends])]).astype(np.int64)
    all_ends, all_codes = np.concatenate(ends), np.concatenate(codes).astype(np.int32)
    place = offsets[:-1].copy()
    limit = max(1, min(4096, (1 << 21) // max(1, len(ends))))
    buffer, lengths = np.empty((len(ends), limit), np.int32), np.empty(limit, np.int64)
    marks = []
    for checkpoint in checkpoints:
        while welfare.rounds < checkpoint:
            used = _segments(all_ends, all_codes, place, welfare.rounds, checkpoint, buffer, lengths)
            welfare.add(np.ascontiguousarray(buffer[:, :used]), lengths[:used])
        marks.append(welfare.raw())
    return snapshots(welfare.powers, marks)


@njit(cache=True, nogil=True)
def _segments(ends, codes, place, now, stop, buffer, lengths):
    """Cut [now, stop) at every end of any run; fills at most the buffer and returns the number of segments."""
    used = 0
    while now < stop and used < lengths.size:
        until = stop
        for r in range(place.size):
            until = min(until, ends[place[r]])
        for r in range(place.size):
            buffer[r, used] = codes[place[r]]
            if ends[place[r]] == until:
                place[r] += 1
        lengths[used] = until - now
        now = until
        used += 1
    return used
