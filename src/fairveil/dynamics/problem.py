"""A decision problem as the compiled solvers take it: groups, what they must share, what decisions earn."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairveil.compiling import njit
from fairveil.dynamics.mixtures import Pair


class Problem(NamedTuple):
    """One instance; arrays are by group, distributions by row of ``codes`` and ``params``.

    ``which[s, y]`` is the row that holds the features of label y in group s, ``cost[s]`` the row of its manipulation
    cost or -1. ``kind`` says what the groups share (`fairveil.dynamics.levels`).
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


class Batch(NamedTuple):
    """Many instances of one kind: the arrays of `Problem` with instances first; distributions are shared."""

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
def instance(batch: Batch, k: int) -> Problem:
    """Instance k of a batch; its arrays are views."""
    return Problem(
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
def features(problem: Problem, s: int) -> Pair:
    """The features of group s."""
    i, j = problem.which[s, 0], problem.which[s, 1]
    return Pair(problem.codes[i], problem.params[i], problem.codes[j], problem.params[j])


@njit(cache=True, nogil=True)
def stakes(problem: Problem, s: int) -> Stakes:
    """What is at stake in group s."""
    c = problem.cost[s]
    code = problem.codes[c] if c >= 0 else -1
    return Stakes(problem.alpha[s], features(problem, s), code, problem.params[c], problem.gain, problem.loss)
