"""Seeded generators: independent per path, the same everywhere, and never private noise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairveil.bandits.environments.arms import binomial
from fairveil.errors import SpecError
from fairveil.randomness import generator, spawn

PATHS = st.lists(st.one_of(st.integers(0, 2**20), st.text(max_size=8)), max_size=3)


@given(st.integers(0, 2**63 - 1), PATHS)
def test_same_seed_and_path_same_stream(seed, path):
    assert generator(seed, *path).integers(2**62) == generator(seed, *path).integers(2**62)


def test_different_paths_are_different_streams():
    firsts = {int(generator(1, "run", run).integers(2**62)) for run in range(1000)}
    assert len(firsts) == 1000
    assert generator(1, "a").integers(2**62) != generator(1, "b").integers(2**62)
    assert generator(1).integers(2**62) != generator(2).integers(2**62)


def test_streams_of_runs_are_uncorrelated():
    draws = np.array([generator(3, "run", run).normal(size=2000) for run in range(20)])
    off = np.corrcoef(draws)[~np.eye(20, dtype=bool)]
    assert np.abs(off).max() < 5 / np.sqrt(2000), "five standard errors"


def test_spawned_children_leave_the_parent_alone():
    parent = generator(5)
    spawn(parent, 3)
    assert parent.integers(2**62) == generator(5).integers(2**62)


@pytest.mark.parametrize("seed", [-1, 2**63, 1.5, "1", None, True])
def test_bad_seeds_are_refused(seed):
    with pytest.raises(SpecError, match="seed"):
        generator(seed)


def test_a_path_cannot_be_written_in_two_ways():
    """A number beyond 32 bits would be split into two words: the path of two smaller numbers."""
    for part in (2**32, -1, 1.9, True):
        with pytest.raises(SpecError, match="path of a seed"):
            generator(7, part)
    assert generator(7, 2**32 - 1).random() != generator(7, 2**32 - 1, 0).random()


def test_a_binomial_draw_in_compiled_code_is_numpys():
    """By inversion and by rejection, for small and large chances, near the mode and in the tails."""
    ours, theirs, pick = generator(7), generator(7), np.random.default_rng(2)
    for n in (0, 1, 5, 40, 100, 500, 3000, 100_000, 10**7, 2**31):
        for p in (0.0, 1.0, 0.5, *pick.random(6), *(0.01 * pick.random(3)), *(1 - 0.001 * pick.random(3))):
            drawn = [binomial(ours, n, float(p)) for _ in range(200)]
            assert drawn == [theirs.binomial(n, p) for _ in range(200)], (n, p)
    assert ours.bit_generator.state == theirs.bit_generator.state
