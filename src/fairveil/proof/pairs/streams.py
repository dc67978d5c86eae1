"""Neighbouring worlds of private streams, as an observer of everything that is shown sees them.

World 0 is a stream of zeros. In world 1 one unit adds D wherever it can: to every step (whole sequences), to the steps
of a window, to one step (events). With participation k the same person uses k steps or k others. With a common offset
the worst person is there half of the time, because the offset hides who is always there. An observer sees the plain
releases and what is shown after them.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from fairveil.arrays import Floats
from fairveil.privacy.noise import Noise
from fairveil.proof import AuditPair
from fairveil.proof.pairs import claim_of, each, finer_claim
from fairveil.randomness import Generator
from fairveil.registry import register
from fairveil.streams.budget_shares import Shares
from fairveil.streams.protocol import Releaser
from fairveil.streams.releasers.budget_absorption import BudgetAbsorption, Publishing
from fairveil.streams.releasers.common_fields import StreamKeys
from fairveil.streams.releasers.dft import Dft
from fairveil.streams.releasers.fast import Fast
from fairveil.streams.releasers.plain_release import PlainReleaser
from fairveil.streams.releasers.predictive import Predictive

STEPS = 8
AROUND = 2
"""Steps watched before and after a window or an event."""


def declared_step(releaser: StreamKeys) -> float:
    """How far one person moves one value, read off the declaration and not off what the releaser makes of it."""
    return releaser.sensitivity if releaser.range is None else releaser.range[1] - releaser.range[0]


def worlds_of(releaser: StreamKeys) -> tuple[Floats, Floats]:
    """The two streams that are told apart."""
    step = declared_step(releaser)
    base = 0.0 if releaser.range is None else releaser.range[0]
    if releaser.unit in ("window", "event"):
        width = 1 if releaser.unit == "event" else int(releaser.window or 1)
        after = AROUND if not releaser.memory else 30
        weighted = isinstance(releaser, Predictive) and releaser.weight != 1.0
        before = 0 if weighted else AROUND  # weights begin with two ones
        zero = np.zeros(before + width + after)
        one = zero.copy()
        one[before : before + width] = step
        return zero + base, one + base
    length = min(int(releaser.horizon or STEPS), 64)
    zero, one = np.zeros(length), np.zeros(length)
    if releaser.participation is not None:
        used = releaser.participation
        one[:used] = step
        if releaser.neighbours == "replace":
            zero[used : 2 * used] = step
    elif isinstance(releaser, PlainReleaser) and releaser.plan.offset > 0:
        one[: length // 2] = step
    else:
        one[:] = step
    return zero + base, one + base


def run_stream(
    releaser: Releaser, worlds: tuple[Floats, Floats], world: int, trials: int, noise: Noise, rng: Generator
) -> Floats:
    """Plain releases and shown values of many independent streams."""
    values, rows = worlds[world], []
    for _ in range(trials):
        state = releaser.start()
        track = releaser.advance(state, values, noise)
        late = [row.value for row in releaser.finish(state)]
        shown = np.concatenate([track.plain, track.value[track.step >= 0], late])
        rows.append(shown)
    width = min(len(row) for row in rows)
    return np.nan_to_num(np.array([row[:width] for row in rows]), nan=-1.0)


def run_plain(
    releaser: PlainReleaser, worlds: tuple[Floats, Floats], world: int, trials: int, noise: Noise, rng: Generator
) -> Floats:
    """Plain releases of many independent streams: all that is shown is made of them (law ``replays``)."""
    return releaser.plain_copies(worlds[world], trials, noise)


def _pair(releaser: StreamKeys, run: Any, statistic: str) -> AuditPair:
    promise = releaser.guarantee()
    epsilon, delta = claim_of(releaser.event(), promise.delta or 1e-5)
    words = f"one unit ({releaser.unit_in_words}) adds the sensitivity wherever it can, or nowhere"
    claim = finer_claim(releaser.event()) if promise.established else None
    trials = 20_000 if run is run_plain else 500
    return AuditPair(partial(run, releaser, worlds_of(releaser)), words, statistic, epsilon, delta, claim, trials)


def fraction_pair(releaser: StreamKeys) -> AuditPair | None:
    """Integer noise on a weighted value, as printed: the fraction of what is shown is that of the value.

    None where there is no such flaw: other noise, the sound form, or a weight that makes whole numbers of both worlds.
    """
    if not isinstance(releaser, Predictive) or (releaser.law, releaser.variant) != ("binomial", "printed"):
        return None
    zero, one = worlds_of(releaser)
    weights = Shares("weights", 1.0, weights=releaser._weights).at(0, len(zero))
    if np.allclose(weights * (one - zero) % 1.0, 0.0):
        return None

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        shown = run_stream(releaser, (zero, one), world, trials, noise, rng)[:, : len(zero)]
        return np.asarray(np.round(weights * shown, 6) % 1.0, np.float64)

    return replace(_pair(releaser, run_stream, "fractions of the weighted plain releases"), run=run)


def shown_pair(releaser: StreamKeys) -> AuditPair:
    """Everything that is shown of a stream when one unit is there or not; of a form with a known flaw, the flaw."""
    return fraction_pair(releaser) or _pair(releaser, run_stream, "plain releases and shown values")


def plain_pair(releaser: PlainReleaser) -> AuditPair:
    """The plain releases of a stream when one unit is there or not: far more trials than `shown_pair`."""
    samples = isinstance(releaser, Fast) and releaser.samples is not None
    watched = samples or fraction_pair(releaser) is not None
    return shown_pair(releaser) if watched else _pair(releaser, run_plain, "plain releases")


def low_frequencies(releaser: Dft) -> AuditPair:
    """As `stream_pair`, with the person there while the lowest frequencies add up."""
    length = int(releaser.horizon or STEPS)
    one = np.where(np.cos(2 * np.pi * np.arange(length) / length) > -0.3, declared_step(releaser), 0.0)
    run = partial(run_stream, releaser, (np.zeros(length), one))
    words = "one person is there in the first and the last third of the steps, or not at all"
    return AuditPair(run, words, "shown values", float(releaser.epsilon or 0.0), trials=500)


def one_frequency(releaser: Dft) -> AuditPair:
    """The mean alone, with the noise that it has when no other frequency is released: the bound is tight there."""
    mean = replace(releaser, frequencies=1, delay=None)
    length = int(mean.horizon or STEPS)
    run = partial(run_stream, mean, (np.zeros(length), np.full(length, declared_step(mean))))
    words, epsilon = "one person is there all the time, or not at all", float(mean.epsilon or 0.0)
    return AuditPair(run, words, "shown values", epsilon, trials=6_000)


def two_steps(releaser: Publishing) -> AuditPair:
    """Two steps that one person raises both, the second at the distance that decides whether it is published.

    An observer sees the first publication, whether there is a second one, and its value; everything points to the same
    world, and its log-likelihood ratio is looked at. What these three cost is stated here, beside the code: half of the
    budget measures distances, evenly over the two steps (the first one is published unasked), and of the other half a
    publication takes what `ba` gives to one step (epsilon/4 and epsilon/4), or half of what is left (`bd`: epsilon/4
    and epsilon/8).
    """
    short = replace(releaser, unit="sequence", window=None, horizon=2)
    step, epsilon = declared_step(short), float(short.epsilon or 0.0)
    first_share, second_share = (1 / 4, 1 / 4) if isinstance(short, BudgetAbsorption) else (1 / 4, 1 / 8)
    opening, probe, error = (step / (share * epsilon) for share in (first_share, 1 / 4, second_share))

    def shown(world: int, noise: Noise, rng: Generator) -> tuple[float, float, float]:
        state = short.start()
        first = float(short.advance(state, np.array([world * step]), noise).plain[0])
        middle = first + error
        second = float(short.advance(state, np.array([middle + (world - 0.5) * step]), noise).plain[0])
        return _evidence(first, second, middle), first, float(np.nan_to_num(second - first, nan=-1e3))

    def _evidence(first: float, second: float, middle: float) -> float:
        logs = []
        for world in (0, 1):
            apart, log = (0.5 - world) * step, -abs(first - world * step) / opening
            published = math.exp(-apart / probe) / 2 if apart > 0 else 1 - math.exp(apart / probe) / 2
            if math.isnan(second):
                log += math.log(1 - published)
            else:
                log += math.log(published) - abs(second - middle + apart) / error
            logs.append(log)
        return logs[1] - logs[0]

    words = "one person raises two steps, the second one across the distance that is published"
    shares = first_share + 1 / 4 + second_share
    return AuditPair(each(shown), words, "log-likelihood ratio and publications", shares * epsilon, trials=16_000)


for _name in ("baseline-gaussian", "baseline-laplace", "predictive", "fast", "private-kalman"):
    register("audit-pair", f"releaser:{_name}")(plain_pair)
    register("audit-pair", f"releaser:{_name}/shown")(shown_pair)
for _name in ("ba", "bd"):
    register("audit-pair", f"releaser:{_name}")(shown_pair)
    register("audit-pair", f"releaser:{_name}/two")(two_steps)
register("audit-pair", "releaser:dft")(low_frequencies)
register("audit-pair", "releaser:dft/mean")(one_frequency)
