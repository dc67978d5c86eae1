"""Tables handed to scikit-learn style estimators: checked as scikit-learn does, refused without a private value."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairveil.errors import InputError

Floats = NDArray[np.float64]


class InputProblem(InputError, ValueError):
    """Wrong input of a scikit-learn style estimator: ours, and a ValueError as scikit-learn's callers expect."""


def features_of(estimator: Any, X: Any, y: Any = None, *, reset: bool) -> tuple[Floats, Any]:
    """Finite features as scikit-learn checks them (names, number of columns); with ``y`` at fit."""
    from sklearn.utils.validation import validate_data

    try:
        if not reset:
            return np.asarray(validate_data(estimator, X, dtype=np.float64, reset=False)), None
        features, labels = validate_data(estimator, X, y, dtype=np.float64)
    except InputProblem:
        raise
    except ValueError as problem:
        if any(word in str(problem) for word in ("NaN", "infinity")):
            raise InputProblem(
                "features and labels must be finite, without NaN, inf or missing entries", path="X",
                allowed="finite numbers", fix="drop or fill the incomplete rows before the private fit",
            ) from None  # fmt: skip
        raise InputProblem(
            _without_values(str(problem)), path="X", allowed="a table of numbers, a row a person"
        ) from None
    return features, labels


def _without_values(message: str) -> str:
    """scikit-learn's words without the cells that some of its messages quote.

    >>> _without_values("Expected 2D array, got 1D array instead:\\narray=[0.7 0.1].\\nReshape your data either way.")
    'Expected 2D array, got 1D array instead. Reshape your data either way.'
    >>> _without_values("could not convert string to float: 'Smith'")
    'could not convert string to float'
    """
    message = re.sub(r":?\s*array=.*?(?=Reshape|$)", ". ", message, flags=re.DOTALL)
    for start in ("Complex data not supported", "could not convert string to float"):
        if message.startswith(start):
            return start
    return message
