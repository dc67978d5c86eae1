"""Sensitivity of encoded rows: a search over small units reaches what is computed and never exceeds it."""

from __future__ import annotations

import ast
import itertools
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fairveil import registry
from fairveil.errors import PrivacyError
from fairveil.evaluate.private import PrivateValue
from fairveil.loop import accept
from fairveil.privacy.encodings import ONE_ROW, RowEncoding, computed, noisy_vector, rows_of
from fairveil.privacy.histograms import Histogram, histogram, prefix
from fairveil.privacy.stability import PERSON, ROW, AtMost, Chain, household
from fairveil.privacy.sums import shapes
from fairveil.privacy.sums.shapes import Grid
from fairveil.privacy.vectors import ONE, Price
from fairveil.reports.layout import VectorLayout

CHAINS = {"row": (ONE_ROW, 1), "person": (Chain(PERSON, AtMost(2)), 2), "pair": (Chain(household(2), AtMost(1)), 2)}
VALUE = PrivateValue(epsilon=1.0, clip=2.0)


def of_weights():
    """A row of a log: its pair of sums."""
    rows = itertools.product((0.0, 0.5, 1.0, 2.0, 9.0), (0.0, 0.25, 0.5, 0.75, 1.0))
    return [VALUE.units(np.array([weight]), np.array([outcome])) for weight, outcome in rows]


def of_places():
    """A winner: chosen and centred rewards of two groups."""
    found = []
    for group, outcome in itertools.product((0, 1), (0.0, 0.5, 1.0)):
        sums = np.zeros(4, np.int64)
        sums[group], sums[2 + group] = ONE, round((outcome - 0.5) * ONE)
        found.append(sums)
    return found


KINDS = {
    "evaluation": (VALUE.encoding(), of_weights),
    "report": (VectorLayout(("chosen", "reward"), 2).encoding, of_places),
}


@pytest.mark.parametrize("unit", CHAINS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_worst_unit_reaches_what_is_computed(kind, unit):
    encoding, rows = KINDS[kind]
    chain, count = CHAINS[unit]
    assert rows_of(chain) == count
    held = np.array([sum(some) for some in itertools.combinations_with_replacement(rows(), count)])
    moved = np.abs(held[:, None] - held[None])
    vector = noisy_vector(Price(epsilon=1.0), chain, encoding)
    l1, square = moved.sum(axis=-1).max(), (moved.astype(float) ** 2).sum(axis=-1).max()
    assert 0.999 * vector.l1 <= l1 <= vector.l1
    assert square <= vector.square
    if kind == "report":
        assert square == vector.square
    assert f"at most {vector.l1 / ONE:g} in l1" in computed(chain, encoding)


def test_a_unit_without_a_limit_is_refused_and_released_objects_say_what_was_computed():
    with pytest.raises(PrivacyError, match="nothing bounds the rows of one person"):
        noisy_vector(Price(epsilon=1.0), Chain(PERSON), RowEncoding(ONE, ONE**2, 1, "a number"))
    assert any(note.startswith("the sensitivity is computed for one row") for note in VALUE.guarantee().notes)


# Sums and histograms, which all folds of a loop end in ----------------------------------------------------------------

CORNERS = {
    "scalar": [[0.0], [0.3], [1.0]],
    "vector": [[np.cos(turn), np.sin(turn)] for turn in np.pi / 4 * np.arange(8)],
    "symmetric": [[np.cos(turn), np.sin(turn)] for turn in np.pi / 4 * np.arange(8)],
}


def as_matrix(grid, units):
    """A flat sum as numbers whose l2 norm is that of the sum: entries above the diagonal stand there twice."""
    return units / grid.spread if grid.shape == "symmetric" else units


@pytest.mark.parametrize("neighbours", ["replace-row", "zero-out-row"])
@pytest.mark.parametrize("shape", CORNERS)
def test_a_search_over_rows_reaches_the_sensitivity_of_a_sum(shape, neighbours):
    grid = Grid(shape, 1 if shape == "scalar" else 2, 1.0, neighbours, 20)
    rows = [as_matrix(grid, grid.total([row])[0].astype(float)) for row in CORNERS[shape]]
    others = rows if neighbours == "replace-row" else [np.zeros_like(rows[0])]
    worst = max(np.linalg.norm(one - other) for one in rows for other in others)
    assert grid.sensitivity * (1 - 1e-5) <= worst <= grid.sensitivity


@pytest.mark.parametrize("method", ["tree", "toeplitz"])
@pytest.mark.parametrize("bins", [2, 3, 5, 8, 13])
def test_a_search_over_values_reaches_the_sensitivity_of_a_histogram(method, bins):
    shape = Histogram(bins, method=method, mu=1.0, total="noisy")
    units = np.eye(bins, dtype=np.int64)
    coded = [np.convolve(prefix.bin_coefficients(bins), one)[:bins] for one in units]
    if method == "tree":
        size = 2 ** (bins - 1).bit_length()
        wide = [np.pad(one, (0, size - bins)) for one in units]
        coded = [np.concatenate([one.reshape(2**k, -1).sum(1) for k in range(1, shape.levels + 1)]) for one in wide]
    moved = max(float(np.linalg.norm(one - other)) for one in coded for other in coded)
    assert moved == pytest.approx(shape._moved, rel=1e-12)
    assert max(float(np.linalg.norm(one)) for one in coded) == pytest.approx(shape._absent, rel=1e-12)


SERVED = {
    "private-nash": ({"arms": 2, "epsilon": 1.0}, ("sum",)),
    "adap-ucb": ({"arms": 2, "epsilon": 1.0}, ("sum",)),
    "batched-private-fair-greedy": (
        {"epsilon": 1.0, "delta": 1e-6, "groups": 2, "features": 1, "scaling": {
            "columns": [0], "centre": [0.0], "spread": [1.0], "norm": 1.0, "reward_centre": 0.5, "reward_bound": 0.5}},
        ("sums", "histogram"),
    ),
    "batched-priv-fairx": (
        {"epsilon": 1.0, "delta": 1e-6, "agents": 1, "dimension": 2, "horizon": 100}, ("running",)
    ),
}  # fmt: skip


def noises(name):
    table, sums = SERVED[name]
    policy = registry.build("policy", {"name": name, **table}, "policy")
    return [math.ldexp(made.sigma, -bits_of(made)) for made in (getattr(policy, one) for one in sums)]


def bits_of(made):
    return made.grid_bits if isinstance(made, Histogram) else made.grid.sum_bits


def test_every_policy_that_is_served_is_asked():
    assert {*SERVED, "local-nash"} == set(accept.SERVED), "a local policy has no fold: people noise their own bit"


@pytest.mark.parametrize("name", SERVED)
def test_twice_the_rows_of_a_unit_are_twice_the_noise_of_every_fold(name, monkeypatch):
    """Nothing in between declares by hand what one row can move."""
    before = noises(name)
    for module in (shapes, histogram):
        monkeypatch.setattr(module, "ROW", replace(ROW, rows=2))
    assert noises(name) == pytest.approx([2 * level for level in before], rel=1e-6)


BY_HAND = {
    "classify/game/exponential.py": "sizes of groups of a learner, beside its proof: one replaced row moves two",
}
PARTS = ("bandits", "classify", "evaluate", "loop", "privacy/histograms", "privacy/sums", "reports", "streams/serving")


def test_no_served_thing_is_given_a_sensitivity_as_a_number():
    found = {}
    source = Path(shapes.__file__).parents[2]
    for part in PARTS:
        for file in sorted((source / part).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text())):
                given = [one.value for one in getattr(node, "keywords", ()) if one.arg == "sensitivity"]
                if any(isinstance(leaf, ast.Constant) for value in given for leaf in _chosen(value)):
                    found[str(file.relative_to(source))] = ast.unparse(node)
    assert set(found) == set(BY_HAND)


def _chosen(value):
    """What a keyword may be: both ends of a choice."""
    return (value.body, value.orelse) if isinstance(value, ast.IfExp) else (value,)
