"""OpenDP's exact discrete samplers behind two functions. Imported only where secure noise is drawn."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import opendp.prelude as dp

from fairveil.arrays import Ints

dp.enable_features("contrib")


@lru_cache(maxsize=256)
def _laplace(scale: float) -> Any:
    return dp.m.make_laplace(dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64"), scale=scale)


@lru_cache(maxsize=256)
def _gaussian(sigma: float) -> Any:
    return dp.m.make_gaussian(dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64"), scale=sigma)


def discrete_laplace(scale: float, size: int) -> Ints:
    return np.asarray(_laplace(scale)([0] * size), np.int64)


def discrete_gaussian(sigma: float, size: int) -> Ints:
    return np.asarray(_gaussian(sigma)([0] * size), np.int64)
