"""Neighbouring worlds of a running sum, for audits: the first leaf holds one row or the other.

The first leaf is the worst one: a tree counts it on every level, and its column of a Toeplitz code is the longest. An
observer sees all published prefixes up to a power of two, projected on the difference between the two rows.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from fairveil.privacy.audit import AuditPair
from fairveil.privacy.audit.pair import claim_of, finer_claim
from fairveil.privacy.noise import Noise
from fairveil.privacy.sums.base import BoundedSum, RunningSum
from fairveil.privacy.sums.shapes import Floats
from fairveil.randomness import Generator
from fairveil.registry import register

WATCHED = 8
"""Releases that an audit watches."""
BESIDE = 9
"""Other rows in the leaf of an outlier."""
_NUMBERS = 2**20
"""Numbers that are simulated side by side."""


def worst_rows(sums: RunningSum) -> tuple[Floats, Floats]:
    """Two rows whose exchange moves the sum by exactly its sensitivity.

    >>> from fairveil.privacy.sums import BatchSum
    >>> [row.tolist() for row in worst_rows(BatchSum(shape="symmetric", dimension=2, mu=1.0))]
    [[1.0, 0.0], [0.0, 1.0]]
    """
    first, second = np.zeros(sums.dimension), np.zeros(sums.dimension)
    first[0] = sums.bound
    if sums.neighbours == "replace-row" and sums.shape == "vector":
        second[0] = -sums.bound
    if sums.neighbours == "replace-row" and sums.shape == "symmetric" and sums.dimension > 1:
        second[1] = sums.bound
    return first, second


def direction(sums: RunningSum, first: Floats, second: Floats) -> Floats:
    """Unit vector (or matrix) from one row's contribution to the other's."""
    if sums.shape == "symmetric":
        difference = np.outer(first, first) - np.outer(second, second)
    else:
        difference = first - second if sums.shape == "vector" else np.asarray(first[0] - second[0])
    return difference / np.linalg.norm(difference)


def watched(sums: RunningSum) -> int:
    """How many releases an audit makes."""
    if not isinstance(sums, BoundedSum):
        return WATCHED - 1
    return min(WATCHED, 1 << (int(sums.releases).bit_length() - 1))


def run_prefixes(
    sums: RunningSum, rows: tuple[Floats, Floats], world: int, trials: int, noise: Noise, rng: Generator
) -> Floats:
    """Projected prefixes of ``trials`` streams: the first leaf holds the row of this world, later leaves are empty."""
    projection = direction(sums, *worst_rows(sums)).reshape(-1)
    block = max(1, _NUMBERS // sums.grid.width)
    parts = []
    for start in range(0, trials, block):
        copies = min(block, trials - start)
        wide = sums.many(copies)
        state = wide.add(wide.start(), rows[world] if sums.shape != "scalar" else rows[world][..., 0])
        seen = np.empty((copies, watched(sums)))
        for release in range(seen.shape[1]):
            state, estimate = wide.release(state, noise)
            seen[:, release] = estimate.reshape(copies, -1) @ projection
        parts.append(seen)
    return np.concatenate(parts)


def _pair(sums: RunningSum, rows: tuple[Floats, Floats], worlds: str) -> AuditPair:
    epsilon, delta = claim_of(sums.event(), 1e-5 if sums.delta is None else sums.delta)
    run, statistic = partial(run_prefixes, sums, rows), "published prefixes along the difference"
    return AuditPair(run, worlds, statistic, epsilon, delta, finer_claim(sums.event()))


def replaced_row(sums: RunningSum) -> AuditPair:
    """The first row is one or the other of the two rows that are furthest apart."""
    return _pair(sums, worst_rows(sums), "the first row is exchanged for the one that moves the sum most")


def outlying_row(sums: RunningSum) -> AuditPair:
    """The first row is zero or far outside the bound, beside others at the bound.

    A sum that does not clip gives itself away, and so does one that takes its bound from the largest row: the others
    shrink with it.
    """
    rows = np.zeros((2, 1 + BESIDE, sums.dimension))
    rows[:, 1:, 0], rows[1, 0, 0] = sums.bound, 10 * sums.bound
    return _pair(sums, (rows[0], rows[1]), "the first row is zero or ten times the bound, beside others at the bound")


for _name in ("batch", "tree", "toeplitz", "hybrid"):
    register("audit-pair", f"sum:{_name}")(replaced_row)
    register("audit-pair", f"sum:{_name}/outlier")(outlying_row)
