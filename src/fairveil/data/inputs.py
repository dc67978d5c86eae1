"""Tables handed to scikit-learn style estimators: checked as scikit-learn does, refused without a private value."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairveil.arrays import Floats
from fairveil.errors import InputError


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


def classes_of(labels: NDArray[Any], classes: Sequence[Any] | None, name: str) -> NDArray[Any]:
    """The two public classes; without a public pair they are read from the labels."""
    from sklearn.utils.multiclass import check_classification_targets, type_of_target

    try:
        check_classification_targets(labels)
    except ValueError as problem:
        raise InputProblem(str(problem), path="y", allowed="two different labels") from None
    found = np.unique(labels)
    if classes is not None:
        public = np.asarray(classes)
        if public.shape != (2,) or public[0] == public[1]:
            raise InputProblem("classes must be two different labels", path="classes", given=tuple(classes))
        if not np.isin(found, public).all():
            raise InputProblem(
                "y has labels that are not among the two public classes", path="y", allowed=f"{public[0]}, {public[1]}",
                fix='state the two public labels, the positive one second: classes=("no", "yes")',
            )  # fmt: skip
        return public
    kind = type_of_target(labels, input_name="y", raise_unknown=True)
    if kind != "binary":
        raise InputProblem(
            f"Only binary classification is supported. The type of the target is {kind}.", path="y",
            allowed="two different labels",
        )  # fmt: skip
    if len(found) != 2:
        raise InputProblem(
            f"{name} needs two classes; y has {len(found)} class.", path="y", allowed="two different labels",
            fix="state the two public classes: classes=(0, 1)",
        )  # fmt: skip
    return found


def refuse_weights(extra: dict[str, Any]) -> None:
    """`fit(..., sample_weight=)` is refused: a weight changes the sensitivity."""
    for name, value in extra.items():
        if name != "sample_weight":
            raise TypeError(f"fit() got an unexpected keyword argument {name!r}")
        if value is not None:
            raise InputProblem(
                "weights of rows are not supported: a weight changes the sensitivity", path="sample_weight",
                fix="leave it out",
            )  # fmt: skip


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
