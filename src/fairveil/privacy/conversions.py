"""Exact conversions between the privacy currencies: Gaussian DP (mu), zCDP (rho) and (epsilon, delta).

mu-GDP converts exactly: delta(mu, eps) = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu) (Dong, Roth and Su 2022).
rho-zCDP converts through the Renyi curve (order a costs a*rho) with the bound of Canonne, Kamath and Steinke (2020).
"""

from __future__ import annotations

import math

from scipy.optimize import brentq, minimize_scalar
from scipy.special import log_ndtr, ndtr

from fairveil.errors import SpecError


def _finite_positive(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise SpecError(f"{name} must be a positive finite number", path=name, given=value, allowed="above 0")
    return float(value)


def _probability(name: str, value: float) -> float:
    value = _finite_positive(name, value)
    if value >= 1:
        raise SpecError(f"{name} must lie in (0, 1)", path=name, given=value, allowed="above 0, below 1")
    return value


def gdp_delta(mu: float, epsilon: float) -> float:
    """The exact delta of mu-GDP at epsilon (epsilon may be 0).

    >>> round(gdp_delta(1.0, 1.0), 6)
    0.126937
    """
    first = ndtr(mu / 2 - epsilon / mu)
    log_second = epsilon + log_ndtr(-mu / 2 - epsilon / mu)
    return float(max(0.0, first - math.exp(min(log_second, 0.0))))


def gdp_epsilon(mu: float, delta: float) -> float:
    """The exact epsilon of mu-GDP at delta, 0 when delta alone covers it."""
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
    _finite_positive("epsilon", epsilon)
    _probability("delta", delta)
    high = 1e-3
    while gdp_delta(high, epsilon) < delta:
        high *= 2
    low = high
    while gdp_delta(low, epsilon) > delta:
        low /= 2
    root = brentq(lambda mu: gdp_delta(mu, epsilon) - delta, low, high, xtol=1e-15, rtol=8.9e-16)
    while gdp_delta(root, epsilon) > delta:
        root *= 1 - 1e-14
    return root


def zcdp_epsilon(rho: float, delta: float) -> float:
    """An epsilon such that rho-zCDP implies (epsilon, delta)-DP, minimised over Renyi orders.

    Never above the textbook rho + 2 sqrt(rho ln(1/delta)).
    """
    _finite_positive("rho", rho)
    _probability("delta", delta)

    def epsilon(log_order_minus_one: float) -> float:
        order = 1 + math.exp(log_order_minus_one)
        return rho * order + (math.log(1 / delta) + (order - 1) * math.log1p(-1 / order) - math.log(order)) / (order - 1)

    centre = math.log(math.sqrt(math.log(1 / delta) / rho))
    found = minimize_scalar(epsilon, bounds=(centre - 8, centre + 8), method="bounded", options={"xatol": 1e-12})
    textbook = rho + 2 * math.sqrt(rho * math.log(1 / delta))
    return max(0.0, min(float(found.fun), textbook))


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
    for _ in range(200):
        middle = (low + high) / 2
        if zcdp_epsilon(middle, delta) <= epsilon:
            low = middle
        else:
            high = middle
    return low


def _not_below(value: float, holds: object) -> float:
    """Round a root up until the inequality that it must satisfy really holds."""
    step = 1e-15
    while not holds(value):  # type: ignore[operator]
        value += max(abs(value), 1.0) * step
        step *= 2
    return float(value)
