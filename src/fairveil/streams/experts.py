"""Which experts `private-kalman` has: a public grid of models that covers slow and fast, large and small signals.

Signal variances are multiples of the noise variance (1 here), ``10^-3`` to ``10^5`` by decades, so the grid does not
depend on the data. Without seasons there are 88 experts:

* 54: AR(1) about a learnt level, correlation 0, .5, .8, .9, .95, .995;
* 18: correlation .5 and .95 about a level that drifts by a hundredth of the signal variance a step;
* 16: a damped trend, damping .8 and .95, slope variance 10^-5 to 10^2.

A season candidate (one or two periods) adds 96: correlation .5, .9, .97; signal variance from 10^-2; tables with first
variance .1 or 1 of the signal's; deviations added to the season or scaled by it; the level drifts by a thousandth.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairveil.streams.bank import DRIFT, FIRST, NOISE, RHO, ROWS, TABLE, TIMES, TREND

Floats = NDArray[np.float64]
RATIOS = 10.0 ** np.arange(-3, 6)
SEASON_RATIOS = 10.0 ** np.arange(-2, 6)
SLOPES = 10.0 ** np.arange(-5, 3)
AUTO: tuple[tuple[int, ...], ...] = ((7,), (12,), (24,), (24, 168), (7, 365), (12, 168))
"""Candidates of ``seasons = "auto"``: a week of days, months of a year, hours of a day, and pairs of them."""


def _autoregressive(correlation: float, ratio: float, drift: float) -> Floats:
    row = np.zeros(ROWS)
    row[RHO], row[NOISE], row[DRIFT] = correlation, ratio * (1 - correlation**2), drift * ratio
    row[FIRST] = ratio
    return row


def _trend(damping: float, slope: float) -> Floats:
    row = np.zeros(ROWS)
    row[RHO], row[NOISE], row[TREND], row[FIRST] = damping, slope, 1.0, slope / (1 - damping**2)
    return row


def plain_experts() -> Floats:
    """One row an expert, for data without a season.

    >>> plain_experts().shape
    (88, 7)
    """
    rows = [_autoregressive(rho, s, 0.0) for rho in (0.0, 0.5, 0.8, 0.9, 0.95, 0.995) for s in RATIOS]
    rows += [_autoregressive(rho, s, 1e-2) for rho in (0.5, 0.95) for s in RATIOS]
    rows += [_trend(damping, slope) for damping in (0.8, 0.95) for slope in SLOPES]
    return np.array(rows)


def season_experts() -> Floats:
    """One row an expert of one season candidate.

    >>> season_experts().shape
    (96, 7)
    """
    rows = []
    for times in (0.0, 1.0):
        for share in (0.1, 1.0):
            for rho in (0.5, 0.9, 0.97):
                for ratio in SEASON_RATIOS:
                    row = _autoregressive(rho, ratio, 1e-3)
                    row[TABLE], row[TIMES] = share * ratio, times
                    rows.append(row)
    return np.array(rows)
