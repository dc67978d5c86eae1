"""Memory at event level: a leaky sum is released instead of the value, and the filters carry that sum as a state.

y_t = c g_t + noise with g_t = z_t + a z_(t-1) + ... + a^(J-1) z_(t-J+1) and c = sqrt(1 - a^2): one event moves the
outputs by c a^j, l2 norm at most 1, so the noise is that of one release while a slow signal is seen many times. The
sum is cut after J steps, so that a change ends. It is raw data: it is never stored, and after a restart it begins at
0 again (the filters are told; an event then meets fewer outputs).
"""

from __future__ import annotations

import math

import numpy as np

from fairveil.compiling import njit
from fairveil.streams.bank import (
    DRIFT,
    FIRST,
    LEVEL,
    NOISE,
    PLAIN,
    RHO,
    ROWS,
    SEEN,
    TIME,
    TREND,
    exponentials,
    logarithms,
    mixture,
)

U, M, G, UU, UM, MM, UG, MG, GG, W = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
OWN = 10
WORK = 7
"""Rows of working memory."""
CLIP = 2.0**44
"""Values are cut here (in grid units; 2^18 noise stds), so that rounding of the sum stays within the slack."""


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
def filter_leaky(shape, shared, numbers, counts, work, v, r, seen, out):
    """As `fairveil.streams.bank.filter_bank`, for releases of a leaky sum; no seasons, no lag."""
    n = shape[PLAIN]
    keep, memory = shared[0], shared[1]
    size = math.sqrt(1.0 - memory * memory)
    rows, own = shared[2:].reshape(ROWS, n), numbers.reshape(OWN, n)
    rest = work[: WORK * n].reshape(WORK, n)
    totals, logs, weights, spare, means, spreads, errors = rest[0], rest[1], rest[2], rest[3], rest[4], rest[5], rest[6]
    for t in range(len(v)):
        counts[TIME] += 1
        if counts[SEEN] == 0 and seen[t] == 0:
            out[t, 0] = out[t, 1] = np.nan
            continue
        if counts[SEEN] == 0:
            own[:W] = 0.0
            own[M], own[UU], own[MM] = v[t] / size, rows[FIRST], LEVEL
        counts[SEEN] += seen[t] > 0
        for i in range(n):
            rho, k = rows[RHO, i], rows[TREND, i]
            h = 1.0 - k
            u = rho * own[U, i]
            m = own[M, i] + k * u
            cross = rho * own[UM, i]
            uu = rho * rho * own[UU, i] + rows[NOISE, i]
            um = cross + k * uu
            mm = own[MM, i] + rows[DRIFT, i] + k * (2.0 * cross + uu)
            old_u = rho * own[UG, i]
            old_m = own[MG, i] + k * old_u
            zu, zm = h * uu + um, h * um + mm
            signal, joins = h * zu + zm, seen[t]  # a missing value does not enter the sum
            g = memory * own[G, i] + joins * (h * u + m)
            ug = memory * old_u + joins * zu
            mg = memory * old_m + joins * zm
            gg = memory * memory * own[GG, i] + joins * (2.0 * memory * (h * old_u + old_m) + signal)
            total = size * size * gg + r[t]
            gain = seen[t] * size / total
            e = v[t] - size * g
            zg = h * ug + mg
            own[U, i], own[M, i], own[G, i] = u + ug * gain * e, m + mg * gain * e, g + gg * gain * e
            gain *= size
            own[UU, i], own[UM, i], own[MM, i] = uu - ug * ug * gain, um - ug * mg * gain, mm - mg * mg * gain
            own[UG, i], own[MG, i], own[GG, i] = ug - ug * gg * gain, mg - mg * gg * gain, gg - gg * gg * gain
            means[i] = h * own[U, i] + own[M, i]
            spreads[i] = signal - zg * zg * gain
            totals[i], errors[i] = total, e * e / total
        if seen[t] > 0:
            logarithms(totals, totals.view(np.int64), logs)
            for i in range(n):
                own[W, i] = keep * own[W, i] - 0.5 * (logs[i] + errors[i])
        exponentials(own[W], own[W].max(), weights, spare, spare.view(np.int64))
        out[t, 0], out[t, 1] = mixture(means, spreads, weights)


def forget_sum(numbers: np.ndarray, experts: int) -> None:
    """After a restart the leaky sum is 0 again, for certain."""
    own = numbers.reshape(OWN, experts)
    own[[G, UG, MG, GG]] = 0.0
