"""Participation: theorems 12-16 and lemma 6 as checks on one instance of two groups."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from fairveil.dynamics.assumptions import assumption_7, feature_violations, overlap
from fairveil.dynamics.checks import Check, check
from fairveil.dynamics.kernels import log_ratio
from fairveil.dynamics.measures import measure
from fairveil.dynamics.participation.limits import limit
from fairveil.dynamics.participation.model import History, Model, simulate
from fairveil.dynamics.participation.reshape import Composition
from fairveil.dynamics.population import Population, optimal_thresholds

#: Thresholds pinned to the end of a support, where a density jumps, are known to about 1e-9.
SAME = 1e-8


def psi(system: Model, thresholds: np.ndarray) -> float:
    """The function of table 4.1 that equals n_a/n_b at the one-shot decision (two groups, one instance).

    Outside the overlap the likelihood ratio is 0 or infinite; the other columns of the table are those limits.
    """
    people = system.people
    odds = []
    for s in (0, 1):
        f0, f1 = people.feature(0, s, 0), people.feature(0, s, 1)
        alpha = people.qualified[0, s]
        ratio = log_ratio(f0.code, f0.params, f1.code, f1.params, float(thresholds[s]))
        odds.append(math.exp(min(ratio, 700.0)) * alpha / (1.0 - alpha))
    (ra, rb), (alpha_a, alpha_b) = odds, people.qualified[0]
    if system.fairness == "simple":
        slope = []
        for s in (0, 1):
            alpha = people.qualified[0, s]
            f0, f1 = people.feature(0, s, 0), people.feature(0, s, 1)
            slope.append(alpha * f1.pdf(thresholds[s]) - (1.0 - alpha) * f0.pdf(thresholds[s]))
        return -slope[1] / slope[0]
    if system.fairness == "eqopt":
        return (rb - 1.0) / (1.0 - ra) * (1.0 - alpha_b) / (1.0 - alpha_a)
    return (1.0 - 2.0 / (rb + 1.0)) * (2.0 / (1.0 - ra) - 1.0)


def theorem_14(system: Model, share: float, other: float) -> Check:
    """The decision solves psi = n_a/n_b, and both thresholds rise (or both fall) with group a's share.

    Where a density jumps at the end of its support psi jumps too, and the ratio may fall into the jump: the decision
    then sits on the end, and psi just below and just above it encloses the ratio.
    """
    low, high = sorted((share, other))
    (first, second) = (system.at_share(np.array([[n, 1.0 - n]]))[0][0] for n in (low, high))
    target = low / (1.0 - low)
    values = [psi(system, first + shift) for shift in (-1e-6, 0.0, 1e-6)]
    change = second - first
    fits = abs(values[1] / target - 1.0) < 1e-5 or min(values) <= target <= max(values)
    return check(
        f"theorem 14 ({system.fairness})",
        {
            "features rise and fall on the overlap (assumption 7)": all(assumption_7(system.people).values()),
            "simple, eqopt or dp": system.fairness in ("simple", "eqopt", "dp"),
            "the groups' own optima differ in level": bool(np.abs(change).max() > 1e-9),
        },
        lambda: fits and bool(change.min() >= -SAME or change.max() <= SAME),
        psi=values,
        ratio=target,
        change=change.tolist(),
    )


def theorem_12(system: Model, steps: int = 60) -> Check:
    """A group whose retention is higher at first gains ground for ever: shares and retentions move one way."""
    history = simulate(system, steps)
    share, stay = history.share[:, 0, 0], history.retention[:, 0]
    sign = np.sign(stay[0, 0] - stay[0, 1])
    return check(
        f"theorem 12 ({system.fairness})",
        {
            "features rise and fall on the overlap (assumption 7)": all(assumption_7(system.people).values()),
            "simple, eqopt or dp": system.fairness in ("simple", "eqopt", "dp"),
            "retention driven by loss or disparity": getattr(system.stay, "driver", "") in ("accuracy", "disparity"),
            "retentions differ at first": sign != 0,
        },
        lambda: (
            bool(np.all(sign * np.diff(share) >= -SAME))
            and bool(np.all(sign * np.diff(stay[:, 0]) >= -SAME))
            and bool(np.all(sign * np.diff(stay[:, 1]) <= SAME))
        ),
        first=float(share[0]),
        last=float(share[-1]),
    )


def theorem_15(system: Model, steps: int = 20000) -> Check:
    """Thresholds converge monotonically and the shares to (beta_a/beta_b) (1 - lambda_b)/(1 - lambda_a)."""
    end = limit(system)
    history = simulate(system, 200)
    moves = np.diff(history.thresholds[:, 0], axis=0)
    monotone = all((moves[:, s] >= -1e-9).all() or (moves[:, s] <= 1e-9).all() for s in (0, 1))
    assert system.stay is not None
    far = _run_out(system, steps)
    stay = system.stay(measure(system.people, end.thresholds))[0]
    ratio = system.arrivals[0, 0] / system.arrivals[0, 1] * (1.0 - stay[1]) / (1.0 - stay[0])
    return check(
        f"theorem 15 ({system.fairness})",
        {
            "features rise and fall on the overlap (assumption 7)": all(assumption_7(system.people).values()),
            "simple, eqopt or dp": system.fairness in ("simple", "eqopt", "dp"),
            "retention driven by loss or disparity": getattr(system.stay, "driver", "") in ("accuracy", "disparity"),
        },
        lambda: monotone and abs(ratio * end.share[0, 1] / end.share[0, 0] - 1.0) < 1e-6 and far < 1e-4,
        limit=float(end.share[0, 0]),
        distance=far,
    )


def _run_out(system: Model, steps: int) -> float:
    """Distance of the simulated share from the limit, after enough steps for the slower group to settle."""
    end = limit(system)
    now = np.array(system.arrivals, dtype=float)
    theta = None
    assert system.stay is not None
    for t in range(steps):
        people = system.people.with_rates(share=now / now.sum())
        theta = system.thresholds(people, t, theta)
        stay = system.stay(measure(people, theta))
        following = system.growth.step(now, stay, np.ones_like(now), system.arrivals)
        moved = float(np.abs(following / now - 1.0).max())
        now = following
        if moved < 1e-9:
            break
    return float(abs(now[0, 0] / now.sum() - end.share[0, 0]))


def theorem_16(system: Model, steps: int = 40) -> Check:
    """Features that react to decisions (``drift``) make disparity worse, and faster than fixed ones would.

    Conditions 3 and 4 ask that features react slowly compared with decisions. They are evaluated step by step; the
    proof is an induction, so the conclusion is asked for one step more than they hold.
    """
    still, moving = simulate(replace(system, drift=None), steps), simulate(system, steps)
    held = 2
    while held < steps - 1 and _slow_step(system, moving, held) and _slow_gap(system, still, moving, held):
        held += 1
    share, fixed = moving.share[: held + 1, 0, 0], still.share[: held + 1, 0, 0]
    sign = np.sign(still.retention[0, 0, 0] - still.retention[0, 0, 1])
    return check(
        f"theorem 16 ({system.fairness})",
        {
            "features rise and fall on the overlap (assumption 7)": all(assumption_7(system.people).values()),
            "monotone likelihood ratio": not feature_violations(system.people),
            "simple, eqopt or dp": system.fairness in ("simple", "eqopt", "dp"),
            "retentions differ at first": sign != 0,
            "features react slowly (conditions 3 and 4)": held > 2,
            "thresholds stay inside both overlaps": _inside(system, still.thresholds)
            and _inside(system, moving.thresholds),
        },
        lambda: bool(np.all(sign * np.diff(share) >= -SAME) and np.all(sign * (share - fixed) >= -SAME)),
        steps=held,
        fixed=float(fixed[-1]),
        moving=float(share[-1]),
    )


def _inside(system: Model, thresholds: np.ndarray) -> bool:
    """Where only one label lives, pushing a density down on the overlap raises it: the lemmas leave that out."""
    for s in range(system.people.groups):
        low, high = overlap(system.people.feature(0, s, 0), system.people.feature(0, s, 1))
        if thresholds[:, 0, s].min() < low + 1e-6 or thresholds[:, 0, s].max() > high - 1e-6:
            return False
    return True


def _slow_step(system: Model, path: History, t: int) -> bool:
    """Condition 3 between steps t and t + 1 (counted from zero)."""
    return _slow(system, path.people[t], path.thresholds[t], path.people[t + 1], path.thresholds[t + 1])


def _slow_gap(system: Model, still: History, moving: History, t: int) -> bool:
    """Condition 4 at step t + 1: the drifting population against the fixed one."""
    if np.abs(moving.thresholds[t + 1] - still.thresholds[t + 1]).max() < 1e-12:
        return True
    return _slow(system, still.people[0], still.thresholds[t + 1], moving.people[t + 1], moving.thresholds[t + 1])


def _slow(system: Model, old: Population, x: np.ndarray, new: Population, y: np.ndarray) -> bool:
    """(C.3) for label rates that moved, (C.4) for features that moved: the change of people is outweighed by x -> y."""
    if isinstance(system.drift, Composition):
        before = measure(old, x)
        shift = np.abs((new.qualified - old.qualified) * (before.above0 - before.below1))[0]
        swing = np.abs(measure(new, y).loss - measure(new, x).loss)[0]
        return bool(np.all(shift < swing) and swing.min() > 1e-12)
    rising = bool(y[0, 0] > x[0, 0])
    own = optimal_thresholds(new)[0]
    side = [float(y[0, s] - own[s]) for s in (0, 1)]
    s = int(np.argmax(side)) if rising else int(np.argmin(side))
    label = 1 if rising else 0
    f_old, f_new = old.feature(0, s, label), new.feature(0, s, label)
    middle = max(x[0, s], own[s]) if rising else min(x[0, s], own[s])
    edge = f_new.reach[0] if rising else f_new.reach[1]
    grid = np.linspace(edge, middle, 501)
    change = float(np.abs(f_new.pdf(grid) - f_old.pdf(grid)).max())
    weight = float(new.qualified[0, s]) if rising else 1.0 - float(new.qualified[0, s])
    at = np.array(y)
    at[0, s] = middle
    swing = float((measure(new, y).loss - measure(new, at).loss)[0, s])
    return change * weight * abs(middle - edge) < swing and swing > 1e-12
