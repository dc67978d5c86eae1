"""What the theorems of Cummings, Gupta, Kimpara and Morgenstern (2019) ask for, in numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass

from fairveil.errors import SpecError


def required_samples(
    hypotheses: int, alpha: float, beta: float, epsilon: float, positive_share: float, group_positives: float
) -> float:
    """Sample size of Theorem 2: the smallest n that meets every one of its terms.

    ``epsilon`` is the printed one (the algorithm spends 2 epsilon). ``positive_share`` is the smallest P_1a,
    ``group_positives`` the constant k with |Z_1a| = k n. The last condition is n > 4/(k epsilon)^2 (printed: 2 for 4),
    because ln(1/delta)/epsilon = sqrt(n)/epsilon must be below k n/2.

    >>> required_samples(100, 0.1, 0.05, 1.0, 0.04, 0.04) > 4 / 0.04**2
    True
    """
    for name, value in (("alpha", alpha), ("beta", beta), ("positive_share", positive_share)):
        if not 0 < value < 1:
            raise SpecError("this number is out of range", path=name, given=value, allowed="above 0, below 1")
    if hypotheses < 1 or not epsilon > 0 or not 0 < group_positives <= 1:
        raise SpecError(
            "the theorem needs a class, a budget and positives in every group", path="hypotheses",
            allowed="hypotheses >= 1, epsilon > 0, 0 < group_positives <= 1",
        )  # fmt: skip
    size, k = math.log(hypotheses), group_positives
    factor = 144 * (size + math.log(1 / beta) + math.log(20))

    def enough(n: float) -> bool:
        rest = k * n - math.sqrt(n) / epsilon - 1
        if rest <= 0:
            return False
        inner = max(1 / (alpha**2 * positive_share), (2 * n / rest + 1) / (epsilon * alpha), (math.sqrt(n) + size) / n)
        return n >= factor * inner

    low = high = 4 / (k * epsilon) ** 2
    while not enough(high):
        low, high = high, high * 2
        if high > 1e300:
            return math.inf
    return _smallest(enough, low, high)


def _smallest(enough: Callable[[float], bool], low: float, high: float) -> float:
    """The smallest number that is enough, up to rounding; more is enough, too."""
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


@dataclass(frozen=True)
class GameSizes:
    """Sizes that Algorithm 3 sets, and the epsilon that its condition (2) demands, as derived and as typeset."""

    rounds: float
    plays: float
    oracle_calls: float
    laplace_scale: float
    largest_cost: float
    epsilon_demanded: float
    epsilon_typeset: float

    def to_dict(self) -> dict[str, float]:
        return asdict(self)


def theory_rounds(n: int, alpha: float, beta: float, dimension: int, epsilon: float, delta: float) -> GameSizes:
    """T, m, the number of oracle calls, the noise and the demanded epsilon of Private-FairNR (c_0 = 1, C = 1/alpha).

    >>> found = theory_rounds(1000, 0.1, 0.05, 5, 1.0, 1e-5)
    >>> f"{found.rounds:.1e} {found.plays:.1e} {found.laplace_scale:.1e} {found.epsilon_demanded:.1e}"
    '4.7e+06 2.2e+07 4.1e+05 1.5e+05'
    """
    if n < 2 or not 0 < alpha < 1 or not 0 < beta < 1 or not 0 < delta < 1 or not epsilon > 0 or dimension < 1:
        raise SpecError(
            "the theorem is not about these numbers", path="n",
            allowed="n >= 2, dimension >= 1, epsilon > 0, alpha, beta and delta in (0, 1)",
        )  # fmt: skip
    cap, wrong = 1 / alpha, math.log(2 / beta)
    rounds = 4 * math.sqrt(n) * wrong / alpha**4
    complexity = math.log(2 * rounds / beta) * dimension * math.log(n)
    plays = complexity * cap**2 * rounds / (math.sqrt(n) * (1 + cap) ** 2 * wrong)
    scale = (2 + cap) / n * math.sqrt(plays * rounds * math.log(1 / delta)) / epsilon
    # The derivation has 1 + ln n outside the root; condition (2) is typeset with it inside.
    inner = 24 * math.sqrt(complexity * math.log(1 / delta)) / (alpha**2 * math.sqrt(math.sqrt(n) * wrong))
    derived, typeset = inner * (1 + math.log(n)), inner * math.sqrt(1 + math.log(n))
    return GameSizes(rounds, plays, rounds * plays, scale, (1 + cap) / n, derived, typeset)


def lemma_2(positives: int, n: int, epsilon: float) -> tuple[float, float]:
    """Sensitivity of the discrimination for a smallest group of so many positives: as stated, and as the proof has it.

    The statement takes ln(1/delta)/epsilon = sqrt(n)/epsilon off the group, which is the algorithm's doing and not the
    lemma's; it is negative for groups up to that size.

    >>> [round(bound, 4) for bound in lemma_2(20, 1000, 1.0)]
    [-0.1584, 0.1053]
    """
    return 2.0 / (positives - math.sqrt(n) / epsilon - 1.0), 2.0 / (positives - 1.0)


def third_term(hypotheses: int, beta: float) -> tuple[float, float]:
    """Sample sizes that the third term of theorem 2 asks for: as printed, and as the inequality before it gives.

    Printed n >= 144 (ln|H| + ln 1/beta + ln 20) (sqrt n + ln|H|)/n; the inequality has sqrt n >= ln 1/beta + ln 20.

    >>> [round(size) for size in third_term(390, 0.05)]
    [183, 36]
    """
    factor = 144 * (math.log(hypotheses) + math.log(20 / beta))
    size = math.log(hypotheses)
    printed = _smallest(lambda n: n * n >= factor * (math.sqrt(n) + size), 1.0, 1e9)
    return printed, math.log(20 / beta) ** 2
