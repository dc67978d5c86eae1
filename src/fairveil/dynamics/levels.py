"""A fair set of thresholds is one number, the common level of a rate: from a level to every group's threshold."""

from __future__ import annotations

import numpy as np

from fairveil.compiling import njit
from fairveil.dynamics.mixtures import mixture, mixture_quantile
from fairveil.dynamics.problem import Problem, features

#: What the groups share: nothing, the threshold itself, a rate (true positives, false positives, acceptance), the loss.
FREE, SIMPLE, TPR, FPR, DP, LOSS_BELOW, LOSS_ABOVE = 0, 1, 2, 3, 4, 5, 6


@njit(cache=True, nogil=True, inline="always")
def weight(kind: int, alpha: float) -> float:
    """Rates are upper tails of a mixture: of the qualified, of the unqualified, or of everybody."""
    return 1.0 if kind == TPR else (0.0 if kind == FPR else alpha)


@njit(cache=True, nogil=True)
def spread(problem: Problem, r: int, x: float, low: np.ndarray, high: np.ndarray, out: np.ndarray) -> None:
    """Give every group the threshold at the level that x has in group r, looking between low and high from ``out``."""
    if out.size == 1:
        out[0] = x
        return
    kind, alpha = problem.kind, problem.alpha
    level, tail = 0.0, 0.0
    if kind != SIMPLE:
        level, tail = mixture(weight(kind, alpha[r]), features(problem, r), x)
    for s in range(alpha.size):
        if s == r or kind == SIMPLE:
            out[s] = x
            continue
        w = weight(kind, alpha[s])
        out[s] = mixture_quantile(w, features(problem, s), level, tail, low[s], high[s], out[s])


@njit(cache=True, nogil=True)
def below(problem: Problem, s: int, x: float, r: int, y: float) -> bool:
    """Is the level of x in group s below the level of y in group r?"""
    level, tail = mixture(weight(problem.kind, problem.alpha[s]), features(problem, s), x)
    other, rest = mixture(weight(problem.kind, problem.alpha[r]), features(problem, r), y)
    return level < other if level < 0.5 else tail > rest
