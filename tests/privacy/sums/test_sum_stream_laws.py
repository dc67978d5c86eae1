"""Laws that every running sum obeys: exact without noise, no aliasing, repeatable, restartable, losses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairveil.errors import HorizonError
from fairveil.privacy.noise import SecureNoise, SeededNoise, ZeroNoise
from fairveil.privacy.sums import BatchSum, HybridSum, ToeplitzSum, TreeSum
from fairveil.state import load_state, save_state

RELEASES = 11


def build(kind, **fields):
    fields = {"mu": 0.5} | fields
    return {
        "batch": lambda: BatchSum(**fields),
        "tree": lambda: TreeSum(RELEASES, **fields),
        "refined": lambda: TreeSum(RELEASES, refine=True, **fields),
        "toeplitz": lambda: ToeplitzSum(RELEASES, **fields),
        "banded": lambda: ToeplitzSum(RELEASES, band=3, **fields),
        "hybrid": lambda: HybridSum(**fields),
        "hybrid-tree": lambda: HybridSum(inner="tree", **fields),
    }[kind]()


KINDS = ["batch", "tree", "refined", "toeplitz", "banded", "hybrid", "hybrid-tree"]
SHAPES = [
    {"shape": "scalar"},
    {"shape": "vector", "dimension": 3, "bound": 2.0},
    {"shape": "symmetric", "dimension": 3, "bound": 1.5},
]
ALL = pytest.mark.parametrize("kind", KINDS)
SHAPED = pytest.mark.parametrize("shape", SHAPES, ids=lambda s: s["shape"])


def some_rows(sums, seed=0, count=4):
    rng = np.random.default_rng(seed)
    return rng.random(count) if sums.shape == "scalar" else rng.standard_normal((count, sums.dimension))


def exact(sums, rows):
    """The sum of the rows as they lie on the grid, in Python integers."""
    units = [[int(x) for x in row] for row in sums.grid.rows(rows)]
    if sums.shape == "symmetric":
        flat = [[a * b for b in row] for row in units for a in row]
        values = np.array(flat, dtype=object).reshape(len(units), sums.dimension, sums.dimension).sum(axis=0)
    else:
        values = np.array(units, dtype=object).sum(axis=0)
        values = values[0] if sums.shape == "scalar" else values
    return np.asarray(values, dtype=np.float64) * 2.0**-sums.grid.sum_bits


@ALL
@SHAPED
def test_without_noise_every_prefix_is_exact(kind, shape):
    sums = build(kind, **shape)
    state, truth = sums.start(), 0.0
    for index in range(RELEASES):
        rows = some_rows(sums, seed=index, count=1 + index % 3)
        state, estimate = sums.release(sums.add(state, rows), ZeroNoise())
        truth = truth + exact(sums, rows)
        np.testing.assert_allclose(estimate, truth, rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(sums.estimate(state), estimate)
        assert sums.releases_made(state) == index + 1


@ALL
@SHAPED
def test_one_row_at_a_time_equals_a_block(kind, shape):
    sums = build(kind, **shape)
    rows = some_rows(sums)
    one = sums.start()
    for row in rows:
        one = sums.add(one, row)
    block = sums.add(sums.start(), rows)
    for name in block:
        np.testing.assert_array_equal(one[name], block[name])


@ALL
@SHAPED
def test_states_and_inputs_are_never_changed_or_shared(kind, shape):
    sums = build(kind, **shape)
    rows = some_rows(sums)
    kept = rows.copy()
    states, copies, seen = [sums.start()], [], []
    noise = SeededNoise(1)
    for _ in range(5):
        for state in states[-1:]:
            copies.append({name: array.copy() for name, array in state.items()})
        added = sums.add(states[-1], rows)
        after, estimate = sums.release(added, noise)
        seen.append((estimate, estimate.copy()))
        states.append(after)
        estimate += 1e9  # a caller may do with the answer what it likes
        rows += 0.0
    rows *= -1.0
    for state, copy in zip(states, copies, strict=False):
        for name in copy:
            np.testing.assert_array_equal(state[name], copy[name])
    np.testing.assert_array_equal(rows, -kept)
    np.testing.assert_array_equal(sums.estimate(states[-1]), seen[-1][1])


@ALL
@SHAPED
def test_same_seed_same_run_and_restart_from_bytes(kind, shape):
    sums = build(kind, **shape)

    def run(restart_at):
        noise, state, seen = SeededNoise(9), sums.start(), []
        for index in range(RELEASES):
            state = sums.add(state, some_rows(sums, seed=index))
            if index == restart_at:  # with an open leaf, in mid-stream
                state = load_state(save_state(state))
            state, estimate = sums.release(state, noise)
            seen.append(estimate)
        return np.array(seen)

    first = run(None)
    for restart_at in (None, 0, 3, 6, 10):
        np.testing.assert_array_equal(run(restart_at), first)


@ALL
def test_secure_noise_gives_estimates_of_the_right_size(kind):
    sums = build(kind, shape="symmetric", dimension=2)
    state = sums.start()
    for _ in range(3):
        state, estimate = sums.release(state, SecureNoise())
        np.testing.assert_array_equal(estimate, estimate.T)
        assert np.abs(estimate).max() < 12 * sums.expected_std(3) * np.sqrt(2)
        assert (estimate != 0).all()


@ALL
@pytest.mark.parametrize("lost_at", [{0}, {2}, {3, 4}, {0, 1, 2, 3}, {6}])
def test_a_lost_release_drops_its_rows_and_nothing_else(kind, lost_at):
    sums = build(kind)
    state, truth = sums.start(), 0.0
    for index in range(RELEASES):
        state = sums.add(state, 0.5)
        before = sums.estimate(state)
        if index in lost_at:
            state = sums.lost(state)
            np.testing.assert_allclose(sums.estimate(state), before, atol=1e-9)
        else:
            state, estimate = sums.release(state, ZeroNoise())
            truth += 0.5
            assert float(estimate) == pytest.approx(truth, abs=1e-9)
        assert sums.releases_made(state) == index + 1


@ALL
def test_estimates_stay_unbiased_after_a_lost_release(kind):
    sums = build(kind).many(4_000)
    state, noise = sums.start(), SeededNoise(2)
    for index in range(RELEASES):
        state = sums.add(state, 1.0)
        state = sums.lost(state) if index in (1, 5) else sums.release(state, noise)[0]
    estimate = sums.estimate(state)
    assert abs(estimate.mean() - (RELEASES - 2)) < 5 * estimate.std() / np.sqrt(4_000)
    assert estimate.std() <= 1.1 * sums.expected_std(RELEASES)


@pytest.mark.parametrize("kind", ["tree", "refined", "toeplitz", "banded"])
def test_no_release_past_the_horizon(kind):
    sums = build(kind)
    state = sums.start()
    for _ in range(RELEASES):
        state, _ = sums.release(state, ZeroNoise())
    with pytest.raises(HorizonError, match="at most 11"):
        sums.release(state, ZeroNoise())
    with pytest.raises(HorizonError):
        sums.lost(state)
    with pytest.raises(HorizonError):
        sums.expected_std(RELEASES + 1)
    with pytest.raises(HorizonError):
        sums.noise_path(SeededNoise(0), RELEASES + 1)


def test_memory_of_streams():
    """Logarithmic for trees, the band for banded codes, constant for batches."""

    def size(sums, releases):
        state = sums.start()
        for _ in range(releases):
            state, _ = sums.release(sums.add(state, 0.5), ZeroNoise())
        return sum(array.nbytes for array in state.values())

    assert size(BatchSum(mu=1.0), 5) == size(BatchSum(mu=1.0), 500)
    tree = TreeSum(1000, mu=1.0, refine=True)
    assert size(tree, 5) == size(tree, 1000) <= 8 * (4 * 10 + 10)
    banded = ToeplitzSum(1000, mu=1.0, band=16)
    assert size(banded, 30) == size(banded, 1000) <= 8 * (3 * 16 + 5)


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    batches=st.lists(st.lists(st.floats(-3, 3), max_size=4), min_size=1, max_size=RELEASES),
)
def test_any_stream_of_scalars_is_summed_after_clipping(kind, batches):
    sums = build(kind)
    state, total = sums.start(), 0.0
    for values in batches:
        state, estimate = sums.release(sums.add(state, values), ZeroNoise())
        total += sum(min(max(value, 0.0), 1.0) for value in values)
        assert float(estimate) == pytest.approx(total, abs=1e-5)
