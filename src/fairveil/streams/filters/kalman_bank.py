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

from typing import NamedTuple

import numpy as np

from fairveil.arrays import Floats, Ints
from fairveil.compiling import njit
from fairveil.streams.filters.experts import ExpertModels
from fairveil.streams.filters.kernel import Memory, line_of, plain_release, shown, signal_of
from fairveil.streams.protocol import NEXT, SEEN, TIME

LEVEL = 1e4
"""Variance of the level before anything is seen, in units of the noise."""
VISIT = 0.01
"""What a visit adds to the variance of a table's entry, as a share of the first variance."""
ROWS, OWN, LOOKS, RING, WORK = 7, 6, 8, 4, 11
"""Vectors of experts: public ones, learnt ones, of one step, of one place in a lag's ring, of working memory."""
_FAST = {"reassoc", "contract", "nsz"}
inlined = njit(inline="always", nogil=True, error_model="numpy", fastmath=_FAST)
"""For parts of a kernel: joined into one function before it is compiled. Sums may be put in another order, and two
compilations of one part may choose two orders: a kernel that was just compiled would differ from its copy in the cache,
in the last digits, and a stream that is resumed by another process would not show what it has shown.
"""


class BankShape(NamedTuple):
    """Experts without season and of one season candidate, candidates, lag; two periods each (the second may be 0)."""

    plain: int
    group: int
    candidates: int
    lag: int
    periods: Ints

    def packed(self) -> Ints:
        """As one array, which `shape_of` reads."""
        return np.array([*self[:-1], *self.periods], np.int64)


class Places(NamedTuple):
    """Experts, and where tables of seasons and the ring of a lag begin in the numbers of a state."""

    experts: int
    tables: int
    ring: int


class Beliefs(NamedTuple):
    """What the experts learnt, one vector each: deviation, level, their covariance (a, b, c), log weight."""

    u: Floats
    m: Floats
    a: Floats
    b: Floats
    c: Floats
    w: Floats


class Looks(NamedTuple):
    """What one step told the experts, one vector each.

    Mean and variance of the signal, S, e^2/S, h, the signal's covariance with u (hA + B) and m (hB + C) before, e.
    """

    mean: Floats
    variance: Floats
    total: Floats
    surprise: Floats
    h: Floats
    with_u: Floats
    with_m: Floats
    e: Floats


class Past(NamedTuple):
    """One place in the ring of a lag: a past signal, its covariance with u and with m, its variance."""

    mean: Floats
    with_u: Floats
    with_m: Floats
    variance: Floats


class Value(NamedTuple):
    """One step of a `Signal`."""

    v: float
    r: float
    seen: float


class Phases(NamedTuple):
    """Entries and variances of the two phases of now; ``two`` is 0.0 where a candidate has one period."""

    entry1: Floats
    variance1: Floats
    entry2: Floats
    variance2: Floats
    two: float


@inlined
def shape_of(shape):
    """The sizes in a packed `BankShape`."""
    return BankShape(shape[0], shape[1], shape[2], shape[3], shape[4:])


@inlined
def places_of(shape):
    """Where things are in the numbers of a state."""
    experts = shape.plain + shape.group * shape.candidates
    ring = OWN * experts
    for period in shape.periods:
        ring += 2 * shape.group * period
    return Places(experts, OWN * experts, ring)


@inlined
def models_of(rows):
    """Public numbers of the experts."""
    return ExpertModels(rows[0], rows[1], rows[2], rows[3], rows[4], rows[5], rows[6])


@inlined
def _beliefs_of(own):
    return Beliefs(own[0], own[1], own[2], own[3], own[4], own[5])


@inlined
def _past_of(slot):
    return Past(slot[0], slot[1], slot[2], slot[3])


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
def _see_plain(model, own, look, n, now):
    """One step of the first n experts, which have no tables."""
    for i in range(n):
        rho, k = model.rho[i], model.trend[i]
        u = rho * own.u[i]
        m = own.m[i] + k * u
        cross = rho * own.b[i]
        a = rho * rho * own.a[i] + model.noise[i]
        c = own.c[i] + model.drift[i] + k * (2.0 * cross + a)
        b = cross + k * a
        h = 1.0 - k
        ha, hc = h * a + b, h * b + c
        prior = h * ha + hc
        total = prior + now.r
        gain = now.seen / total
        e = now.v - (h * u + m)
        u += ha * gain * e
        m += hc * gain * e
        own.u[i], own.m[i] = u, m
        own.a[i] = a - ha * ha * gain
        own.b[i] = b - ha * hc * gain
        own.c[i] = c - hc * hc * gain
        look.mean[i] = h * u + m
        look.variance[i] = prior - prior * prior * gain
        look.total[i] = total
        look.surprise[i] = e * e * gain
        look.with_u[i], look.with_m[i], look.e[i] = ha, hc, e


@inlined
def _see_season(model, own, look, first, phases, now, lag):
    """One step of the experts of one season candidate, from the expert ``first`` on."""
    entry1, variance1, entry2, variance2, two = phases
    for j in range(len(entry1)):
        i = first + j
        rho = model.rho[i]
        u, m = rho * own.u[i], own.m[i]
        b = rho * own.b[i]
        a = rho * rho * own.a[i] + model.noise[i]
        c = own.c[i] + model.drift[i]
        v1 = variance1[j] + VISIT * model.table[i]
        v2 = two * (variance2[j] + VISIT * model.table[i])
        base = m + entry1[j] + two * entry2[j]
        h = 1.0 + model.times[i] * (min(max(base / (abs(m) + 1e-300), 0.1), 5.0) - 1.0)
        ha, hc = h * a + b, h * b + c
        prior = h * ha + hc + v1 + v2
        total = prior + now.r
        gain = now.seen / total
        e = now.v - (h * u + base)
        own.u[i] = u + ha * gain * e
        own.m[i] = m + hc * gain * e
        own.a[i] = a - ha * ha * gain
        own.b[i] = b - ha * hc * gain
        own.c[i] = c - hc * hc * gain
        entry1[j] += v1 * gain * e
        variance1[j] = v1 - v1 * v1 * gain
        entry2[j] += v2 * gain * e
        variance2[j] = v2 - v2 * v2 * gain
        look.mean[i] = h * u + base + prior * gain * e
        look.variance[i] = prior - prior * prior * gain
        look.total[i] = total
        look.surprise[i] = e * e * gain
        if lag > 0:
            look.h[i], look.with_u[i], look.with_m[i], look.e[i] = h, ha, hc, e


@inlined
def _look_back(model, ring, place, look, now):
    """Fixed-lag smoothing: every past signal in the ring learns from what was just seen; then now takes its place.

    Seen with noise variance r, a signal's covariance with u (before: hA + B) and with m (hB + C) shrinks by r/S.
    """
    for slot in range(len(ring)):
        if slot == place:
            continue
        past = _past_of(ring[slot])
        for i in range(len(model.rho)):
            k = model.trend[i]
            cu = model.rho[i] * past.with_u[i]
            cm = past.with_m[i] + k * cu
            shared = look.h[i] * cu + cm
            gain = shared * now.seen / look.total[i]
            past.mean[i] += gain * look.e[i]
            past.with_u[i] = cu - gain * look.with_u[i]
            past.with_m[i] = cm - gain * look.with_m[i]
            past.variance[i] -= gain * shared
    fresh = _past_of(ring[place])
    for i in range(len(model.rho)):
        left = 1.0 - (look.total[i] - now.r) * now.seen / look.total[i]
        fresh.mean[i], fresh.variance[i] = look.mean[i], look.variance[i]
        fresh.with_u[i], fresh.with_m[i] = look.with_u[i] * left, look.with_m[i] * left


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
def _begin(model, own, y):
    """The first value: every level is there, with a wide variance; deviations are in their stationary law."""
    for i in range(len(own.u)):
        own.u[i], own.m[i] = 0.0, y
        own.a[i], own.b[i], own.c[i] = model.first[i], 0.0, LEVEL


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def filter_bank(memory, signal):
    """Go through plain releases with all experts.

    With a lag, a row of ``signal.out`` is about the signal ``lag`` steps earlier (NaN before there was one).
    """
    shape, numbers, counts, work = shape_of(memory.shape), memory.numbers, memory.counts, memory.work
    n, tables, start = places_of(shape)
    m, lag, forget, out = shape.group, shape.lag, memory.shared[0], signal.out
    model, own = models_of(memory.shared[1:].reshape(ROWS, n)), _beliefs_of(numbers[:tables].reshape(OWN, n))
    ring = numbers[start:].reshape(-1, RING, n)
    rest = work[: WORK * n].reshape(WORK, n)
    look = Looks(rest[0], rest[1], rest[2], rest[3], rest[4], rest[5], rest[6], rest[7])
    weights, logs, spare = rest[LOOKS], rest[LOOKS + 1], rest[LOOKS + 2]
    nothing = work[WORK * n : WORK * n + 2 * m].reshape(2, m)
    nothing[:] = 0.0
    look.h[:] = 1.0 - model.trend
    total_bits, spare_bits = look.total.view(np.int64), spare.view(np.int64)
    for t in range(len(signal.v)):
        now, time = Value(signal.v[t], signal.r[t], signal.seen[t]), counts[TIME]
        if counts[SEEN] == 0 and now.seen > 0:
            _begin(model, own, now.v)
        known = counts[SEEN] > 0 or now.seen > 0
        counts[TIME] += 1
        if not known:
            out[t, 0] = out[t, 1] = np.nan
            continue
        counts[SEEN] += now.seen > 0
        _see_plain(model, own, look, shape.plain, now)
        place = tables
        for g in range(shape.candidates):
            p1, p2 = shape.periods[2 * g], shape.periods[2 * g + 1]
            at1 = place + 2 * m * (time % p1)
            entry2, variance2 = nothing[0], nothing[1]
            if p2 > 0:
                at2 = place + 2 * m * (p1 + time % p2)
                entry2, variance2 = numbers[at2 : at2 + m], numbers[at2 + m : at2 + 2 * m]
            entry1, variance1 = numbers[at1 : at1 + m], numbers[at1 + m : at1 + 2 * m]
            phases = Phases(entry1, variance1, entry2, variance2, min(p2, 1.0))
            _see_season(model, own, look, shape.plain + g * m, phases, now, lag)
            place += 2 * m * (p1 + p2)
        if lag > 0:
            _look_back(model, ring, counts[NEXT], look, now)
        if now.seen > 0:
            logarithms(look.total, total_bits, logs)
            keep = forget ** min(1.0, 1.0 / now.r)
            for i in range(n):
                own.w[i] = keep * own.w[i] - 0.5 * (logs[i] + look.surprise[i])
        exponentials(own.w, own.w.max(), weights, spare, spare_bits)
        if lag == 0:
            out[t, 0], out[t, 1] = mixture(look.mean, look.variance, weights)
            continue
        counts[NEXT] = (counts[NEXT] + 1) % (lag + 1)
        oldest = _past_of(ring[counts[NEXT]])
        out[t, 0], out[t, 1] = mixture(oldest.mean, oldest.variance, weights)


@njit(cache=True)
def step_bank(shape, shared, numbers, counts, work, kept, line, z):
    """`filter_bank` for one value of a stream."""
    own = line_of(line)
    place, units = plain_release(counts, kept, own, z)
    if place >= 0:
        filter_bank(Memory(shape, shared, numbers, counts, work), signal_of(own))
    return shown(place, units, own)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def flush(memory, out):
    """What a lag still holds, oldest first."""
    shape = shape_of(memory.shape)
    n, tables, start = places_of(shape)
    own = _beliefs_of(memory.numbers[:tables].reshape(OWN, n))
    ring = memory.numbers[start:].reshape(-1, RING, n)
    weights, spare = np.empty(n), np.empty(n)
    exponentials(own.w, own.w.max(), weights, spare, spare.view(np.int64))
    for j in range(shape.lag):
        past = _past_of(ring[(memory.counts[NEXT] + 1 + j) % (shape.lag + 1)])
        out[j, 0], out[j, 1] = mixture(past.mean, past.variance, weights)
