"""Broken twins of private streams, one planted mistake each. An audit that does not catch all of them is worth nothing.

Every twin claims ``epsilon`` (delta 1e-6, or pure) and protects less. Nothing but audits may import them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from fairveil.privacy.audit import AuditPair
from fairveil.privacy.audit.bounds import FinerClaim
from fairveil.privacy.audit.pair import finer_claim
from fairveil.privacy.events import GaussianEvent
from fairveil.privacy.grid import from_units, to_units
from fairveil.privacy.noise import Noise
from fairveil.randomness import Generator
from fairveil.registry import register
from fairveil.streams import shares as sharing
from fairveil.streams.absorption import BudgetAbsorption
from fairveil.streams.ahead import Ahead
from fairveil.streams.audit import STEPS, run_plain, run_stream
from fairveil.streams.baselines import BaselineGaussian
from fairveil.streams.dft import Dft, from_coefficients, to_coefficients
from fairveil.streams.people import PersonCounts
from fairveil.streams.plain import PlainReleaser
from fairveil.streams.plan import gaussian_plan
from fairveil.streams.predictive import Predictive
from fairveil.streams.private_kalman import PrivateKalman
from fairveil.streams.protocol import Floats

DELTA = 1e-6
LONG = 32
NOTHING, ALL = np.zeros(STEPS), np.ones(STEPS)


FEW = 1_500
"""Trials that show a mistake which gives the data away; a little too little noise takes many more."""
MANY = 150_000


def _pair(run: Any, worlds: str, epsilon: float, claim: FinerClaim | None = None, delta: float = DELTA) -> AuditPair:
    return AuditPair(run, worlds, "everything shown", epsilon, delta, claim, FEW)


def _streamed(releaser: PlainReleaser, zero: Floats, one: Floats, words: str, epsilon: float) -> AuditPair:
    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        return run_plain(releaser, (zero, one), world, trials, noise, rng)

    return replace(_pair(run, words, epsilon, finer_claim(releaser.event())), trials=MANY)


class _FirstTwoFree(Predictive):
    @cached_property
    def shares(self) -> sharing.Shares:
        return sharing.Shares("weights", STEPS * self._weights[0] ** 2, weights=self._weights)


@register("audit-twin", "first-two-steps")
def first_two_steps(epsilon: float) -> AuditPair:
    """The first two steps have weight 1, but the sum of squared weights counts them as all others."""
    broken = _FirstTwoFree(epsilon=epsilon, delta=DELTA, horizon=STEPS, weight=0.1)
    return _streamed(broken, NOTHING, ALL, "one person adds 1 to every step, or nothing", epsilon)


@register("audit-twin", "event-for-sequence")
def event_for_sequence(epsilon: float) -> AuditPair:
    """Noise for one step, claimed for a whole sequence."""
    broken = PrivateKalman(epsilon=epsilon, delta=DELTA, unit="event")
    return _streamed(broken, NOTHING, ALL, "one person adds 1 to every step, or nothing", epsilon)


class _HalfTouched(BaselineGaussian):
    @property
    def touched(self) -> int | None:
        return self.participation


@register("audit-twin", "replaced-participant")
def replaced_participant(epsilon: float) -> AuditPair:
    """sqrt(k) under replace: a person with k steps is exchanged for one with k others, which moves 2 k values."""
    broken = _HalfTouched(epsilon=epsilon, delta=DELTA, horizon=STEPS, participation=4)
    zero, one = np.repeat([0.0, 1.0], 4), np.repeat([1.0, 0.0], 4)
    pair = _streamed(broken, zero, one, "one person uses the first four steps, or the last four", epsilon)
    return replace(pair, trials=4 * MANY)  # sqrt 2 too little noise is the smallest mistake of all


@register("audit-twin", "raw-level")
def raw_level(epsilon: float) -> AuditPair:
    """The filter is told the mean of the raw values as if it were public."""
    sound = Predictive(epsilon=epsilon, delta=DELTA, horizon=STEPS, weight=0.1)

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        values = ALL * world
        told = Predictive(
            epsilon=epsilon,
            delta=DELTA,
            horizon=STEPS,
            weight=0.1,
            known={"mean": 100 * float(values.mean()), "std": 1.0, "correlation": 0.0},
        )
        return run_stream(told, (values, values), 0, trials, noise, rng)

    return _pair(run, "one person adds 1 to every step, or nothing", epsilon, finer_claim(sound.event()))


@register("audit-twin", "fresh-retry")
def fresh_retry(epsilon: float) -> AuditPair:
    """A step that is asked for again gets fresh noise: four views of one value for the price of one."""
    sound = BaselineGaussian(epsilon=epsilon, delta=DELTA, horizon=1)

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        return sound.plain_copies(np.array([float(world)]), 4 * trials, noise).reshape(trials, 4)

    pair = _pair(run, "the value is 0 or 1, and is released four times", epsilon, finer_claim(sound.event()))
    return replace(pair, trials=MANY)


@register("audit-twin", "fractional-coins")
def fractional_coins(epsilon: float) -> AuditPair:
    """Integer noise on a weighted value, as printed: the fraction is in sight."""
    broken = Predictive(
        epsilon=epsilon,
        delta=DELTA,
        horizon=STEPS,
        law="binomial",
        variant="printed",
        weight=0.5,
        known={"mean": 0.0, "std": 1.0, "correlation": 0.0},
    )

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        shown = run_stream(broken, (NOTHING, ALL), world, trials, noise, rng)
        return shown[:, STEPS:] % 1.0

    return _pair(run, "one person adds 1 to every step, or nothing", epsilon)


@register("audit-twin", "printed-transform")
def printed_transform(epsilon: float) -> AuditPair:
    """The printed scale of the Fourier coefficients: sqrt(n) too small."""
    broken = Dft(epsilon=epsilon, horizon=16, frequencies=1, variant="printed")

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        return run_stream(broken, (np.zeros(16), np.ones(16)), world, trials, noise, rng)[:, -1]

    return _pair(run, "one person adds 1 to every step, or nothing", epsilon, delta=0.0)


@register("audit-twin", "picked-frequencies")
def picked_frequencies(epsilon: float) -> AuditPair:
    """The frequencies with the largest raw coefficients are released: which ones they are shows the data."""
    sound = Dft(epsilon=epsilon, horizon=STEPS, frequencies=2)
    bits, scale = sound._noise(STEPS)

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        values = from_coefficients(np.array([0.0, 10.0, 0.0, 10.01 - world * 0.02]), STEPS)
        raw = to_coefficients(values, STEPS)
        kept = np.sort(np.argsort(-np.abs(raw))[:1])
        drawn = noise.laplace(scale, trials * len(kept)).reshape(trials, -1)
        noisy = from_units(to_units(raw[kept], bits) + drawn, bits)
        return np.column_stack([np.full(trials, kept[0]), noisy])

    return _pair(run, "two frequencies are almost equally strong; one person decides which", epsilon, delta=0.0)


class _BareDissimilarity(BudgetAbsorption):
    def moved(self, distance: int, noise: Noise) -> int:
        return distance


@register("audit-twin", "bare-dissimilarity")
def bare_dissimilarity(epsilon: float) -> AuditPair:
    """Whether to publish is decided on the raw distance to the last publication."""
    broken = _BareDissimilarity(epsilon=epsilon, horizon=2)
    error = broken._units / broken._half * 2**-broken.bits

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        rows = []
        for _ in range(trials):
            state = broken.start()
            first = broken.advance(state, np.zeros(1), noise)
            second = broken.advance(state, np.array([first.value[0] + 2 * error - 0.5 + world]), noise)
            rows.append([float(second.drawn[0] == 1 and not np.isnan(second.plain[0])), second.value[0]])
        return np.array(rows)

    return _pair(run, "a value is just below or just above the distance that publishes", epsilon, delta=0.0)


@register("audit-twin", "unpaid-offset")
def unpaid_offset(epsilon: float) -> AuditPair:
    """One offset is paid for, but every restart of the process draws a new one."""
    keys: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA, "horizon": LONG, "neighbours": "add-remove"}
    broken = BaselineGaussian(**keys, starts=1)

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        fresh = [broken.plain_copies(np.array([float(world)]), trials, noise) for _ in range(LONG)]
        return np.concatenate(fresh, axis=1)  # every step comes from a process that forgot that its start was used

    pair = _pair(run, "one person adds 1 to every step, or nothing", epsilon, finer_claim(broken.event()))
    return replace(pair, trials=MANY)


class _RootOfWindow(PrivateKalman):
    @cached_property
    def plan(self) -> Any:
        width = float(np.sqrt(int(self.window or 1)))
        return gaussian_plan(self.budget, width * self.step_sensitivity, sharing.even(1), STEPS)


@register("audit-twin", "window-with-memory")
def window_with_memory(epsilon: float) -> AuditPair:
    """A leaky sum over a window, with the noise of a window without memory."""
    broken = _RootOfWindow(epsilon=epsilon, delta=DELTA, unit="window", window=6, memory=0.8)
    zero = np.zeros(24)
    one = zero.copy()
    one[2:8] = 1.0
    return _streamed(broken, zero, one, "one person adds 1 to the six steps of a window, or nothing", epsilon)


@register("audit-twin", "forked-buffer")
def forked_buffer(epsilon: float) -> AuditPair:
    """After a fork both processes go on with the same noise that was drawn ahead."""
    sound = BaselineGaussian(epsilon=epsilon, delta=DELTA, horizon=2)

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        parent = Ahead(sound.plan, noise)
        drawn = []
        for _ in range(trials):
            place = int(parent.kept[0])
            theirs = int(parent.kept[place])  # what a fork without care would leave to the child
            own = parent.take()
            drawn.append((own, theirs if place > 0 else own))
        units = np.array(drawn) + sound.plan.to_grid(np.array([0.0, float(world)]))
        return from_units(units, sound.plan.bits)

    return _pair(run, "the child's value is 0 or 1, the parent's is 0", epsilon, finer_claim(sound.event()))


@register("audit-twin", "clip-after-noise")
def clip_after_noise(epsilon: float) -> AuditPair:
    """A value far outside the range is clipped after the noise instead of before it."""
    broken = BaselineGaussian(epsilon=epsilon, delta=DELTA, horizon=STEPS, sensitivity=1.0)

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        return np.clip(run_plain(broken, (NOTHING, 10 * ALL), world, trials, noise, rng), 0.0, 1.0)

    return _pair(run, "one source is at 0, or far above its range of [0, 1]", epsilon, finer_claim(broken.event()))


@register("audit-twin", "forgotten-people")
def forgotten_people(epsilon: float) -> AuditPair:
    """Counters of people begin at nothing again after a restart, so one person counts in more steps than allowed."""
    sound = BaselineGaussian(
        epsilon=epsilon, delta=DELTA, horizon=STEPS, neighbours="add-remove", **PersonCounts(participation=2).keys()
    )
    assert isinstance(sound.event(), GaussianEvent)
    counts = []
    for step in range(STEPS):
        if step % 2 == 0:
            people = PersonCounts(participation=2)  # a restart without reading the rows again
        counts.append(float(people.step(["ann"])))
    words = "one person comes to every step, or to none; the process restarts every other step"
    return _streamed(sound, NOTHING, np.array(counts), words, epsilon)
