"""Sensitivity of encoded rows: a search over small units reaches what is computed and never exceeds it."""

from __future__ import annotations

import ast
import itertools
from pathlib import Path

import numpy as np
import pytest

from fairveil.errors import PrivacyError
from fairveil.evaluate.private import PrivateValue
from fairveil.privacy.encodings import ONE_ROW, RowEncoding, computed, noisy_vector, rows_of
from fairveil.privacy.stability import PERSON, AtMost, Chain, household
from fairveil.privacy.sums import shapes
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
    assert l1 == vector.l1
    assert square <= vector.square
    if kind == "report":
        assert square == vector.square
    assert f"at most {vector.l1 / ONE:g} in l1" in computed(chain, encoding)


def test_a_unit_without_a_limit_is_refused_and_released_objects_say_what_was_computed():
    with pytest.raises(PrivacyError, match="nothing bounds the rows of one person"):
        noisy_vector(Price(epsilon=1.0), Chain(PERSON), RowEncoding(ONE, ONE**2, 1, "a number"))
    assert any(note.startswith("the sensitivity is computed for one row") for note in VALUE.guarantee().notes)


# Nothing is declared by hand ------------------------------------------------------------------------------------------

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
