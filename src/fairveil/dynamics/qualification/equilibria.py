"""Equilibria, their stability, and whether the plain dynamics settles, cycles or wanders.

And three ways to change the long run: other fair thresholds, separate thresholds, better transitions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairveil.dynamics.population import Population, halved, optimal_thresholds
from fairveil.dynamics.qualification.model import EDGE, Qualification
from fairveil.errors import AssumptionError

SETTLED = 1e-12
STILL = 1e-9
#: Longest cycle that is recognised as one; anything longer is reported as period 0.
LONGEST = 16


@dataclass(frozen=True)
class Settling:
    """How the undamped dynamics ends, per instance.

    ``period`` is 1 for convergence, p >= 2 for a cycle, 0 for motion without a short period; ``swing`` is the largest
    difference between the states visited at the end. ``after`` is the state after the steps asked for; ``final`` the
    one, often much later, from which this was seen.
    """

    after: np.ndarray
    final: np.ndarray
    period: np.ndarray
    swing: np.ndarray
    steps: np.ndarray

    @property
    def oscillates(self) -> np.ndarray:
        return self.period != 1


def settle(system: Qualification, steps: int = 200, start: np.ndarray | None = None, patience: int = 20) -> Settling:
    """Iterate the plain dynamics and say how it ends. Instances that have settled are not iterated further.

    After ``steps`` steps, what neither settled nor cycles goes on for up to ``patience`` times as many steps: a slowly
    shrinking oscillation is convergence, not a cycle. Fewer steps than it takes to see the longest cycle twice are
    followed by as many.
    """
    watched = max(steps, 2 * LONGEST + 1)
    now = np.array(system.people.qualified if start is None else start, dtype=float)
    size = system.size
    period = np.zeros(size, dtype=np.int64)
    swing, used = np.zeros(size), np.zeros(size, dtype=np.int64)
    live = np.arange(size)
    active = system
    theta: np.ndarray | None = None
    memory = np.empty((2 * LONGEST + 1, size, now.shape[1]))
    memory[0] = now
    after = now
    for t in range(1, watched * (patience + 1) + 1):
        following, theta = active.advance(now[live], theta)
        change = np.abs(following - now[live]).max(axis=1)
        now[live] = following
        after = now.copy() if t <= steps else after
        slot = t % len(memory)
        memory[slot][live] = following
        used[live] = t
        done = change < SETTLED
        period[live[done]] = 1
        if t % watched == 0:
            cycle = _cycle(memory, slot, live)
            moved = np.ptp(memory[:, live], axis=0).max(axis=1)
            # Rounding can keep a settled state from standing still: a repeat without a visible swing is rest.
            done |= moved < STILL
            period[live[moved < STILL]] = 1
            fresh = (cycle > 1) & ~done
            period[live[fresh]], swing[live[fresh]] = cycle[fresh], moved[fresh]
            done |= fresh
        if done.any():
            live, theta = live[~done], theta[~done]
            if not live.size:
                break
            active = system.select(live)
    if live.size:
        recent = memory[:, live]
        swing[live] = (recent.max(axis=0) - recent.min(axis=0)).max(axis=1)
        # Still creeping towards a point counts as settled; visibly moving does not.
        period[live] = np.where(swing[live] < 1e-6, 1, 0)
    return Settling(after, now, period, swing, used)


def _cycle(memory: np.ndarray, slot: int, live: np.ndarray) -> np.ndarray:
    """Smallest repeat length of the last states, 0 where there is none up to LONGEST."""
    length = len(memory)
    order = [(slot - back) % length for back in range(length)]
    recent = memory[order][:, live]
    found = np.zeros(live.size, dtype=np.int64)
    for lag in range(LONGEST, 1, -1):
        same = np.abs(recent[: LONGEST + 1] - recent[lag : LONGEST + 1 + lag]).max(axis=(0, 2)) < 1e-11
        found[same] = lag
    return found


def fixed_point(
    system: Qualification, start: np.ndarray, steps: int = 400, close: float = 1e-3
) -> tuple[np.ndarray, np.ndarray]:
    """A fixed point from each start: damped iteration until moves are below ``close``, then Newton. (rates, residual).

    Damping keeps the fixed points and tames the oscillation that a strong response to the policy causes.
    """
    now = np.array(start, dtype=float)
    pace = np.full(system.size, 0.5)
    live = np.arange(system.size)
    active = system
    before = np.full(system.size, np.inf)
    theta: np.ndarray | None = None
    for _ in range(steps):
        following, theta = active.advance(now[live], theta)
        move = following - now[live]
        size = np.abs(move).max(axis=1)
        slower = size > 0.95 * before[live]
        pace[live[slower]] = np.maximum(0.02, 0.8 * pace[live[slower]])
        before[live] = size
        now[live] = np.clip(now[live] + pace[live, None] * move, EDGE, 1.0 - EDGE)
        done = size < close
        if done.any():
            live, theta = live[~done], theta[~done]
            if not live.size:
                break
            active = system.select(live)
    return polish(system, now)


def polish(system: Qualification, guess: np.ndarray, rounds: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Newton on step(alpha) - alpha from a good guess; a step that does not help is not taken. (rates, residual)."""
    now = np.array(guess, dtype=float)
    following, theta = system.advance(now)
    gap = following - now
    live = np.arange(system.size)
    for _ in range(rounds):
        live = live[np.abs(gap[live]).max(axis=1) > 2e-15]
        if not live.size:
            break
        part = system.select(live)
        slope = jacobian(part, now[live], theta[live]) - np.eye(now.shape[1])
        try:
            change = np.linalg.solve(slope, -gap[live][..., None])[..., 0]
        except np.linalg.LinAlgError:
            break
        trial = np.clip(now[live] + change, EDGE, 1.0 - EDGE)
        following, moved = part.advance(trial, theta[live])
        new = following - trial
        better = np.abs(new).max(axis=1) < np.abs(gap[live]).max(axis=1)
        live = live[better]
        now[live], gap[live], theta[live] = trial[better], new[better], moved[better]
    return now, np.abs(gap).max(axis=1)


def jacobian(system: Qualification, at: np.ndarray, theta: np.ndarray | None = None, width: float = 1e-6) -> np.ndarray:
    """Derivative of one step (instances, groups, groups) by central differences; ``theta`` are thresholds nearby."""
    groups = at.shape[1]
    out = np.empty((at.shape[0], groups, groups))
    for r in range(groups):
        reach = np.minimum(width, 0.5 * np.minimum(at[:, r], 1.0 - at[:, r]))
        up, down = at.copy(), at.copy()
        up[:, r] += reach
        down[:, r] -= reach
        out[:, :, r] = (system.step(up, theta) - system.step(down, theta)) / (2.0 * reach)[:, None]
    return out


def stable(system: Qualification, at: np.ndarray) -> np.ndarray:
    """Is a fixed point attracting under the plain dynamics? Spectral radius of the step below one."""
    return np.abs(np.linalg.eigvals(jacobian(system, at))).max(axis=1) < 1.0


@dataclass(frozen=True)
class Longrun:
    """Where a batch ends: the equilibrium reached (or surrounded) from the start, and what is known about it."""

    equilibrium: np.ndarray
    settling: Settling
    unique: np.ndarray
    stable: np.ndarray


def long_run(system: Qualification, steps: int = 200) -> Longrun:
    """Equilibrium reached from the starting rates, how the dynamics ends, and whether other equilibria were found.

    If the dynamics cycles, the equilibrium is the fixed point that damped iteration reaches from the cycle. Other
    equilibria are sought from the corners of the unit square (all low, all high, and mixed), which is exhaustive
    without a constraint: groups then move on their own, and the lowest and highest fixed points bound the others.
    """
    ending = settle(system, steps)
    groups = system.people.groups
    found, _ = polish(system, ending.final)
    moving = np.flatnonzero(ending.oscillates)
    if moving.size:
        found[moving] = fixed_point(system.select(moving), ending.final[moving])[0]
    unique = np.ones(system.size, dtype=bool)
    for corner in _corners(groups):
        other, residual = fixed_point(system, np.broadcast_to(corner, found.shape))
        unique &= (np.abs(other - found).max(axis=1) < 1e-6) | (residual > 1e-9)
    return Longrun(found, ending, unique, stable(system, found))


def _corners(groups: int) -> list[np.ndarray]:
    low, high = 0.01, 0.99
    starts = [np.full(groups, low), np.full(groups, high)]
    for s in range(groups if groups > 1 else 0):
        mixed = np.full(groups, low)
        mixed[s] = high
        starts.append(mixed)
    return starts


def equilibria(system: Qualification, per_axis: int = 9) -> list[tuple[np.ndarray, bool]]:
    """Every equilibrium of one instance that Newton and damped iteration find from a grid of starts, with stability."""
    if system.size != 1:
        raise ValueError("equilibria takes one instance; select it from the batch")
    groups = system.people.groups
    axis = np.linspace(0.02, 0.98, per_axis if groups <= 2 else 4)
    starts = np.array(np.meshgrid(*[axis] * groups)).reshape(groups, -1).T
    many = system.select(np.zeros(len(starts), dtype=int))
    points = np.concatenate([polish(many, starts, 30)[0], fixed_point(many, starts)[0]])
    residual = np.abs(system.select(np.zeros(len(points), dtype=int)).step(points) - points).max(axis=1)
    kept: list[np.ndarray] = []
    for point in points[residual < 1e-10]:
        if all(np.abs(point - other).max() > 1e-6 for other in kept):
            kept.append(point)
    kept.sort(key=lambda point: tuple(point))
    return [(point, bool(stable(system, point[None])[0])) for point in kept]


def other_utility(system: Qualification, gain: float, loss: float) -> Qualification:
    """A sub-optimal fair policy: thresholds that would be optimal for another gain and loss (proposition 3).

    They satisfy the same constraint at every step and lie above the optimal ones for every qualification rate when
    loss/gain is larger, below when it is smaller.
    """

    def rule(people: Population) -> np.ndarray:
        size = people.size
        changed = replace(people, gain=np.full(size, float(gain)), loss=np.full(size, float(loss)))
        return optimal_thresholds(changed, system.fairness, system.rate)

    return replace(system, rule=rule)


def constant_thresholds(system: Qualification, thresholds: Any) -> Qualification:
    """The same thresholds at every step; each group then moves affinely towards one stable equilibrium."""
    fixed = np.broadcast_to(np.asarray(thresholds, dtype=float), (system.size, system.people.groups)).copy()

    def rule(people: Population) -> np.ndarray:
        return fixed if people.size == len(fixed) else fixed[: people.size]

    if np.ptp(fixed, axis=0).max() > 0 and system.size > 1:
        raise ValueError("constant_thresholds takes one instance, or the same thresholds for all")
    return replace(system, rule=rule)


def reachable(transitions: Any) -> tuple[float, float]:
    """The odds (1 - alpha)/alpha that some threshold of a group can make an equilibrium (proposition 4).

    >>> reachable([[0.4, 0.5], [0.5, 0.9]])
    (0.19999999999999996, 1.25)
    """
    (t00, t01), (t10, t11) = transitions
    return (1.0 - max(t11, t10)) / max(t01, t00), (1.0 - min(t11, t10)) / min(t01, t00)


def common_rates(system: Qualification, instance: int = 0) -> tuple[float, float] | None:
    """Qualification rates that every group can be led to, or None when there is none."""
    spans = [reachable(table) for table in system.transitions[instance]]
    low, high = max(span[0] for span in spans), min(span[1] for span in spans)
    return (1.0 / (1.0 + high), 1.0 / (1.0 + low)) if low <= high else None


def equalising(system: Qualification, target: float, instance: int = 0) -> np.ndarray:
    """Constant thresholds (groups,) that lead every group to the same rate ``target`` (proposition 4).

    h(theta) = (1 - g1)/g0 runs monotonically between the ends of `reachable` under conditions 1a and 1b; it is inverted
    by halving. Constant thresholds make each group's step affine with slope g1 - g0 in (-1, 1), so the rate converges
    from everywhere; thresholds that merely fall with the rate need not under condition 1b.
    """
    one = system.select(np.array([instance]))
    people, odds = one.people, 1.0 / target - 1.0
    out = np.empty(people.groups)
    for s in range(people.groups):
        low, high = reachable(one.transitions[0, s])
        if not low <= odds <= high:
            raise AssumptionError(
                "no threshold leads this group to the rate",
                path=f"groups.{people.names[s]}",
                given=target,
                allowed=f"a rate in [{1 / (1 + high):.6g}, {1 / (1 + low):.6g}]",
            )
        out[s] = _equaliser(one, s, odds)
    return out


def _equaliser(one: Qualification, s: int, odds: float) -> float:
    """Where h of one group has this height."""
    f0, f1 = one.people.features(0, s)
    (t00, t01), (t10, t11) = one.transitions[0, s]

    def height(x: float) -> float:
        keep = t10 * f1.cdf(x) + t11 * f1.sf(x)
        return float((1.0 - keep) / (t00 * f0.cdf(x) + t01 * f0.sf(x)))

    left, right = one.people.reach(0, s)
    rising = height(right) >= height(left)
    return halved(left, right, lambda x: (height(x) < odds) != rising)


def raised(system: Qualification, group: int, state: int, decision: int, by: float) -> Qualification:
    """Better transitions: one chance of one group raised by ``by`` (proposition 5).

    The group's own equilibrium rises. Under condition 1a with a constraint the other group's can fall.
    """
    transitions = system.transitions.copy()
    transitions[:, group, state, decision] = np.minimum(transitions[:, group, state, decision] + by, 1.0 - 1e-9)
    return replace(system, transitions=transitions)
