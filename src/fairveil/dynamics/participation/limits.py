"""Where participation ends: the stationary shares, without waiting for slow dynamics to get there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairveil.dynamics.participation.model import Participation

#: Shares that reproduce themselves this well are at rest.
CLOSE = 1e-6

#: Points of the scan along the share of the first group.
POINTS = 400


@dataclass(frozen=True)
class RestingShares:
    """Shares (instances, groups) that reproduce themselves, the thresholds and losses there, and how well they do."""

    share: np.ndarray
    thresholds: np.ndarray
    loss: np.ndarray
    residual: np.ndarray


def response(system: Participation, share: np.ndarray) -> np.ndarray:
    """Shares at rest if the decisions made for ``share`` were kept for ever.

    Groups that nobody leaves outgrow the others; among themselves their shares are as what they gain a step.
    """
    _, seen = system.at_share(share)
    numbers = system.rest(seen)
    growing = ~np.isfinite(numbers)
    alone = growing & (growing.sum(axis=1, keepdims=True) == 1)
    gained = np.where(alone, 1.0, np.where(growing, system.pace(seen), 0.0))
    numbers = np.where(growing.any(axis=1, keepdims=True), gained, numbers)
    return numbers / numbers.sum(axis=1, keepdims=True)


def limit(system: Participation, points: int = POINTS) -> RestingShares:
    """Stationary shares that the dynamics reaches from its start (arrivals).

    For two groups the share of the first one moves in one direction until its response crosses it; that crossing is
    bracketed by a scan and halved to full precision, also where the plain iteration would cycle. For more groups the
    response is iterated with damping. ``residual`` says how well the shares reproduce themselves; where they do not
    (the response jumps across the crossing, or has none), there are no resting shares and they are not numbers.

    Reference: theorem 15, n_a/n_b = (beta_a/beta_b) (1 - lambda_b)/(1 - lambda_a).
    """
    start = system.arrivals / system.arrivals.sum(axis=1, keepdims=True)
    share = _two(system, start, points) if start.shape[1] == 2 else _damped(system, start)
    theta, seen = system.at_share(share)
    residual = np.abs(response(system, share) - share).max(axis=1)
    share, theta, loss = (np.where((residual < CLOSE)[:, None], found, np.nan) for found in (share, theta, seen.loss))
    return RestingShares(share, theta, loss, residual)


def _two(system: Participation, start: np.ndarray, points: int) -> np.ndarray:
    def excess(first: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return response(system.select(rows), np.stack([first, 1.0 - first], axis=1))[:, 0] - first

    every = np.arange(len(start))
    near = start[:, 0].copy()
    direction = np.sign(excess(near, every))
    out = near.copy()
    end = np.where(direction > 0, 1.0 - 1e-9, 1e-9)
    far = near.copy()
    open_ = direction != 0
    for k in range(1, points + 1):
        rows = every[open_]
        if not rows.size:
            break
        far[rows] = start[rows, 0] + (end[rows] - start[rows, 0]) * k / points
        crossed = np.sign(excess(far[rows], rows)) != direction[rows]
        near[rows[~crossed]] = far[rows[~crossed]]
        open_[rows[crossed]] = False
    rows = every[(direction != 0) & ~open_]
    for _ in range(80):
        if not rows.size:
            break
        middle = 0.5 * (near[rows] + far[rows])
        same = np.sign(excess(middle, rows)) == direction[rows]
        near[rows[same]], far[rows[~same]] = middle[same], middle[~same]
    out[direction != 0] = np.where(open_, far, 0.5 * (near + far))[direction != 0]
    return np.stack([out, 1.0 - out], axis=1)


def _damped(system: Participation, start: np.ndarray, rounds: int = 2000) -> np.ndarray:
    share, pace = start.copy(), 0.5
    before = np.inf
    for _ in range(rounds):
        move = response(system, share) - share
        size = float(np.abs(move).max())
        if size < 1e-13:
            break
        if size > 0.99 * before:
            pace = max(0.05, 0.9 * pace)
        before = size
        share = share + pace * move
    return share
