"""Laws every releaser keeps, built in or plugged in. `check_releaser` runs them all and names the one that is broken.

>>> from fairveil.streams.releasers.baseline_gaussian import BaselineGaussian
>>> len(check_releaser(BaselineGaussian.example())) >= 10
True
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fairveil import registry
from fairveil.arrays import Floats, Ints
from fairveil.configuration import describe
from fairveil.privacy.events import event_from_dict
from fairveil.privacy.noise import Noise, SeededNoise, ZeroNoise
from fairveil.proof.laws import Asked, check_laws, must
from fairveil.proof.laws.costs import releaser_costs
from fairveil.proof.laws.sums import SLACK
from fairveil.state import copy_state, load_state, same_state, save_state
from fairveil.streams.protocol import Releaser, State, Track
from fairveil.streams.releasers.budget_absorption import Publishing
from fairveil.streams.releasers.plain_release import PlainReleaser

STEPS = 60
TRIALS = 400
"""Streams from which the size of the noise is measured."""
Law = Callable[[Releaser], None]
EXACT = (2.0**-40, 2.0**40)
CLOSE = (1e-12, 1e12)


class OneByOne(Noise):
    """Draws each number by itself, so that a batch and single steps see the same seeded numbers."""

    __slots__ = ("source",)

    def __init__(self, seed: int) -> None:
        self.source = SeededNoise(seed)

    def _each(self, law: str, parameter: float, size: int) -> Ints:
        return np.concatenate([getattr(self.source, law)(parameter, 1) for _ in range(size)] or [np.zeros(0, np.int64)])

    def laplace(self, scale: float, size: int = 1) -> Ints:
        return self._each("laplace", scale, size)

    def gaussian(self, sigma: float, size: int = 1) -> Ints:
        return self._each("gaussian", sigma, size)

    def binomial(self, trials: int, size: int = 1) -> Ints:
        return self._each("binomial", trials, size)

    def uniform_integers(self, high: int, size: int = 1) -> Ints:
        return self._each("uniform_integers", high, size)

    def exponential_coins(self, numerators: ArrayLike, denominator: int) -> Ints:
        return self.source.exponential_coins(numerators, denominator)


@registry.register("laws", "releaser")
def check_releaser(releaser: Releaser) -> list[str]:
    """Run every law; returns their names, raises ContractError at the first that is broken."""
    return check_laws(LAWS, releaser)


def sample_values(releaser: Releaser) -> Floats:
    """A wave of whole numbers in the releaser's range, with holes, no longer than its horizon."""
    low, high = releaser.range or (0.0, 100.0)
    wave = np.rint((low + high) / 2 + (high - low) / 3 * np.sin(np.arange(STEPS) / 5))
    wave[5::7] = np.nan
    horizon = releaser.horizon or STEPS
    return wave[: min(STEPS, horizon)]


def _same(first: Track, second: Track) -> bool:
    pairs = zip(first, second, strict=True)
    return all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in pairs)


def _run(releaser: Releaser, values: Floats, seed: int = 1) -> tuple[State, Track]:
    return releaser.run(releaser.start(), values.tolist(), OneByOne(seed))


def pure_step(releaser: Releaser) -> None:
    """A step leaves the state it was given as it was."""
    state = releaser.start()
    before = copy_state(state)
    releaser.release(state, 3.0, SeededNoise(1))
    must(same_state(state, before), "a step changed the state that it was given", "copy the state first")


def same_seed(releaser: Releaser) -> None:
    """Equal seeds give equal runs."""
    values = sample_values(releaser)
    must(_same(_run(releaser, values)[1], _run(releaser, values)[1]), "two runs with one seed differ")


def one_by_one(releaser: Releaser) -> None:
    """Single steps and a batch show the same, to the last bit."""
    values = sample_values(releaser)
    after, batch = _run(releaser, values)
    state, noise = releaser.start(), OneByOne(1)
    for place, value in enumerate(values.tolist()):
        state, track = releaser.run(state, [value], noise)
        part = batch.part(place, place + 1)
        must(_same(track, part), "a single step differs from the batch")
    must(same_state(state, after), "the states after single steps and after the batch differ")


def save_and_load(releaser: Releaser) -> None:
    """A state without raw data goes on the same after it was saved; with raw data it goes on."""
    values = sample_values(releaser)
    half = len(values) // 2
    noise = OneByOne(1)
    state, _ = releaser.run(releaser.start(), values[:half].tolist(), noise)
    loaded = releaser.loaded(load_state(save_state(releaser.saved(state))))
    must("raw" not in releaser.saved(state), "raw data would be stored")
    first = releaser.run(state, values[half:].tolist(), SeededNoise(2))[1]
    second = releaser.run(loaded, values[half:].tolist(), SeededNoise(2))[1]
    if not state["raw"].any() and releaser.real_time:
        must(_same(first, second), "a loaded state goes on differently")


def not_aliased(releaser: Releaser) -> None:
    """Neither the values nor an earlier state can be changed through what comes back."""
    values = sample_values(releaser)
    given = values.copy()
    state, track = releaser.run(releaser.start(), values, SeededNoise(1))
    must(np.array_equal(values, given, equal_nan=True), "the values were changed")
    for column in track:
        if column.flags.writeable:
            column[...] = 0
    again = releaser.run(state, [], SeededNoise(1))[0]
    must(same_state(again, state), "the state shares memory with what was shown")


def constant_memory(releaser: Releaser) -> None:
    """The size of a state does not depend on how long it ran."""
    values = sample_values(releaser)
    early = releaser.run(releaser.start(), values[:2].tolist(), SeededNoise(1))[0]
    late = releaser.run(releaser.start(), values.tolist(), SeededNoise(1))[0]
    sizes = [{name: array.nbytes for name, array in state.items()} for state in (early, late)]
    must(sizes[0] == sizes[1], "the state grows with the number of steps")


def without_noise(releaser: Releaser) -> None:
    """With `ZeroNoise` the plain release is the value itself, up to the grid."""
    values = sample_values(releaser)
    track = releaser.run(releaser.start(), values.tolist(), ZeroNoise())[1]
    if releaser.memory or releaser.behind or not releaser.real_time:
        return  # the plain release is of a sum, or of an earlier step
    shown = ~np.isnan(track.plain)
    must(bool(np.allclose(track.plain[shown], values[shown], atol=1e-3)), "noise is not the only difference")
    must(bool(shown.any()), "nothing was released")


def all_missing(releaser: Releaser) -> None:
    """A stream of missing values spends nothing and does not fail."""
    state, track = releaser.run(releaser.start(), [None] * 5, SeededNoise(1))
    must(not (track.drawn == 1).any() and int(state["counts"][3]) == 0, "a missing step was released")


def constant_stream(releaser: Releaser) -> None:
    """A stream that never changes gives finite values."""
    steps = len(sample_values(releaser))
    track = releaser.run(releaser.start(), [40.0] * steps, SeededNoise(1))[1]
    must(bool(np.isfinite(track.value[track.step >= 0]).all()), "a constant stream gives no number")


def scaled(releaser: Releaser, factor: float) -> Releaser:
    """The same releaser for data in other units."""
    table = describe(releaser)
    if table["range"] is None:
        table["sensitivity"] *= factor
    else:
        table["range"] = [number * factor for number in table["range"]]
    if isinstance(table.get("process_variance"), float):
        table["process_variance"] *= factor**2
    if table.get("known"):
        table["known"] = {**table["known"], **{key: table["known"][key] * factor for key in ("mean", "std")}}
    made: Releaser = registry.build("releaser", table, "releaser")
    return made


def scale_free(releaser: Releaser) -> None:
    """Data and sensitivity in other units give the same values in those units: exactly for powers of two."""
    table: dict[str, Any] = describe(releaser)
    if table.get("law") in ("discrete-gaussian", "binomial") or table.get("round"):
        return  # whole numbers have no other units
    values = sample_values(releaser)
    plain = _run(releaser, values)[1]
    for factor in EXACT:
        other = _run(scaled(releaser, factor), values * factor)[1]
        fine = np.array_equal(other.value, plain.value * factor, equal_nan=True)
        must(bool(fine), "scaling by a power of two changes more than the scale")
    for factor in CLOSE:
        other = _run(scaled(releaser, factor), values * factor)[1]
        gaps = np.abs(other.value / factor - plain.value)
        gap = float(np.max(gaps[~np.isnan(gaps)], initial=0.0))
        must(bool(gap <= 1e-5 * releaser.quote().noise_std), "scaling changes more than the scale")


def states_its_cost(releaser: Releaser) -> None:
    """Event, guarantee and quote are there before any data."""
    must(event_from_dict(releaser.event().to_dict()) == releaser.event(), "the event cannot be read back")
    must(bool(releaser.guarantee().unit), "the guarantee names nobody")
    quote = releaser.quote()
    must(math.isfinite(quote.noise_std) and quote.noise_std > 0, "the quote has no noise")


def noise_as_quoted(releaser: Releaser) -> None:
    """The noise of first releases has the standard deviation that the quote states (within a fifth)."""
    quote, noise = releaser.quote(), SeededNoise(3)
    drawn: list[float] = []
    for _ in range(TRIALS):
        state = releaser.start()
        track = releaser.advance(state, np.zeros(1 if releaser.real_time else len(sample_values(releaser))), noise)
        late = [row.plain for row in releaser.finish(state)] if not releaser.real_time else []
        drawn += [float(track.plain[0])] if releaser.real_time and not releaser.behind else []
        drawn += [*track.plain[track.step >= 0].tolist(), *late] if not releaser.real_time else []
    if not drawn:
        return  # a lag shows its first release later
    found = float(np.std(drawn))
    expected = quote.first_noise_std
    if isinstance(releaser, PlainReleaser) and releaser.plan.offset > 0:
        expected = math.hypot(expected, math.ldexp(releaser.plan.offset, -releaser.plan.bits))
    if releaser.guarantee().established:
        must(0.8 < found / expected < 1.25, "the noise is not of the size that is quoted")


def replays(releaser: Releaser) -> None:
    """Stored releases show the same again, without data and without noise."""
    if not releaser.real_time or (isinstance(releaser, PlainReleaser) and releaser.has_starts):
        return
    after, track = _run(releaser, sample_values(releaser))
    if not releaser.guarantee().established:
        return
    state = releaser.start()
    again = releaser.replay(state, track.units, track.drawn)
    must(_same(track, again), "a replay shows something else")
    must(same_state(releaser.saved(state), releaser.saved(after)), "a replay ends in another state")


def stays_in_range(releaser: Releaser) -> None:
    """With a declared range, a value outside it counts as the nearest end."""
    if not releaser.guarantee().established:
        return
    table: dict[str, Any] = {**describe(releaser), "range": [0.0, 4.0], "sensitivity": 1.0}
    ranged: Releaser = registry.build("releaser", table, "releaser")
    inside = np.tile([0.0, 4.0, 2.0], STEPS)[: len(sample_values(ranged))]
    outside = np.where(inside == 2.0, 2.0, (inside - 2.0) * 50.0)
    shown = [_run(ranged, values) for values in (inside, outside)]
    ends = [ranged.finish(state) for state, _ in shown]
    same = _same(shown[0][1], shown[1][1]) and repr(ends[0]) == repr(ends[1])
    must(same, "a value outside its range is not clipped", "clip to the range before noise")


def budgets_fit_the_window(releaser: Releaser) -> None:
    """All draws of a window, of dissimilarities and of publications, cost the budget at most, whatever the data do."""
    if not isinstance(releaser, Publishing):
        return
    # A window that slides, and so little noise that what moves is published.
    made = replace(releaser, unit="window", window=6, horizon=None, epsilon=1e4)
    width, budget = made.width, float(made.epsilon or 0.0)
    for still in (1, width // 2, width - 1):  # what is saved while nothing moves is spent when something does
        state, spent, noise = made.start(), list[float](), Asked(5)
        for step in range(3 * width):
            noise.laplace_scales.clear()
            state = made.run(state, [1e6 * (step % 2) if step > still else 0.0], noise)[0]
            spent.append(sum(size * made._units / scale for scale, size in noise.laplace_scales))
            within = sum(spent[-width:]) <= budget * (1 + 1e-6)
            must(within, "a window costs more than the budget", "count what the window has spent")


def no_unit_meets_more(releaser: Releaser) -> None:
    """Whichever steps a unit touches, their shares add up to what the noise was made for, at most."""
    if not isinstance(releaser, PlainReleaser) or releaser.plan.offset > 0:
        return
    made = [releaser]
    if releaser.unit == "sequence" and releaser.law == "gaussian" and hasattr(releaser, "first"):
        table = {**describe(releaser), "schedule": "even", "horizon": 400, "starts": None}
        for first, most in ((1e-4, 150), (0.3, 150), (0.01, None)):  # of a person who need not be there at first
            keys = {**table, "first": first, "participation": most}
            made.append(registry.build("releaser", keys, "releaser"))
    for one in made:
        shares = one.shares.at(0, one.horizon or 10 * (one.touched or STEPS))
        touched = len(shares) if one.touched is None else min(one.touched, len(shares))
        worst = np.sort(shares)[-touched:].sum()
        if one.unit != "sequence":
            worst = np.convolve(shares, np.ones(touched), mode="valid").max()
        must(bool(worst <= one.shares.total * (1 + 1e-9)), "some steps together cost more than the budget")


def exact_cost(releaser: Releaser) -> None:
    """No unit costs more than is promised, in every unit, participation, first share, offset, memory, lag and range."""
    for words, cost, claim in releaser_costs(releaser):
        must(cost <= claim * (1 + SLACK), f"the worst unit costs more than is promised ({words})")


LAWS: dict[str, Law] = {
    "pure step": pure_step,
    "same seed, same run": same_seed,
    "one by one equals batch": one_by_one,
    "save and load": save_and_load,
    "inputs not aliased": not_aliased,
    "constant memory": constant_memory,
    "zero noise": without_noise,
    "missing everywhere": all_missing,
    "constant stream": constant_stream,
    "scale free": scale_free,
    "states its cost": states_its_cost,
    "noise as quoted": noise_as_quoted,
    "replays": replays,
    "stays in range": stays_in_range,
    "budgets fit the window": budgets_fit_the_window,
    "no unit meets more": no_unit_meets_more,
    "exact cost": exact_cost,
}
