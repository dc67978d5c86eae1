"""Participation: theorems 12-16 as checks on one instance of two groups."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np

from fairveil.dynamics.assumptions import assumption_7, feature_violations
from fairveil.dynamics.distributions import pair
from fairveil.dynamics.mixtures import log_ratio
from fairveil.dynamics.participation.limits import limit
from fairveil.dynamics.participation.model import Composition, History, Participation, Response, simulate
from fairveil.dynamics.population import Population, measure, optimal_thresholds
from fairveil.lab.theorems.checks import Check, check
from fairveil.lab.theorems.premises import Two, of_model

#: Thresholds pinned to the end of a support, where a density jumps, are known to about 1e-9.
SAME = 1e-8

#: What decisions found by brute force are off by, in rates.
JITTER = 1e-3

MONOTONE = "monotonicity condition"
FALLING = "retention falls with the loss"

#: Inside the overlap nothing jumps: shares are exact to a few rounding errors.
ROUNDING = 1e-12

Course = tuple[np.ndarray, np.ndarray]
"""Do thresholds rise, and which group do they leave behind: the direction and the group b of condition (C.4)."""


def psi(system: Participation, thresholds: np.ndarray) -> float:
    """The function of table 4.1 that equals n_a/n_b at the one-shot decision (two groups, one instance).

    Outside the overlap the likelihood ratio is 0 or infinite; the other columns of the table are those limits.
    """
    people = system.people
    odds = []
    for s in (0, 1):
        f0, f1 = people.feature(0, s, 0), people.feature(0, s, 1)
        alpha = people.qualified[0, s]
        ratio = log_ratio(pair(f0, f1), float(thresholds[s]))
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


def theorem_14(system: Participation, share: float, other: float) -> Check:
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
        lambda: bool(change.min() <= SAME and change.max() >= -SAME),
        psi=values,
        ratio=target,
        change=change.tolist(),
    )


def _treated(two: Two, system: Participation, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Losses and retentions (shares, groups) of the decisions that brute force finds best at each share of group a."""
    rates = np.array([side.rate for side in two.sides])
    losses, stays = [], []
    for share in shares:
        found = replace(two, share=(float(share), 1.0 - float(share))).accepted(system.fairness, rates)
        above0, above1 = (np.array([[found[s][y][0, 1] for s in (0, 1)]]) for y in (0, 1))
        loss = rates * (1.0 - above1) + (1.0 - rates) * above0
        accepted = rates * above1 + (1.0 - rates) * above0
        seen = SimpleNamespace(loss=loss, above0=above0, below1=1.0 - above1, accepted=accepted, qualified=rates)
        losses.append(loss[0])
        assert system.stay is not None
        stays.append(system.stay(seen)[0])  # type: ignore[arg-type]
    return np.array(losses), np.array(stays)


def monotone(system: Participation, first: float, points: int = 24) -> bool:
    """The monotonicity condition, by brute force: a larger share of group a raises its retention and lowers b's."""
    stay = _treated(of_model(system), system, np.linspace(0.5 * first, 0.5 * (1.0 + first), points))[1]
    steps = np.diff(stay, axis=0) * (1.0, -1.0)
    return bool(np.all(steps > -JITTER) and np.all(steps.sum(axis=0) > 0.01))


def theorem_12(system: Participation, steps: int = 60) -> Check:
    """Under the monotonicity condition the group that is kept better at first gains ground for ever."""
    first = float(system.arrivals[0, 0] / system.arrivals[0].sum())
    seen: dict[str, float] = {}

    def holds() -> bool:
        history = simulate(system, steps)
        share, stay = history.share[:, 0, 0], history.retention[:, 0]
        sign = np.sign(stay[0, 0] - stay[0, 1])
        seen.update(first=float(share[0]), last=float(share[-1]))
        return (
            bool(np.all(sign * np.diff(share) >= -SAME))
            and bool(np.all(sign * np.diff(stay[:, 0]) >= -SAME))
            and bool(np.all(sign * np.diff(stay[:, 1]) <= SAME))
        )

    def apart() -> bool:
        stay = _treated(of_model(system), system, np.array([first]))[1][0]
        return abs(stay[0] - stay[1]) > 2 * JITTER and float(stay.min()) > 0.0

    premises = {"retentions differ at first": apart, MONOTONE: lambda: monotone(system, first)}
    return check(f"theorem 12 ({system.fairness})", premises, holds, seen=seen)


def theorem_13(system: Participation, share: float, other: float) -> Check:
    """Retention that falls with the loss meets the monotonicity condition wherever losses differ between two shares."""
    low, high = sorted((share, other))

    def differ() -> bool:
        losses = _treated(of_model(system), system, np.array([low, high]))[0]
        return bool(np.abs(losses[1] - losses[0]).min() > 2 * JITTER)

    def holds() -> bool:
        assert system.stay is not None
        stays = [system.stay(system.at_share(np.array([[n, 1.0 - n]]))[1])[0] for n in (low, high)]
        return bool(stays[1][0] > stays[0][0] and stays[1][1] < stays[0][1])

    premises = {
        FALLING: isinstance(system.stay, Response) and system.stay.driver == "accuracy",
        "losses differ between the two shares": differ,
    }
    return check(f"theorem 13 ({system.fairness})", premises, holds)


def theorem_15(system: Participation, steps: int = 20000) -> Check:
    """Thresholds converge monotonically and the shares to (beta_a/beta_b) (1 - lambda_b)/(1 - lambda_a)."""
    return theorem_15_batch(system, steps)[0]


def theorem_15_batch(system: Participation, steps: int = 20000) -> list[Check]:
    """`theorem_15` for every instance of a batch, many times faster than one by one."""
    assert system.stay is not None
    end = limit(system)
    moves = np.diff(simulate(system, 200).thresholds, axis=0)
    monotone = np.all(np.all(moves >= -1e-9, axis=0) | np.all(moves <= 1e-9, axis=0), axis=1)
    stay = system.stay(measure(system.people, end.thresholds))
    arrivals = system.arrivals
    ratio = arrivals[:, 0] / arrivals[:, 1] * (1.0 - stay[:, 1]) / (1.0 - stay[:, 0])
    odds = end.share[:, 1] / end.share[:, 0]
    fits = np.abs(ratio * odds - 1.0) < 1e-6
    turned = np.abs((arrivals[:, 0] / arrivals[:, 1]) ** 2 / ratio * odds - 1.0) < 1e-6
    far = np.abs(_run_out(system, steps) - end.share[:, 0])
    held = monotone & fits & (far < 1e-4)

    def see(k: int) -> Check:
        return check(
            f"theorem 15 ({system.fairness})",
            {
                "features rise and fall on the overlap (assumption 7)": all(assumption_7(system.people, k).values()),
                "simple, eqopt or dp": system.fairness in ("simple", "eqopt", "dp"),
                "retention driven by loss or disparity": isinstance(system.stay, Response)
                and system.stay.driver in ("accuracy", "disparity"),
            },
            lambda: held[k],
            lambda: turned[k],
            limit=float(end.share[k, 0]),
            distance=float(far[k]),
        )

    return [see(k) for k in range(system.people.size)]


def _run_out(system: Participation, steps: int) -> np.ndarray:
    """The first group's share (instances,) when its numbers have settled, or after so many steps.

    With retention r, a last move m leaves about m/(1 - r) to go: settled is less than a millionth of the numbers.
    """
    out = np.array(system.arrivals, dtype=float)
    rows, some, now = np.arange(len(out)), system, out.copy()
    theta = None
    for t in range(steps):
        people = some.people.with_rates(share=now / now.sum(axis=1, keepdims=True))
        theta = some.thresholds(people, t, theta)
        assert some.stay is not None
        stay = some.stay(measure(people, theta))
        following = some.growth.step(now, stay, np.ones_like(now), some.arrivals)
        out[rows] = following
        still = np.abs(following / now - 1.0).max(axis=1) >= 1e-6 * (1.0 - stay.max(axis=1))
        now = following
        if not still.all():
            rows, now, theta, some = rows[still], now[still], theta[still], some.select(still)
            if not rows.size:
                break
    return np.asarray(out[:, 0] / out.sum(axis=1))


def theorem_16(system: Participation, steps: int = 40) -> Check:
    """Features that react to decisions (``drift``) make disparity worse, and faster than fixed ones would.

    Conditions 3 and 4 ask that features react slowly compared with decisions. They are evaluated step by step; the
    proof is an induction, so the conclusion is asked for the shares that follow every step at which they held.
    """
    still, moving = _paths(system, steps)
    course = _course(still)
    held = 1
    while held + 2 < steps and _slow_from(system, course, still, moving, held)[0]:
        held += 1
    share, fixed = moving.share[: held + 2, 0, 0], still.share[: held + 2, 0, 0]
    sign = np.sign(still.retention[0, 0, 0] - still.retention[0, 0, 1])
    return check(
        f"theorem 16 ({system.fairness})",
        {
            "features rise and fall on the overlap (assumption 7)": all(assumption_7(system.people).values()),
            "monotone likelihood ratio": not feature_violations(system.people),
            "simple, eqopt or dp": system.fairness in ("simple", "eqopt", "dp"),
            "retentions differ at first": sign != 0,
            "features react slowly (conditions 3 and 4)": held > 1,
            "thresholds stay inside both overlaps": inside(system, still.thresholds[: held + 1])[0]
            and inside(system, moving.thresholds[: held + 1])[0],
        },
        lambda: bool(np.all(sign * np.diff(share) >= -ROUNDING) and np.all(sign * (share - fixed) >= -ROUNDING)),
        lambda: bool(np.all(sign * (share - fixed) <= ROUNDING)),
        steps=held,
        fixed=float(fixed[-1]),
        moving=float(share[-1]),
    )


def slow_at_first(system: Participation) -> np.ndarray:
    """Of a batch, the instances (mask) whose first reaction is slow and inside: theorem 16 says nothing about others.

    Well below a millisecond an instance, so that sweeps can look for the premises among many draws.
    """
    found = inside(system, simulate(replace(system, drift=None), 3).thresholds)
    rows = np.flatnonzero(found)
    if rows.size:
        some = system.select(rows)
        still, moving = _paths(some, 3)
        found[rows] = inside(some, moving.thresholds) & _slow_from(some, _course(still), still, moving, 1)
    return found


def _paths(system: Participation, steps: int) -> tuple[History, History]:
    """Without and with drift. Features first react to the move from step 0 to 1: the paths first differ at step 2."""
    return simulate(replace(system, drift=None), steps), simulate(system, steps)


def _course(still: History) -> Course:
    """The theorem fixes both at the start: the group that gains pulls all thresholds towards its own optimum."""
    first = still.thresholds[0]
    rising = (still.thresholds[1] - first).sum(axis=1) > 0.0
    side = first - optimal_thresholds(still.people[0])
    return rising, np.where(rising, np.argmax(side, axis=1), np.argmin(side, axis=1))


def inside(system: Participation, thresholds: np.ndarray) -> np.ndarray:
    """Where only one label lives, pushing a density down on the overlap raises it: the lemmas leave that out."""
    people = system.people
    reach = np.array([item.reach for item in people.distributions])[people.which]
    low, high = reach[..., 0].max(axis=2), reach[..., 1].min(axis=2)
    return np.all((thresholds >= low + 1e-6) & (thresholds <= high - 1e-6), axis=(0, 2))


def _slow_from(system: Participation, course: Course, still: History, moving: History, t: int) -> np.ndarray:
    """Condition 3 between steps t and t + 1 (counted from zero), and condition 4 at step t + 1."""
    new, y = moving.people[t + 1], moving.thresholds[t + 1]
    slow = slow_labels if isinstance(system.drift, Composition) else slow_features
    step = slow(course, moving.people[t], moving.thresholds[t], new, y)
    return step & slow(course, still.people[0], still.thresholds[t + 1], new, y)


def slow_labels(_: Course, old: Population, x: np.ndarray, new: Population, y: np.ndarray) -> np.ndarray:
    """(C.3): what the moved label rates change is outweighed by the move x -> y, in both groups."""
    before = measure(old, x)
    shift = np.abs((new.qualified - old.qualified) * (before.above0 - before.below1))
    swing = np.abs(measure(new, y).loss - measure(new, x).loss)
    return np.all((shift < swing) & (swing > 1e-12), axis=1)


def slow_features(course: Course, old: Population, x: np.ndarray, new: Population, y: np.ndarray) -> np.ndarray:
    """(C.4): what the moved density can change is outweighed by the move x -> y, in the group left behind."""
    rising, behind = course
    every = np.arange(len(x))
    own = optimal_thresholds(new)
    middle = np.where(rising[:, None], np.maximum(x, own), np.minimum(x, own))
    swing = (measure(new, y).loss - measure(new, middle).loss)[every, behind]
    ahead = np.where(rising[:, None], y > middle, y < middle)[every, behind]
    slow = ahead & (swing > 1e-12)
    for k in np.flatnonzero(slow).tolist():
        s, label = int(behind[k]), int(rising[k])
        f_old, f_new = old.feature(k, s, label), new.feature(k, s, label)
        edge = f_new.reach[1 - label]
        grid = np.linspace(edge, middle[k, s], 501)
        change = float(np.abs(f_new.pdf(grid) - f_old.pdf(grid)).max())
        weight = new.qualified[k, s] if label else 1.0 - new.qualified[k, s]
        slow[k] = change * weight * abs(middle[k, s] - edge) < swing[k]
    return slow
