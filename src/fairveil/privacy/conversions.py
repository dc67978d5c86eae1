"""Conversions between the privacy currencies: pure epsilon, Gaussian DP (mu), zCDP (rho) and (epsilon, delta).

mu-GDP converts exactly: delta(mu, eps) = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu) (Dong, Roth and Su 2022).
rho-zCDP converts through the Renyi curve (order a costs a*rho) with the bound of Canonne, Kamath and Steinke (2020).
epsilon-DP is tightly (epsilon tanh(epsilon/2))-zCDP (Harrison and Manurangsi 2025) and tightly
(-2 Phi^-1(1/(1+e^epsilon)))-GDP: the trade-off curve of randomized response is two straight lines, and a convex curve
through their three corners lies below them, so it is enough that the Gaussian curve is low enough at the kink.

Every function errs toward more noise: a bound is raised by what rounding can have taken off it (`ROUNDING` of the terms
that it was added up from), and what calibrates noise holds against the raised bound. Checked against 50 digits: never
optimistic, and less than 1e-9 pessimistic in the scale of the noise (`tests/privacy/test_calibration.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from fairveil.errors import SpecError

GRID_CONSTANT = 0.021
"""One discrete Gaussian draw is within total variation 0.021 / sigma^2 of a rounded Gaussian (sigma in grid units)."""


LEAST = 1e-305
"""Numbers below are refused: they are nearly subnormal, and quotients of them overflow."""
ROUNDING = 2.0**-50
"""A few rounding errors of a function's value, relative to the terms of the sum that it is computed from."""


def _finite_positive(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not LEAST <= value < math.inf:
        raise SpecError(f"{name} must be a positive finite number", path=name, given=value, allowed=f"at least {LEAST}")
    return float(value)


def _probability(name: str, value: float) -> float:
    value = _finite_positive(name, value)
    if value >= 1:
        raise SpecError(f"{name} must lie in (0, 1)", path=name, given=value, allowed=f"at least {LEAST}, below 1")
    return value


def _mills(x: float) -> float:
    """Phi(-x) / phi(x), the ratio that neither overflows nor underflows for x >= 0."""
    from scipy.special import erfcx

    return math.sqrt(math.pi / 2) * float(erfcx(x / math.sqrt(2)))


def gdp_delta(mu: float, epsilon: float) -> float:
    """The exact delta of mu-GDP at epsilon (epsilon may be 0), rounded up.

    e^eps phi(mu/2 + eps/mu) = phi(mu/2 - eps/mu) removes the exponential, so a tiny delta keeps its digits.

    >>> round(gdp_delta(1.0, 1.0), 6)
    0.126937
    """
    from scipy.special import ndtr

    mu = _finite_positive("mu", mu)
    if epsilon != 0:
        epsilon = _finite_positive("epsilon", epsilon)
    near, far = mu / 2 - epsilon / mu, mu / 2 + epsilon / mu
    density = math.exp(-near * near / 2) / math.sqrt(2 * math.pi)
    exponent = 1 + near * near  # its rounding is that of the density
    second = density * _mills(far)
    first, rounded = (density * _mills(-near), exponent) if near < 0 else (float(ndtr(near)), 1.0)
    return min(1.0, max(0.0, first - second) + ROUNDING * (rounded * first + exponent * second))


def gdp_epsilon(mu: float, delta: float) -> float:
    """The exact epsilon of mu-GDP at delta, 0 when delta alone covers it."""
    from scipy.optimize import brentq

    _finite_positive("mu", mu)
    _probability("delta", delta)
    if gdp_delta(mu, 0.0) <= delta:
        return 0.0
    high = 1.0
    while gdp_delta(mu, high) > delta:
        high *= 2
    root = brentq(lambda eps: gdp_delta(mu, eps) - delta, 0.0, high, xtol=1e-13, rtol=8.9e-16)
    return _not_below(root, lambda eps: gdp_delta(mu, eps) <= delta)


def gdp_mu(epsilon: float, delta: float) -> float:
    """The largest mu for which mu-GDP implies (epsilon, delta)-DP: calibrate Gaussian noise with this.

    >>> round(gdp_mu(1.0, 1e-5), 3)
    0.268
    """
    from scipy.optimize import brentq

    _finite_positive("epsilon", epsilon)
    _probability("delta", delta)
    high = 1e-3
    while gdp_delta(high, epsilon) < delta:
        high *= 2
    low = high
    while gdp_delta(low, epsilon) > delta:
        low /= 2
    if low == high:
        return high
    root = brentq(lambda mu: gdp_delta(mu, epsilon) - delta, low, high, xtol=1e-15, rtol=8.9e-16)
    step = 1e-15
    while gdp_delta(root, epsilon) > delta:
        root *= 1 - step
        step *= 2
    return float(root)


def _renyi(rho: float, delta: float, log_order_minus_one: float) -> float:
    """The epsilon at delta that order 1 + e^x of rho-zCDP gives (Canonne, Kamath and Steinke 2020, Proposition 12)."""
    above = math.exp(log_order_minus_one)
    order = 1 + above
    return _sum_up(rho * order, -math.log1p(1 / above), -math.log(delta) / above, -math.log1p(above) / above)


def zcdp_epsilon(rho: float, delta: float) -> float:
    """An epsilon such that rho-zCDP implies (epsilon, delta)-DP, minimised over Renyi orders.

    Never above the textbook rho + 2 sqrt(rho ln(1/delta)).
    """
    from scipy.optimize import minimize_scalar

    _finite_positive("rho", rho)
    _probability("delta", delta)
    centre = math.log(math.sqrt(math.log(1 / delta) / rho))
    found = minimize_scalar(
        lambda x: _renyi(rho, delta, x), bounds=(centre - 8, centre + 8), method="bounded", options={"xatol": 1e-12}
    )
    textbook = rho + 2 * math.sqrt(rho * math.log(1 / delta))
    return max(0.0, min(float(found.fun), textbook))


def zcdp_delta(rho: float, epsilon: float) -> float:
    """A delta such that rho-zCDP implies (epsilon, delta)-DP, minimised over Renyi orders; at most 1.

    >>> zcdp_delta(0.5, 5.0) > gdp_delta(1.0, 5.0)        # a Gaussian is one of many rho-zCDP mechanisms
    True
    """
    from scipy.optimize import minimize_scalar

    _finite_positive("rho", rho)
    _finite_positive("epsilon", epsilon)

    def log_delta(log_order_minus_one: float) -> float:
        above = math.exp(log_order_minus_one)
        return _sum_up(above * rho * (1 + above), -above * epsilon, -above * math.log1p(1 / above), -math.log1p(above))

    highest = math.log(min(max((epsilon - rho) / (2 * rho), 1.0), 1 / LEAST)) + 8
    found = minimize_scalar(log_delta, bounds=(-20.0, highest), method="bounded", options={"xatol": 1e-12})
    return min(1.0, math.exp(min(float(found.fun), 0.0)) * (1 + ROUNDING))


def zcdp_rho(epsilon: float, delta: float) -> float:
    """The largest rho for which `zcdp_epsilon` stays at or below epsilon."""
    _finite_positive("epsilon", epsilon)
    _probability("delta", delta)
    high = 1e-12
    while zcdp_epsilon(high, delta) < epsilon:
        high *= 2
    low = high / 2
    while zcdp_epsilon(low, delta) > epsilon:
        low /= 2
    while high - low > 1e-15 * high:
        middle = (low + high) / 2
        if zcdp_epsilon(middle, delta) <= epsilon:
            low = middle
        else:
            high = middle
    return low


def pure_rho(epsilon: float) -> float:
    """The zCDP parameter of every epsilon-DP release: epsilon tanh(epsilon/2), at most epsilon^2/2.

    >>> round(pure_rho(1.0), 4)
    0.4621
    """
    epsilon = _finite_positive("epsilon", epsilon)
    return _up(epsilon * math.tanh(epsilon / 2))


def pure_mu(epsilon: float) -> float:
    """The Gaussian DP parameter of every epsilon-DP release: -2 Phi^-1(1 / (1 + e^epsilon)).

    >>> round(pure_mu(1.0), 4), pure_mu(1e-200) > 1.2533e-200
    (1.232, True)
    """
    from scipy.special import erfinv, ndtri_exp

    epsilon = _finite_positive("epsilon", epsilon)
    if epsilon < 1:  # 2 Phi(mu/2) - 1 = tanh(epsilon/2), which keeps the digits of a tiny epsilon
        return _up(2 * math.sqrt(2) * float(erfinv(math.tanh(epsilon / 2))))
    return _up(-2 * float(ndtri_exp(-epsilon - math.log1p(math.exp(-epsilon)))))


def pure_renyi(epsilon: float, order: float) -> float:
    """The largest Renyi divergence of this order between two neighbours of an epsilon-DP release."""
    if order * epsilon > 600:  # cosh overflows; log(2 cosh x) is x up to e^(-2x)
        spread = (order - 1) * epsilon + math.log1p(math.exp(-(2 * order - 1) * epsilon))
        return _up((spread - math.log1p(math.exp(-epsilon))) / (order - 1))
    # log(cosh((order - 1/2) epsilon) / cosh(epsilon / 2)), written without cancellation
    growth = 2 * math.sinh(order * epsilon / 2) * math.sinh((order - 1) * epsilon / 2) / math.cosh(epsilon / 2)
    return _up(math.log1p(growth) / (order - 1))


def grid_correction(epsilon: float, distance: float) -> float:
    """What a total-variation ``distance`` to the ideal Gaussian adds to delta at epsilon; may exceed 1."""
    return math.inf if epsilon > 700 else (1 + math.exp(epsilon)) * distance


def _sum_up(*terms: float) -> float:
    """A sum, raised by what rounding can have taken off it."""
    return sum(terms) + ROUNDING * sum(map(abs, terms))


def _up(value: float) -> float:
    """A bound a little above a value that was computed with a few rounding errors."""
    return value * (1 + 1e-9)


def _not_below(value: float, holds: Callable[[float], bool]) -> float:
    """Round a root up until the inequality that it must satisfy really holds."""
    step = 1e-15
    while not holds(value):
        value += max(abs(value), 1.0) * step
        step *= 2
    return float(value)
