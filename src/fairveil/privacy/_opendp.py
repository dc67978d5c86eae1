"""OpenDP's exact discrete samplers behind two functions. Imported only where secure noise is drawn.

Not through `opendp.prelude`: that loads scikit-learn, SciPy's statistics and pandas where they are installed, a second
of every start.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from opendp.domains import atom_domain, vector_domain
from opendp.measurements import make_gaussian, make_laplace
from opendp.metrics import l1_distance, l2_distance
from opendp.mod import enable_features

from fairveil.arrays import Ints

enable_features("contrib")


@lru_cache(maxsize=256)
def _laplace(scale: float) -> Any:
    return make_laplace(vector_domain(atom_domain(T="i64")), l1_distance(T="i64"), scale=scale)


@lru_cache(maxsize=256)
def _gaussian(sigma: float) -> Any:
    return make_gaussian(vector_domain(atom_domain(T="i64")), l2_distance(T="f64"), scale=sigma)


def discrete_laplace(scale: float, size: int) -> Ints:
    return np.asarray(_laplace(scale)([0] * size), np.int64)


def discrete_gaussian(sigma: float, size: int) -> Ints:
    return np.asarray(_gaussian(sigma)([0] * size), np.int64)
