"""Privacy mistakes that any releaser of a stream could make, planted in its served methods."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from fairveil.arrays import Floats
from fairveil.privacy.events import GaussianEvent
from fairveil.privacy.grid import from_units, to_units
from fairveil.privacy.noise import Noise, ZeroNoise
from fairveil.proof import AuditPair
from fairveil.proof.engine.bounds import FinerClaim
from fairveil.proof.mutants import Method, Mutant, broken_copy, in_its, replaced, rule, twin
from fairveil.proof.pairs import finer_claim
from fairveil.proof.pairs.streams import STEPS, plain_pair, run_plain, run_stream
from fairveil.randomness import Generator
from fairveil.state import State, copy_state
from fairveil.streams import budget_shares as sharing
from fairveil.streams.noise_plan import gaussian_plan
from fairveil.streams.protocol import Releaser, Track
from fairveil.streams.releasers.baseline_gaussian import BaselineGaussian
from fairveil.streams.releasers.budget_absorption import Publishing
from fairveil.streams.releasers.dft import Dft, from_coefficients, to_coefficients
from fairveil.streams.releasers.plain_release import PlainReleaser
from fairveil.streams.releasers.predictive import Predictive
from fairveil.streams.releasers.private_kalman import PrivateKalman
from fairveil.streams.serving.people import PersonCounts
from fairveil.streams.serving.stream import NoiseAhead


@twin
def no_clip(original: Method, self: Any, state: State, values: Any, noise: Noise) -> Track:
    """Values outside the declared range enter as they come."""
    declared = self.range
    object.__setattr__(self, "range", None)
    try:
        track: Track = original(self, state, values, noise)
    finally:
        object.__setattr__(self, "range", declared)
    return track


@twin
def raw_filter(original: Method, self: Releaser, state: State, values: Any, noise: Noise) -> Track:
    """What is shown after the plain release is made of the values themselves."""
    exact: Track = original(self, copy_state(state), values, ZeroNoise())
    track: Track = original(self, state, values, noise)
    return track._replace(value=exact.value, low=exact.low, high=exact.high)


@twin
def bare_distance(original: Method, self: Publishing, distance: Any, noise: Noise) -> Any:
    """Whether to publish is decided on the raw distance to the last publication."""
    return distance


@twin
def no_window(original: Method, self: Publishing, state: State) -> float:
    """Every publication may spend a quarter of the budget, whatever was spent before."""
    return self._half / 2


def small_first(releaser: PrivateKalman) -> AbstractContextManager[None]:
    """The first release has its share however small, also where a person can be in all the others."""
    share = property(lambda self: self.first if (self.touched or 0) > 100 else 0.0)
    return replaced(PrivateKalman, "_first_share", share)


@rule
def stream_mutants(kind: str, thing: Any) -> list[Mutant]:
    """What applies to every releaser."""
    if kind != "releaser":
        return []
    found = [Mutant("no-clip", "values outside their range", in_its("advance", no_clip), by_law=True)]
    if thing.real_time:
        found.append(Mutant("raw-filter", "a filter that reads the values", in_its("advance", raw_filter)))
    if isinstance(thing, PrivateKalman):
        found.append(Mutant("first-below-others", "a first share that others exceed", small_first, by_law=True))
    if isinstance(thing, Publishing):
        bare, endless = in_its("moved", bare_distance), in_its("offered", no_window)
        found.append(Mutant("bare-distance", "a publication that is decided without noise", bare))
        found.append(Mutant("no-window", "publications that forget what was spent before", endless, by_law=True))
    return found


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


@broken_copy("releaser:predictive/first-two-steps")
def first_two_steps(epsilon: float) -> AuditPair:
    """The first two steps have weight 1, but the sum of squared weights counts them as all others."""
    broken = _FirstTwoFree(epsilon=epsilon, delta=DELTA, horizon=STEPS, weight=0.1)
    return _streamed(broken, NOTHING, ALL, "one person adds 1 to every step, or nothing", epsilon)


@broken_copy("releaser:private-kalman/event-for-sequence")
def event_for_sequence(epsilon: float) -> AuditPair:
    """Noise for one step, claimed for a whole sequence."""
    broken = PrivateKalman(epsilon=epsilon, delta=DELTA, unit="event")
    return _streamed(broken, NOTHING, ALL, "one person adds 1 to every step, or nothing", epsilon)


class _HalfTouched(BaselineGaussian):
    @property
    def touched(self) -> int | None:
        return self.participation


@broken_copy("releaser:baseline-gaussian/replaced-participant")
def replaced_participant(epsilon: float) -> AuditPair:
    """sqrt(k) under replace: a person with k steps is exchanged for one with k others, which moves 2 k values."""
    broken = _HalfTouched(epsilon=epsilon, delta=DELTA, horizon=STEPS, participation=4)
    zero, one = np.repeat([0.0, 1.0], 4), np.repeat([1.0, 0.0], 4)
    pair = _streamed(broken, zero, one, "one person uses the first four steps, or the last four", epsilon)
    return replace(pair, trials=4 * MANY)  # sqrt 2 too little noise is the smallest mistake of all


@broken_copy("releaser:predictive/raw-level")
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


@broken_copy("releaser:baseline-gaussian/fresh-retry")
def fresh_retry(epsilon: float) -> AuditPair:
    """A step that is asked for again gets fresh noise: four views of one value for the price of one."""
    sound = BaselineGaussian(epsilon=epsilon, delta=DELTA, horizon=1)

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        return sound.plain_copies(np.array([float(world)]), 4 * trials, noise).reshape(trials, 4)

    pair = _pair(run, "the value is 0 or 1, and is released four times", epsilon, finer_claim(sound.event()))
    return replace(pair, trials=MANY)


@broken_copy("releaser:predictive/fractional-coins")
def fractional_coins(epsilon: float) -> AuditPair:
    """Integer noise on a weighted value, as printed: the fraction is in sight."""
    broken = Predictive(
        epsilon=epsilon, delta=DELTA, horizon=STEPS, law="binomial", variant="printed", weight=0.5
    )  # fmt: skip
    return replace(plain_pair(broken), trials=FEW)


@broken_copy("releaser:dft/printed-transform")
def printed_transform(epsilon: float) -> AuditPair:
    """The printed scale of the Fourier coefficients: sqrt(n) too small."""
    broken = Dft(epsilon=epsilon, horizon=16, frequencies=1, variant="printed")

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        return run_stream(broken, (np.zeros(16), np.ones(16)), world, trials, noise, rng)[:, -1]

    return _pair(run, "one person adds 1 to every step, or nothing", epsilon, delta=0.0)


@broken_copy("releaser:dft/picked-frequencies")
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


@broken_copy("releaser:baseline-gaussian/unpaid-offset")
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


@broken_copy("releaser:private-kalman/window-with-memory")
def window_with_memory(epsilon: float) -> AuditPair:
    """A leaky sum over a window, with the noise of a window without memory."""
    broken = _RootOfWindow(epsilon=epsilon, delta=DELTA, unit="window", window=6, memory=0.8)
    zero = np.zeros(24)
    one = zero.copy()
    one[2:8] = 1.0
    return _streamed(broken, zero, one, "one person adds 1 to the six steps of a window, or nothing", epsilon)


@broken_copy("releaser:baseline-gaussian/forked-buffer")
def forked_buffer(epsilon: float) -> AuditPair:
    """After a fork both processes go on with the same noise that was drawn ahead."""
    sound = BaselineGaussian(epsilon=epsilon, delta=DELTA, horizon=2)

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        parent = NoiseAhead(sound.plan, noise)
        drawn = []
        for _ in range(trials):
            place = int(parent.kept[0])
            theirs = int(parent.kept[place])  # what a fork without care would leave to the child
            own = parent.take()
            drawn.append((own, theirs if place > 0 else own))
        units = np.array(drawn) + sound.plan.to_grid(np.array([0.0, float(world)]))
        return from_units(units, sound.plan.bits)

    return _pair(run, "the child's value is 0 or 1, the parent's is 0", epsilon, finer_claim(sound.event()))


@broken_copy("releaser:baseline-gaussian/clip-after-noise")
def clip_after_noise(epsilon: float) -> AuditPair:
    """A value far outside the range is clipped after the noise instead of before it."""
    broken = BaselineGaussian(epsilon=epsilon, delta=DELTA, horizon=STEPS, sensitivity=1.0)

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        return np.clip(run_plain(broken, (NOTHING, 10 * ALL), world, trials, noise, rng), 0.0, 1.0)

    return _pair(run, "one source is at 0, or far above its range of [0, 1]", epsilon, finer_claim(broken.event()))


@broken_copy("releaser:baseline-gaussian/forgotten-people")
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
