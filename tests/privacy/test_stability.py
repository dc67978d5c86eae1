"""Bounds of `privacy/stability` against a search over small neighbouring inputs: never exceeded, and reached.

The break that this reduces: the sensitivity of a stream was declared, and one person's rows moved 22 of 24 counts. A
sensitivity that follows from the transformations would have refused it.
"""

from __future__ import annotations

import math
import random
from itertools import product

import numpy as np
import pytest

from fairveil.errors import PrivacyError, SpecError
from fairveil.privacy.stability import (
    ALL,
    CELL,
    COLUMN,
    PERSON,
    ROW,
    STEP,
    AtMost,
    AtMostGroups,
    Chain,
    Clip,
    Contribution,
    FanOut,
    JoinLate,
    MergeColumns,
    MergeSteps,
    OwnStep,
    household,
)
from fairveil.streams import PersonCounts

STEPS, COLUMNS = 4, 3
SMALL = {"steps": STEPS, "columns": COLUMNS}


def rows_of(rng, chain, steps, columns):
    """Rows of one unit: so many in every cell of these steps and columns, at an end of their range or anywhere."""
    low, high = chain.bound.low, chain.bound.high
    value = rng.choice((high, high, 2 * high + 1, low, None))
    times = rng.choice((1, 2, 3, 4))
    last = rng.choice((0, 0, STEPS - 1, None))
    rows = []
    for person, step, column, _ in product(range(chain.unit.persons), steps, columns, range(times)):
        number = rng.uniform(low, high) if value is None else value
        came = rng.randrange(step, STEPS) if last is None else max(step, last)
        rows.append(Contribution(f"unit-{person}", step, column, number, came))
    if rng.random() < 0.4:  # else cell by cell: a limit then keeps as many as it can of few
        rng.shuffle(rows)
    most = len(rows) if rng.random() < 0.7 else rng.randint(0, len(rows))
    return rows[: int(min(most, chain.unit.rows))]


def some(rng, count):
    """All of them, or a few."""
    return rng.sample(range(count), count if rng.random() < 0.4 else rng.randint(1, count))


def moved(chain, one, other):
    """How far the sums of two inputs are apart: a cell, l1, l2."""
    first, second = chain.sums(one), chain.sums(other)
    gaps = np.array([first.get(key, 0.0) - second.get(key, 0.0) for key in {*first, *second}] or [0.0])
    return np.abs(gaps).max(), np.abs(gaps).sum(), np.sqrt((gaps**2).sum())


def largest(chain, tries, seed):
    """The largest changes over random neighbours, other people's rows between them."""
    rng, found = random.Random(seed), np.zeros(3)
    low, high = chain.bound.low, chain.bound.high
    for number in range(tries):
        others = [Contribution("other", rng.randrange(STEPS), rng.randrange(COLUMNS), 1.0) for _ in range(number % 3)]
        steps, columns = some(rng, STEPS), some(rng, COLUMNS)
        one, other = rows_of(rng, chain, steps, columns), []
        if chain.replaced:
            elsewhere = [step for step in range(STEPS) if step not in steps] or steps
            beside = [column for column in range(COLUMNS) if column not in columns] or columns
            places = rng.choice(((steps, beside), (elsewhere, columns), (elsewhere, beside), (steps, columns)))
            other = rows_of(rng, chain, *places)
            if places == (steps, columns) and rng.random() < 0.7:  # the same places, other values
                one = [row._replace(value=high) for row in one]
                other = [row._replace(value=low) for row in one] if low < 0 else []
        found = np.maximum(found, moved(chain, others + one, others + other))
    return found


def bounds(chain):
    return np.array([chain.sensitivity.cell, chain.sensitivity.l1, chain.sensitivity.l2])


ALONE = {
    "own-step": (OwnStep(2), AtMost(2, CELL)),
    "at-most-all": (AtMost(3, ALL),),
    "at-most-step": (AtMost(2, STEP),),
    "at-most-column": (AtMost(2, COLUMN),),
    "at-most-cell": (AtMost(1, CELL),),
    "steps": (AtMost(1, STEP), AtMostGroups(2, "step")),
    "columns": (AtMost(1, COLUMN), AtMostGroups(2, "column")),
    "clip": (AtMost(2, ALL), Clip(-1.0, 0.5)),
    "merge-columns": (AtMost(1, CELL), AtMostGroups(2, "step"), MergeColumns(3)),
    "merge-steps": (AtMost(1, CELL), AtMostGroups(2, "column"), MergeSteps(4)),
    "join-late": (AtMost(1, STEP), JoinLate()),
    "fan-out": (AtMost(2, ALL), FanOut(2)),
}


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("name", ALONE)
def test_the_bound_of_each_transformation_is_reached(name, replaced):
    parts = ALONE[name]
    clip = () if any(isinstance(part, Clip) for part in parts) else (Clip(0.0, 1.0),)
    chain = Chain(PERSON, *parts, *clip, replaced=replaced, **SMALL)
    found = largest(chain, 1200, seed=len(name))
    assert (found <= bounds(chain) + 1e-9).all(), (found, bounds(chain))
    assert found == pytest.approx(bounds(chain), rel=1e-9), (name, found, bounds(chain))


def random_chain(rng):
    """A unit, limits that make it finite, and other transformations in any order."""
    limits = rng.choice((
        [AtMost(rng.randint(1, 4), ALL)],
        [AtMost(rng.randint(1, 3), STEP), AtMostGroups(rng.randint(1, 3), "step")],
        [AtMost(rng.randint(1, 2), CELL)],
        [AtMost(rng.randint(1, 3), COLUMN), AtMostGroups(rng.randint(1, 3), "column")],
    ))  # fmt: skip
    more = [MergeColumns(2), MergeSteps(2), JoinLate(), FanOut(2), OwnStep(2), AtMost(2, CELL), AtMost(3, STEP)]
    low = rng.choice((0.0, 0.0, -1.0, -0.5))
    parts = [*limits, *rng.sample(more, rng.randint(0, 2)), Clip(low, rng.choice((0.5, 1.0)))]
    if rng.random() < 0.5:
        rng.shuffle(parts)
    unit = rng.choice((PERSON, PERSON, household(2), ROW))
    return Chain(unit, *parts, replaced=rng.random() < 0.5, **SMALL)


@pytest.mark.parametrize("count", [25, 200])
def test_no_composition_moves_further_than_its_bound(count):
    rng, ratios = random.Random(22), []
    for number in range(count):
        chain = random_chain(rng)
        found, most = largest(chain, 300, seed=number), bounds(chain)
        assert (found <= most + 1e-9).all(), (chain, found, most)
        ratios.append(found[2] / most[2])
    print(f"{count} compositions: l2 found over its bound, median {np.median(ratios):.3f}, least {min(ratios):.3f}")
    assert np.median(ratios) >= 0.8


def test_what_the_product_serves_is_what_follows():
    """Counts of people; everything else that is served: `test_served_sensitivity`."""
    counts = PersonCounts(per_step=2, participation=3)
    assert counts.keys() == {"sensitivity": 2.0, "participation": 3}
    assert counts.chain.sensitivity.l2 == pytest.approx(2 * math.sqrt(3))
    assert "computed for one person" in PersonCounts().words
    found = largest(Chain(PERSON, *counts.chain.parts, steps=STEPS, columns=COLUMNS), 3000, seed=1)
    assert found == pytest.approx([2.0, 6.0, 2 * math.sqrt(3)])


def test_what_has_no_bound_is_refused():
    with pytest.raises(PrivacyError, match="rows"):
        _ = Chain(PERSON, AtMost(1, STEP), Clip(0, 1)).sensitivity
    with pytest.raises(PrivacyError, match="values"):
        _ = Chain(PERSON, AtMost(1, ALL)).sensitivity
    with pytest.raises(PrivacyError, match="rows"):  # limits of a step do not outlive late rows without a total
        _ = Chain(PERSON, AtMost(1, STEP), JoinLate(), AtMostGroups(2, "step"), Clip(0, 1)).sensitivity
    assert Chain(PERSON, JoinLate(), AtMost(1, STEP), AtMostGroups(2, "step"), Clip(0, 1)).sensitivity.l1 == 2
    with pytest.raises(SpecError):
        AtMost(0, STEP)
    with pytest.raises(SpecError):
        household(0)


def test_words_say_what_was_proven():
    words = Chain(PERSON, OwnStep(), AtMost(1, STEP), AtMostGroups(3, "step"), Clip(0, 1)).words()
    assert "computed for one person" in words
    assert "own time" in words
    assert "at most 3 steps" in words
