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

from typing import Any, NamedTuple

import numpy as np

RATIOS = 10.0 ** np.arange(-3, 6)
SEASON_RATIOS = 10.0 ** np.arange(-2, 6)
SLOPES = 10.0 ** np.arange(-5, 3)
AUTO: tuple[tuple[int, ...], ...] = ((7,), (12,), (24,), (24, 168), (7, 365), (12, 168))
"""Candidates of ``seasons = "auto"``: a week of days, months of a year, hours of a day, and pairs of them."""


class ExpertModels(NamedTuple):
    """Public numbers of one expert, or of many (vectors).

    ``noise``, ``drift``: what a step adds to the variances of deviation and level; ``first``, ``table``: variances of
    the deviation and of a season's entry before anything is seen; 1.0 where the deviation is the slope of a damped
    ``trend``, and where the season multiplies it (``times``).
    """

    rho: Any
    noise: Any
    drift: Any
    trend: Any = 0.0
    times: Any = 0.0
    table: Any = 0.0
    first: Any = 0.0


def _autoregressive(correlation: float, ratio: float, drift: float) -> ExpertModels:
    return ExpertModels(correlation, ratio * (1 - correlation**2), drift * ratio, first=ratio)


def _trend(damping: float, slope: float) -> ExpertModels:
    return ExpertModels(damping, slope, 0.0, trend=1.0, first=slope / (1 - damping**2))


def plain_experts() -> list[ExpertModels]:
    """The experts for data without a season.

    >>> len(plain_experts())
    88
    """
    made = [_autoregressive(rho, s, 0.0) for rho in (0.0, 0.5, 0.8, 0.9, 0.95, 0.995) for s in RATIOS]
    made += [_autoregressive(rho, s, 1e-2) for rho in (0.5, 0.95) for s in RATIOS]
    return made + [_trend(damping, slope) for damping in (0.8, 0.95) for slope in SLOPES]


def season_experts() -> list[ExpertModels]:
    """The experts of one season candidate.

    >>> len(season_experts())
    96
    """
    return [
        _autoregressive(rho, ratio, 1e-3)._replace(table=share * ratio, times=times)
        for times in (0.0, 1.0)
        for share in (0.1, 1.0)
        for rho in (0.5, 0.9, 0.97)
        for ratio in SEASON_RATIOS
    ]
