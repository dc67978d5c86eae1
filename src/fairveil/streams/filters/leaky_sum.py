"""Memory at event level: a leaky sum is released instead of the value, and the filters carry that sum as a state.

y_t = c g_t + noise with g_t = z_t + a z_(t-1) + ... + a^(J-1) z_(t-J+1) and c = sqrt(1 - a^2): one event moves the
outputs by c a^j, l2 norm at most 1, so the noise is that of one release while a slow signal is seen many times. The
sum is cut after J steps, so that a change ends. It is raw data: it is never stored, and after a restart it begins at
0 again (the filters are told; an event then meets fewer outputs).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fairveil.arrays import Floats
from fairveil.compiling import njit
from fairveil.streams.filters.kalman_bank import LEVEL, ROWS, exponentials, logarithms, mixture, models_of
from fairveil.streams.protocol import SEEN, TIME

OWN, WORK = 10, 7
"""Vectors of experts: learnt ones, and working memory."""
CLIP = 2.0**44
"""Values are cut here (in grid units; 2^18 noise stds), so that rounding of the sum stays within the slack."""


class LeakyBeliefs(NamedTuple):
    """What the experts learnt, one vector each: deviation u, level m, leaky sum g, their covariances, log weight."""

    u: Floats
    m: Floats
    g: Floats
    uu: Floats
    um: Floats
    mm: Floats
    ug: Floats
    mg: Floats
    gg: Floats
    w: Floats


def slack(reach: int) -> float:
    """How far rounding can move one released sum, in grid units."""
    return 2.0 + reach / 512.0


@njit(cache=True, nogil=True)
def leak(ring, values, coefficients, out):
    """Leaky sums of the values (NaN counts as 0). ``ring``: place, then the last values; changed in place."""
    reach = len(coefficients)
    for t in range(len(values)):
        place = int(ring[0])
        ring[1 + place] = 0.0 if np.isnan(values[t]) else values[t]
        total = 0.0
        for j in range(reach):
            total += coefficients[j] * ring[1 + (place - j) % reach]
        ring[0] = (place + 1) % reach
        out[t] = total


@njit(cache=True, nogil=True, error_model="numpy")
def filter_leaky(memory, signal):
    """As `fairveil.streams.filters.kalman_bank.filter_bank`, for releases of a leaky sum; no seasons, no lag."""
    v, r, seen, out = signal
    n, counts, keep, kept = memory.shape[0], memory.counts, memory.shared[0], memory.shared[1]
    size = math.sqrt(1.0 - kept * kept)
    model, every = models_of(memory.shared[2:].reshape(ROWS, n)), memory.numbers.reshape(OWN, n)
    own = LeakyBeliefs(
        every[0], every[1], every[2], every[3], every[4], every[5], every[6], every[7], every[8], every[9]
    )
    rest = memory.work[: WORK * n].reshape(WORK, n)
    totals, logs, weights, spare, means, spreads, errors = rest[0], rest[1], rest[2], rest[3], rest[4], rest[5], rest[6]
    for t in range(len(v)):
        counts[TIME] += 1
        if counts[SEEN] == 0 and seen[t] == 0:
            out[t, 0] = out[t, 1] = np.nan
            continue
        if counts[SEEN] == 0:
            every[:-1] = 0.0
            own.m[:], own.uu[:], own.mm[:] = v[t] / size, model.first, LEVEL
        counts[SEEN] += seen[t] > 0
        for i in range(n):
            rho, k = model.rho[i], model.trend[i]
            h = 1.0 - k
            u = rho * own.u[i]
            m = own.m[i] + k * u
            cross = rho * own.um[i]
            uu = rho * rho * own.uu[i] + model.noise[i]
            um = cross + k * uu
            mm = own.mm[i] + model.drift[i] + k * (2.0 * cross + uu)
            old_u = rho * own.ug[i]
            old_m = own.mg[i] + k * old_u
            zu, zm = h * uu + um, h * um + mm
            signal, joins = h * zu + zm, seen[t]  # a missing value does not enter the sum
            g = kept * own.g[i] + joins * (h * u + m)
            ug = kept * old_u + joins * zu
            mg = kept * old_m + joins * zm
            gg = kept * kept * own.gg[i] + joins * (2.0 * kept * (h * old_u + old_m) + signal)
            total = size * size * gg + r[t]
            gain = seen[t] * size / total
            e = v[t] - size * g
            zg = h * ug + mg
            own.u[i], own.m[i], own.g[i] = u + ug * gain * e, m + mg * gain * e, g + gg * gain * e
            gain *= size
            own.uu[i], own.um[i], own.mm[i] = uu - ug * ug * gain, um - ug * mg * gain, mm - mg * mg * gain
            own.ug[i], own.mg[i], own.gg[i] = ug - ug * gg * gain, mg - mg * gg * gain, gg - gg * gg * gain
            means[i] = h * own.u[i] + own.m[i]
            spreads[i] = signal - zg * zg * gain
            totals[i], errors[i] = total, e * e / total
        if seen[t] > 0:
            logarithms(totals, totals.view(np.int64), logs)
            for i in range(n):
                own.w[i] = keep * own.w[i] - 0.5 * (logs[i] + errors[i])
        exponentials(own.w, own.w.max(), weights, spare, spare.view(np.int64))
        out[t, 0], out[t, 1] = mixture(means, spreads, weights)


def forget_sum(numbers: Floats, experts: int) -> None:
    """After a restart the leaky sum is 0 again, for certain."""
    own = LeakyBeliefs(*numbers.reshape(OWN, experts))
    for part in (own.g, own.ug, own.mg, own.gg):
        part[:] = 0.0
