"""Weights from a Gram matrix that may carry noise."""

from __future__ import annotations

import math

import numpy as np

from fairveil.compiling import njit


@njit(cache=True, nogil=True)
def solve_positive(matrix, right):
    """Solve by Cholesky; the second value is False (and the first useless) when the matrix is not positive definite."""
    size = right.shape[0]
    lower = np.zeros((size, size))
    out = np.zeros(size)
    for i in range(size):
        for j in range(i + 1):
            total = matrix[i, j]
            for k in range(j):
                total -= lower[i, k] * lower[j, k]
            if i == j:
                if not total > 1e-12 * abs(matrix[i, i]):
                    return out, False
                lower[i, i] = math.sqrt(total)
            else:
                lower[i, j] = total / lower[j, j]
    for i in range(size):
        total = right[i]
        for k in range(i):
            total -= lower[i, k] * out[k]
        out[i] = total / lower[i, i]
    for i in range(size - 1, -1, -1):
        total = out[i]
        for k in range(i + 1, size):
            total -= lower[k, i] * out[k]
        out[i] = total / lower[i, i]
    return out, True


@njit(cache=True, nogil=True)
def weights_of(moments, ridge, floor):
    """Ridge weights from moments of [x, y]; eigenvalues of Gram + ridge are floored when noise has made it indefinite.

    Everything happens after the noise, so it is post-processing; without noise it is plain ridge regression.
    """
    size = moments.shape[0] - 1
    gram = moments[:size, :size].copy()
    for i in range(size):
        gram[i, i] += ridge
    right = moments[:size, size].copy()
    weights, good = solve_positive(gram, right)
    if good:
        return weights
    values, vectors = np.linalg.eigh(gram)
    return vectors @ ((vectors.T @ right) / np.maximum(values, floor))


@njit(cache=True, nogil=True)
def add_outer(moments, row):
    """moments += row row^T."""
    for i in range(row.shape[0]):
        for j in range(row.shape[0]):
            moments[i, j] += row[i] * row[j]


@njit(cache=True, nogil=True)
def unpack_symmetric(flat, size, out):
    """A flat symmetric matrix (diagonal first, then above it row by row) in full."""
    for i in range(size):
        out[i, i] = flat[i]
    at = size
    for i in range(size):
        for j in range(i + 1, size):
            out[i, j] = flat[at]
            out[j, i] = flat[at]
            at += 1


@njit(cache=True, nogil=True)
def clip_row(row, bound):
    """Scale a row down to l2 norm at most ``bound`` in place."""
    total = 0.0
    for i in range(row.shape[0]):
        total += row[i] * row[i]
    if total > bound * bound:
        row *= bound / math.sqrt(total)
