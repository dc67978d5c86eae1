"""How far one place can move a report: searched over neighbouring tables, reached and never exceeded."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from fairveil.evaluate.private import SQUARE, PrivateValue
from fairveil.privacy.events import GaussianEvent, PureEvent, ZcdpEvent
from fairveil.privacy.noise import ZeroNoise
from fairveil.privacy.vectors import ONE, NoisyVector, Price
from fairveil.proof.laws.reports import furthest, neighbours
from fairveil.reports import FairnessReport

ARMS = {"family": "nash", "actions": ("x", "y")}
#: The table of sensitivities: what is released, l1, squared l2.
TABLE = [
    ({}, 3, 2.5),
    ({"rewards": False}, 2, 2),
    ({"missing": "public"}, 5, 4.5),
    ({"missing": "private"}, 5, 4.5),
    ({"group_privacy": "private", "rewards": False, "most_shown": 1}, 2 + 4, 2 + 4),
    ({"group_privacy": "private", "most_shown": 1}, 3 + 4, 2.5 + 4),
    ({"group_privacy": "private", "most_shown": 2}, 3 + 7, 2.5 + 10),
    ({"group_privacy": "private", "most_shown": 4}, 3 + 11, 2.5 + 34),
    ({**ARMS}, 1, 1),
    ({**ARMS, "missing": "public"}, 1, 1),
    ({**ARMS, "missing": "private"}, 1.5, 1.25),
    ({**ARMS, "group_privacy": "private"}, 3, 2.5),
    ({**ARMS, "group_privacy": "private", "missing": "public"}, 5, 4.5),
    ({"family": "exposure"}, 4, 4),
    ({"family": "exposure", "blanks": True}, 4, 4),
]


@pytest.mark.parametrize("shape, l1, square", TABLE, ids=[str(row[0]) for row in TABLE])
def test_the_search_reaches_the_table_and_never_exceeds_it(shape, l1, square):
    report = FairnessReport(("a", "b", "c"), rho=0.02, **shape)
    assert (report.layout.l1, report.layout.square) == (l1 * ONE, square * ONE**2)
    found = [furthest([report.units(rows) for rows in held])[0] for held in neighbours(report)]
    assert (max(one for one, _ in found), max(two for _, two in found)) == (l1 * ONE, square * ONE**2)


def test_other_rows_do_not_change_what_a_row_adds():
    report = FairnessReport(("a", "b"), rho=0.02)
    [rows] = list(neighbours(report))
    alone = {number: report.units(one) for number, one in enumerate(rows)}
    for first, second in itertools.combinations(range(0, len(rows), 3), 2):
        both = _joined(rows[first], rows[second])
        assert (report.units(both) == alone[first] + alone[second]).all()


def _joined(*rows):
    from fairveil.reports import PlaceRows

    parts = {name: [getattr(one, name) for one in rows] for name in ("group", "shown", "reward")}
    return PlaceRows(**{name: np.concatenate(held) for name, held in parts.items()})


@pytest.mark.parametrize("laplace", [True, False])
def test_a_pair_of_moments_costs_one_on_the_whole_grid(laplace):
    """Every grid value of a coarser grid against every other, and the worst places of the fine one, in integers."""
    value = PrivateValue(epsilon=1.0, clip=2.0) if laplace else PrivateValue(clip=2.0, rho=0.1)
    bound = value.vector().l1 if laplace else value.vector().square
    half = ONE // 2
    points = np.unique(np.concatenate([np.linspace(-half, half, 401), half - np.arange(40), -half + np.arange(40),
                                       _near(int(half - 0.618034 * ONE))]).astype(np.int64))  # fmt: skip
    factor = value.square_factor
    squares = factor.numerator * points * points // (factor.denominator * ONE)
    first, second = (np.abs(part[:, None] - part[None]) for part in (points, squares))
    worst = (first + second).max() if laplace else (first**2 + second**2).max()
    assert worst <= bound
    assert worst >= 0.99999 * bound


def _near(middle: int) -> np.ndarray:
    return np.arange(middle - 300, middle + 300)


def test_a_larger_factor_of_the_second_moment_would_cost_more():
    t = np.linspace(1e-6, 1, 2_000_001)
    assert float((t**2 * (1 + float(SQUARE) ** 2 * (1 - t) ** 2)).max()) <= 1.0
    assert float((t**2 * (1 + 3.34**2 * (1 - t) ** 2)).max()) > 1.0


@pytest.mark.parametrize("weight", [0.0, 1.0, 1e300, math.inf])
@pytest.mark.parametrize("outcome", [-3.0, 0.0, 0.3, 1.0, 4.0])
def test_a_row_of_a_log_stays_in_its_range_whatever_it_holds(weight, outcome):
    first, second = PrivateValue(epsilon=1.0, clip=2.0).units(np.array([weight]), np.array([outcome]))
    assert abs(first) <= ONE // 2
    assert 0 <= second <= ONE // 4


def test_the_currency_picks_the_noise_and_the_event():
    def event(price):
        return NoisyVector(price, 3 * ONE, 5 * ONE**2 // 2, 4).event()

    assert event(Price(epsilon=0.5)) == PureEvent(0.5)
    assert event(Price(rho=0.02)) == ZcdpEvent(0.02)
    assert isinstance(event(Price(mu=0.2)), GaussianEvent)
    assert isinstance(event(Price(epsilon=0.5, delta=1e-6)), GaussianEvent)
    assert NoisyVector(Price(epsilon=0.5), 3 * ONE, 0, 1).std == pytest.approx(6 * math.sqrt(2), rel=1e-9)
    assert NoisyVector(Price(rho=0.02), 0, 5 * ONE**2 // 2, 1).std == pytest.approx(math.sqrt(2.5 / 0.04), rel=1e-9)
    exact = np.array([5 * ONE, 7], np.int64)
    assert NoisyVector(Price(mu=0.2), ONE, ONE**2, 2).release(exact, ZeroNoise()).tolist() == [5.0, 7 / ONE]
