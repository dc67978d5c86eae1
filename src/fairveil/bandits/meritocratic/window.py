"""Exact rank counts in a sliding window while the weights change every second round.

Asked for is #{i in window: <x_i, theta> <= <x, theta>}, in float64, for a new theta every second round: recomputing all
scores costs window * features each time. Two observations make it cheap without changing a single count:

* Scores under an old theta_r bound those under theta. With d = theta/a - theta_r (a > 0 rescales, which keeps the
order)
  and any centre m, <x_i, theta>/a = s_i + <m, d> + <x_i - m, d> and |<x_i - m, d>| <= max_i ||x_i - m|| ||d||. Members
  whose old score is farther than that from the threshold need no new dot product; only the band between is recomputed.
* When the band would be wide, all scores are renewed in one float32 pass over columns that lie contiguously in memory
  (half the traffic of float64, four columns at a time); float32 rounding widens the band by a proved bound.

Every member in the band is decided by the same float64 dot product that defines the count.
"""

from __future__ import annotations

import math
from collections import namedtuple

import numpy as np

from fairveil.compiling import njit

Store = namedtuple("Store", "rows columns reference start end centre radius longest theta spread step work")
"""Per group: members as float64 rows and float32 columns, scores under the reference theta, window ends, and bounds.

``step`` is the half-width of the band after the first change of theta since scores were renewed. ``work`` counts
members scored in full passes, members compared and members rechecked, for benchmarks.
"""

RENEWAL = 0.02
"""Cost of scoring one member in a full pass relative to rechecking one, over the density of scores in the band.

Renewing after k changes costs 1/k a change, rechecking a band of half-width k * step costs in proportion to it: the
sum is smallest when the band has half-width sqrt(RENEWAL * step * spread).
"""
LANE = 32
"""Members compared together: a multiple of every vector width."""


def new_store(groups: int, capacity: int, features: int) -> Store:
    return Store(
        np.zeros((groups, capacity, features)),
        np.zeros((groups, features, capacity), np.float32),
        np.zeros((groups, capacity), np.float32),
        np.zeros(groups, np.int64),
        np.zeros(groups, np.int64),
        np.zeros((groups, features)),
        np.zeros(groups),
        np.zeros(groups),
        np.zeros((groups, features)),
        np.zeros(groups),
        np.full(groups, -1.0),
        np.zeros(3, np.int64),
    )


def grown(store: Store, capacity: int) -> Store:
    """The same store with room for more members."""
    bigger = new_store(store.rows.shape[0], capacity, store.rows.shape[2])
    held = store.rows.shape[1]
    bigger.rows[:, :held], bigger.columns[:, :, :held] = store.rows, store.columns
    bigger.reference[:, :held] = store.reference
    for name in ("start", "end", "centre", "radius", "longest", "theta", "spread", "step", "work"):
        getattr(bigger, name)[...] = getattr(store, name)
    return bigger


@njit(cache=True, nogil=True)
def dot(x, theta):
    """The float64 dot product that defines every comparison."""
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i] * theta[i]
    return total


@njit(cache=True, nogil=True)
def add_member(store, group, x):
    """Append one member to a group's window."""
    at = store.end[group]
    features = x.shape[0]
    if at == 0:
        store.centre[group] = x
    distance = 0.0
    length = 0.0
    for i in range(features):
        store.rows[group, at, i] = x[i]
        store.columns[group, i, at] = x[i]
        distance += (x[i] - store.centre[group, i]) ** 2
        length += x[i] ** 2
    store.radius[group] = max(store.radius[group], math.sqrt(distance) * (1.0 + 1e-12))
    store.longest[group] = max(store.longest[group], math.sqrt(length) * (1.0 + 1e-12))
    store.reference[group, at] = dot(x, store.theta[group])
    store.end[group] = at + 1


@njit(cache=True, nogil=True)
def score_columns(columns, theta, first, last, out):
    """out[first:last] = theta . columns in float32, four columns at a time in blocks that stay in the first cache."""
    features = columns.shape[0]
    whole = features - features % 4
    block = 2048
    for low in range(first, last, block):
        high = min(low + block, last)
        target = out[low:high]
        target[:] = np.float32(0.0)
        for j in range(0, whole, 4):
            a, b, c, d = theta[j], theta[j + 1], theta[j + 2], theta[j + 3]
            p, q = columns[j, low:high], columns[j + 1, low:high]
            r, s = columns[j + 2, low:high], columns[j + 3, low:high]
            for i in range(high - low):
                target[i] += (a * p[i] + b * q[i]) + (c * r[i] + d * s[i])
        for j in range(whole, features):
            a = theta[j]
            p = columns[j, low:high]
            for i in range(high - low):
                target[i] += a * p[i]


@njit(cache=True, nogil=True)
def renew(store, group, theta):
    """Score the whole window of a group under theta and make it the reference."""
    first, last = store.start[group], store.end[group]
    store.theta[group] = theta
    score_columns(store.columns[group], theta.astype(np.float32), first, last, store.reference[group])
    scores = store.reference[group, first:last]
    step = max(1, (last - first) // 256)
    count, mean, square = 0, 0.0, 0.0
    for i in range(0, last - first, step):  # a sample is enough: the spread only decides when to renew
        count += 1
        mean += scores[i]
        square += scores[i] * scores[i]
    store.spread[group] = math.sqrt(max(square / count - (mean / count) ** 2, 0.0)) if count > 0 else 0.0
    store.step[group] = -1.0
    store.work[0] += last - first


@njit(cache=True, nogil=True)
def lane_counts(scores, low, high):
    """How many scores lie below ``low`` and how many at or below ``high``; vectorised."""
    below, through = np.int32(0), np.int32(0)
    for i in range(scores.shape[0]):
        below += np.int32(scores[i] < low)
        through += np.int32(scores[i] <= high)
    return below, through


@njit(cache=True, nogil=True)
def count_at_most(store, group, theta, threshold):
    """#{members of the window: <x, theta> <= threshold}, exactly as float64 dot products decide it."""
    first, last = store.start[group], store.end[group]
    if last <= first:
        return 0
    features = theta.shape[0]
    for attempt in range(2):
        product, square = 0.0, 0.0
        for i in range(features):
            product += theta[i] * store.theta[group, i]
            square += store.theta[group, i] ** 2
        scale = product / square if square > 0.0 else 0.0
        distance, shift = 0.0, 0.0
        if scale > 0.0:
            for i in range(features):
                change = theta[i] / scale - store.theta[group, i]
                distance += change * change
                shift += change * store.centre[group, i]
        reach = store.radius[group] * math.sqrt(distance)
        if store.step[group] < 0.0 and reach > 0.0:
            store.step[group] = reach
        allowed = math.sqrt(RENEWAL * max(store.step[group], 0.0) * store.spread[group])
        if attempt == 1 or (scale > 0.0 and reach <= allowed):
            break
        renew(store, group, theta)
    if not scale > 0.0:  # theta is zero or not finite: every score is compared as it is
        count = 0
        for i in range(first, last):
            if dot(store.rows[group, i], theta) <= threshold:
                count += 1
        store.work[2] += last - first
        return count
    # float32 scores of a row differ from exact ones by at most (features + 4) 2^-23 ||x|| ||theta||; a few ulps of
    # float64 for the rest.
    rounding = (features + 4) * 1.2e-7 * store.longest[group] * math.sqrt(square) + 1e-12 * abs(threshold / scale)
    half = reach * (1.0 + 1e-9) + rounding
    middle = threshold / scale - shift
    low, high = np.float32(middle - half), np.float32(middle + half)
    low = np.float32(low - abs(low) * np.float32(2.4e-7))
    high = np.float32(high + abs(high) * np.float32(2.4e-7))
    scores = store.reference[group, first:last]
    rows = store.rows[group, first:last]
    store.work[1] += last - first
    count = 0
    for left in range(0, last - first, LANE):
        right = min(left + LANE, last - first)
        below, through = lane_counts(scores[left:right], low, high)
        count += below
        if through > below:
            store.work[2] += through - below
            for i in range(left, right):
                if low <= scores[i] <= high and dot(rows[i], theta) <= threshold:
                    count += 1
    return count
