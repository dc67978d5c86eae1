"""The compiled kernel of `private-kalman`: many small Kalman filters on the plain release, weighted by evidence.

Everything is in units of the reference noise (its variance is 1 here), so a change of scale changes nothing. An expert
holds a deviation u, a level m and their covariance (A, B, C); an expert of a season also holds one table of phases per
period, whose entries are updated with their own gain (correlations between entries are dropped: mean field).

    predict   u = rho u           m = m + k u          A = rho^2 A + q   B = rho B + k A   C = C + l + k (2 rho B + A)
    see       S = h (h A + B) + (h B + C) + V1 + V2 + r          gains (h A + B)/S, (h B + C)/S, V1/S, V2/S
    weigh     log w = f log w - (log S + e^2/S)/2

k is 1 for a damped trend (u is then the slope and h = 0), else 0; h is 1, or the size of the season against the level
where the deviation is multiplicative. The loops over experts have no branches and no calls, so that the compiler works
on several experts at once; logarithm and exponential are polynomials for that reason, exact to 1e-9, far below what
the weights need. One step costs O(experts), with a lag O(experts x lag); nothing grows with the number of steps.
"""

from __future__ import annotations

import numpy as np

from fairveil.compiling import njit
from fairveil.streams.quick import cells, plain_release, shown

TIME, SEEN, NEXT = 0, 1, 2
"""Places in the counters: clock steps, values seen, next place in the ring of a lag."""
FORGET = 0
"""Place of the forgetting factor in the shared numbers; the rows of the experts follow."""
PLAIN, GROUP, CANDIDATES, LAG, PERIODS = 0, 1, 2, 3, 4
"""Places in the shape: experts without season, experts of one candidate, candidates, lag, then two periods each."""
RHO, NOISE, DRIFT, TREND, TIMES, TABLE, FIRST = 0, 1, 2, 3, 4, 5, 6
"""Public rows of an expert: rho, q, level drift, trend or not, multiplicative or not, variance of a table, first A."""
ROWS = 7
U, M, A, B, C, W = 0, 1, 2, 3, 4, 5
"""State rows of an expert."""
OWN = 6
WORK = 11
"""Rows of working memory; then two of a candidate."""
RING = 4
"""Rows of one place in the ring of a lag: past signal, its covariance with u and with m, its variance."""
LEVEL = 1e4
"""Variance of the level before anything is seen, in units of the noise."""
VISIT = 0.01
"""What a visit adds to the variance of a table's entry, as a share of the first variance."""
_FAST = {"reassoc", "contract", "nsz"}
inlined = njit(inline="always", nogil=True, error_model="numpy", fastmath=_FAST)
"""For parts of a kernel: joined into one function before it is compiled. Sums may be put in another order, and two
compilations of one part may choose two orders: a kernel that was just compiled would differ from its copy in the cache,
in the last digits, and a stream that is resumed by another process would not show what it has shown.
"""


@inlined
def logarithms(values, bits, out):
    """out = log(values); the values are lost, ``bits`` is their memory read as integers."""
    for i in range(len(values)):
        whole = bits[i]
        out[i] = float((whole >> 52) - 1023)
        bits[i] = (whole & 0x000FFFFFFFFFFFFF) | 0x3FF0000000000000
    for i in range(len(values)):
        above = values[i] > 1.4142135623730951
        mantissa = values[i] * 0.5 if above else values[i]
        power = out[i] + 1.0 if above else out[i]
        f = (mantissa - 1.0) / (mantissa + 1.0)
        g = f * f
        tail = 1 / 7 + g * (1 / 9 + g * (1 / 11 + g * (1 / 13)))
        out[i] = 2.0 * f * (1.0 + g * (1 / 3 + g * (1 / 5 + g * tail))) + power * 0.6931471805599453


@inlined
def exponentials(logs, highest, out, work, bits):
    """out = exp(logs - highest), next to nothing below -80; ``bits`` is the memory of ``work`` read as integers."""
    for i in range(len(logs)):
        x = max(logs[i] - highest, -80.0)
        power = np.rint(x * 1.4426950408889634)
        work[i] = power + 4503599627371519.0  # 2^52 + 1023: the low bits of the float are now the biased power
        x = x - power * 0.6931471805599453
        tail = 1 / 120 + x * (1 / 720 + x * (1 / 5040 + x * (1 / 40320 + x * (1 / 362880))))
        out[i] = 1.0 + x * (1.0 + x * (0.5 + x * (1 / 6 + x * (1 / 24 + x * tail))))
    for i in range(len(logs)):
        bits[i] = bits[i] << 52
    for i in range(len(logs)):
        out[i] *= work[i]


@inlined
def _see_plain(rows, own, n, y, r, seen, tell):
    """One step of the experts without tables; tells mean and variance of the signal, S, e^2/S, h, hA + B, hB + C, e."""
    for i in range(n):
        rho, k = rows[RHO, i], rows[TREND, i]
        u = rho * own[U, i]
        m = own[M, i] + k * u
        cross = rho * own[B, i]
        a = rho * rho * own[A, i] + rows[NOISE, i]
        c = own[C, i] + rows[DRIFT, i] + k * (2.0 * cross + a)
        b = cross + k * a
        h = 1.0 - k
        ha, hc = h * a + b, h * b + c
        prior = h * ha + hc
        total = prior + r
        gain = seen / total
        e = y - (h * u + m)
        u += ha * gain * e
        m += hc * gain * e
        own[U, i], own[M, i] = u, m
        own[A, i] = a - ha * ha * gain
        own[B, i] = b - ha * hc * gain
        own[C, i] = c - hc * hc * gain
        tell[0, i] = h * u + m
        tell[1, i] = prior - prior * prior * gain
        tell[2, i] = total
        tell[3, i] = e * e * gain
        tell[4, i], tell[5, i], tell[6, i], tell[7, i] = h, ha, hc, e


@inlined
def _see_season(rows, own, first, n, tables, y, r, seen, tell):
    """One step of the experts of one candidate; ``tables``: entries and variances of the two phases of now.

    Nine arguments cost nothing here: the kernel takes this in before it is compiled.
    """
    entry1, variance1, entry2, variance2, two = tables
    for j in range(n):
        i = first + j
        rho = rows[RHO, i]
        u, m = rho * own[U, i], own[M, i]
        b = rho * own[B, i]
        a = rho * rho * own[A, i] + rows[NOISE, i]
        c = own[C, i] + rows[DRIFT, i]
        v1 = variance1[j] + VISIT * rows[TABLE, i]
        v2 = two * (variance2[j] + VISIT * rows[TABLE, i])
        base = m + entry1[j] + two * entry2[j]
        h = 1.0 + rows[TIMES, i] * (min(max(base / (abs(m) + 1e-300), 0.1), 5.0) - 1.0)
        ha, hc = h * a + b, h * b + c
        prior = h * ha + hc + v1 + v2
        total = prior + r
        gain = seen / total
        e = y - (h * u + base)
        own[U, i] = u + ha * gain * e
        own[M, i] = m + hc * gain * e
        own[A, i] = a - ha * ha * gain
        own[B, i] = b - ha * hc * gain
        own[C, i] = c - hc * hc * gain
        entry1[j] += v1 * gain * e
        variance1[j] = v1 - v1 * v1 * gain
        entry2[j] += v2 * gain * e
        variance2[j] = v2 - v2 * v2 * gain
        tell[0, i] = h * u + base + prior * gain * e
        tell[1, i] = prior - prior * prior * gain
        tell[2, i] = total
        tell[3, i] = e * e * gain
        tell[4, i], tell[5, i], tell[6, i], tell[7, i] = h, ha, hc, e


@inlined
def _look_back(rows, ring, place, tell, r, seen):
    """Fixed-lag smoothing: every past signal in the ring learns from what was just seen; then now takes its place.

    Seen with noise variance r, a signal's covariance with u (before: hA + B) and with m (hB + C) shrinks by r/S.
    """
    n = rows.shape[1]
    for slot in range(len(ring)):
        if slot == place:
            continue
        past = ring[slot]
        for i in range(n):
            k = rows[TREND, i]
            cu = rows[RHO, i] * past[1, i]
            cm = past[2, i] + k * cu
            shared = tell[4, i] * cu + cm
            gain = shared * seen / tell[2, i]
            past[0, i] += gain * tell[7, i]
            past[1, i] = cu - gain * tell[5, i]
            past[2, i] = cm - gain * tell[6, i]
            past[3, i] -= gain * shared
    fresh = ring[place]
    for i in range(n):
        left = 1.0 - (tell[2, i] - r) * seen / tell[2, i]
        fresh[0, i], fresh[3, i] = tell[0, i], tell[1, i]
        fresh[1, i], fresh[2, i] = tell[5, i] * left, tell[6, i] * left


@inlined
def mixture(means, variances, weights):
    """Mean and variance of a mixture."""
    total, first, second = 0.0, 0.0, 0.0
    for i in range(len(weights)):
        total += weights[i]
        first += weights[i] * means[i]
    centre = first / total
    for i in range(len(weights)):
        gap = means[i] - centre
        second += weights[i] * (variances[i] + gap * gap)
    return centre, second / total


@inlined
def _begin(rows, own, y):
    """The first value: every level is there, with a wide variance; deviations are in their stationary law."""
    for i in range(own.shape[1]):
        own[U, i], own[M, i] = 0.0, y
        own[A, i], own[B, i], own[C, i] = rows[FIRST, i], 0.0, LEVEL


@inlined
def sizes(shape):
    """Experts, and where tables and ring begin in the numbers of a state."""
    experts = shape[PLAIN] + shape[GROUP] * shape[CANDIDATES]
    tables = OWN * experts
    ring = tables
    for g in range(shape[CANDIDATES]):
        ring += 2 * shape[GROUP] * (shape[PERIODS + 2 * g] + shape[PERIODS + 2 * g + 1])
    return experts, tables, ring


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def filter_bank(shape, shared, numbers, counts, work, v, r, seen, out):
    """Go through the plain release ``v`` with noise variance ``r``; out: mean and variance of the signal a step.

    ``seen`` is 1.0 where there is a value, 0.0 where it is missing. With a lag, a row of ``out`` is about the signal
    ``lag`` steps earlier (NaN before there was one). State is changed in place; ``work`` is memory to write on.
    """
    n, tables, start = sizes(shape)
    m, lag = shape[GROUP], shape[LAG]
    rows = shared[1:].reshape(ROWS, n)
    own = numbers[:tables].reshape(OWN, n)
    ring = numbers[start:].reshape(-1, RING, n)
    tell = work[: 8 * n].reshape(8, n)
    weights, logs, spare = work[8 * n : 9 * n], work[9 * n : 10 * n], work[10 * n : 11 * n]
    nothing = work[WORK * n : WORK * n + 2 * m].reshape(2, m)
    nothing[:] = 0.0
    total_bits, spare_bits = tell[2].view(np.int64), spare.view(np.int64)
    for t in range(len(v)):
        if counts[SEEN] == 0 and seen[t] > 0:
            _begin(rows, own, v[t])
        now, known = counts[TIME], counts[SEEN] > 0 or seen[t] > 0
        counts[TIME] += 1
        if not known:
            out[t, 0] = out[t, 1] = np.nan
            continue
        counts[SEEN] += seen[t] > 0
        _see_plain(rows, own, shape[PLAIN], v[t], r[t], seen[t], tell)
        place = tables
        for g in range(shape[CANDIDATES]):
            p1, p2 = shape[PERIODS + 2 * g], shape[PERIODS + 2 * g + 1]
            at1 = place + 2 * m * (now % p1)
            entry2, variance2 = nothing[0], nothing[1]
            if p2 > 0:
                at2 = place + 2 * m * (p1 + now % p2)
                entry2, variance2 = numbers[at2 : at2 + m], numbers[at2 + m : at2 + 2 * m]
            phases = (numbers[at1 : at1 + m], numbers[at1 + m : at1 + 2 * m], entry2, variance2, min(p2, 1.0))
            _see_season(rows, own, shape[PLAIN] + g * m, m, phases, v[t], r[t], seen[t], tell)
            place += 2 * m * (p1 + p2)
        if lag > 0:
            _look_back(rows, ring, counts[NEXT], tell, r[t], seen[t])
        if seen[t] > 0:
            logarithms(tell[2], total_bits, logs)
            keep = shared[FORGET] ** min(1.0, 1.0 / r[t])
            for i in range(n):
                own[W, i] = keep * own[W, i] - 0.5 * (logs[i] + tell[3, i])
        highest = own[W].max()
        exponentials(own[W], highest, weights, spare, spare_bits)
        if lag == 0:
            out[t, 0], out[t, 1] = mixture(tell[0], tell[1], weights)
            continue
        counts[NEXT] = (counts[NEXT] + 1) % (lag + 1)
        oldest = ring[counts[NEXT]]
        out[t, 0], out[t, 1] = mixture(oldest[0], oldest[3], weights)


@njit(cache=True)
def step_bank(shape, shared, numbers, counts, work, kept, line, z):
    """`filter_bank` for one value of a stream."""
    place, units = plain_release(counts, kept, line, z)
    if place >= 0:
        v, r, seen, out = cells(line)
        filter_bank(shape, shared, numbers, counts, work, v, r, seen, out)
    return shown(place, units, line)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def flush(shape, numbers, counts, out):
    """What a lag still holds, oldest first."""
    n, tables, start = sizes(shape)
    own, ring = numbers[:tables].reshape(OWN, n), numbers[start:].reshape(-1, RING, n)
    weights, spare = np.empty(n), np.empty(n)
    exponentials(own[W], own[W].max(), weights, spare, spare.view(np.int64))
    for j in range(shape[LAG]):
        past = ring[(counts[NEXT] + 1 + j) % (shape[LAG] + 1)]
        out[j, 0], out[j, 1] = mixture(past[0], past[3], weights)
