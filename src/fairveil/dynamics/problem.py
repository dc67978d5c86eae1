"""A decision problem as the compiled solvers take it: groups, what they must share, what decisions earn.

A fair set of thresholds is one number, the common level of a rate: `spread` leads from a level to every group's
threshold.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairveil.compiling import njit
from fairveil.dynamics.mixtures import Pair, mixture, mixture_quantile

#: What the groups share: nothing, the threshold itself, a rate (true positives, false positives, acceptance), the loss.
FREE, SIMPLE, TPR, FPR, DP, LOSS_BELOW, LOSS_ABOVE = 0, 1, 2, 3, 4, 5, 6
#: The solvers' code of each notion's level (`fairveil.fairness.notions`).
CODES = {
    "none": FREE,
    "simple": SIMPLE,
    "tpr": TPR,
    "fpr": FPR,
    "dp": DP,
    "eqloss": LOSS_BELOW,
    "eqloss-above": LOSS_ABOVE,
}


class Instance(NamedTuple):
    """One instance; arrays are by group, distributions by row of ``codes`` and ``params``.

    ``which[s, y]`` is the row that holds the features of label y in group s, ``cost[s]`` the row of its manipulation
    cost or -1. ``kind`` says what the groups share (FREE to LOSS_ABOVE).
    """

    kind: int
    share: np.ndarray
    alpha: np.ndarray
    which: np.ndarray
    cost: np.ndarray
    codes: np.ndarray
    params: np.ndarray
    gain: float
    loss: float


class Instances(NamedTuple):
    """Many instances of one kind: the arrays of `Instance` with instances first; distributions are shared."""

    kind: int
    share: np.ndarray
    alpha: np.ndarray
    which: np.ndarray
    cost: np.ndarray
    codes: np.ndarray
    params: np.ndarray
    gain: np.ndarray
    loss: np.ndarray


class Stakes(NamedTuple):
    """What is at stake in one group: its qualified share, its features, its manipulation cost, gain and loss.

    ``cost_code`` is -1 where nobody manipulates; ``cost_params`` is then not read.
    """

    alpha: float
    pair: Pair
    cost_code: int
    cost_params: np.ndarray
    gain: float
    loss: float


@njit(cache=True, nogil=True)
def instance(batch: Instances, k: int) -> Instance:
    """Instance k of a batch; its arrays are views."""
    return Instance(
        batch.kind,
        batch.share[k],
        batch.alpha[k],
        batch.which[k],
        batch.cost[k],
        batch.codes,
        batch.params,
        batch.gain[k],
        batch.loss[k],
    )


@njit(cache=True, nogil=True)
def features(problem: Instance, s: int) -> Pair:
    """The features of group s."""
    i, j = problem.which[s, 0], problem.which[s, 1]
    return Pair(problem.codes[i], problem.params[i], problem.codes[j], problem.params[j])


@njit(cache=True, nogil=True)
def stakes(problem: Instance, s: int) -> Stakes:
    """What is at stake in group s."""
    c = problem.cost[s]
    code = problem.codes[c] if c >= 0 else -1
    return Stakes(problem.alpha[s], features(problem, s), code, problem.params[c], problem.gain, problem.loss)


@njit(cache=True, nogil=True, inline="always")
def weight(kind: int, alpha: float) -> float:
    """Rates are upper tails of a mixture: of the qualified, of the unqualified, or of everybody."""
    return 1.0 if kind == TPR else (0.0 if kind == FPR else alpha)


@njit(cache=True, nogil=True)
def spread(problem: Instance, r: int, x: float, low: np.ndarray, high: np.ndarray, out: np.ndarray) -> None:
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
def below(problem: Instance, s: int, x: float, r: int, y: float) -> bool:
    """Is the level of x in group s below the level of y in group r?"""
    level, tail = mixture(weight(problem.kind, problem.alpha[s]), features(problem, s), x)
    other, rest = mixture(weight(problem.kind, problem.alpha[r]), features(problem, r), y)
    return level < other if level < 0.5 else tail > rest
