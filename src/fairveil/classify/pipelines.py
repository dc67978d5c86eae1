"""Pipelines before a private estimator: which steps learn from the rows, and an encoder that learns nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import get_tags

from fairveil.arrays import Floats
from fairveil.data.schema import Column, Dataset, encode
from fairveil.errors import InputError, SpecError, did_you_mean


class Leak(NamedTuple):
    """A step that learns from private rows without protection, or an ensemble that repeats them; what to do instead."""

    step: str
    transformer: str
    why: str
    fix: str


def check_pipeline(pipeline: Any) -> list[Leak]:
    """The steps before a private estimator that learn from its rows; empty when there is none to worry about.

    Looks into pipelines, column transformers, unions, searches and ensembles, and names one that draws rows with
    replacement: a row that stands k times in a fit has k units. A transformer is fine when scikit-learn says that it
    needs no fit, when it declares everything (`PublicEncoder`, encoders with ``categories``), or when it is a
    function; everything else is named. Nothing is run and no row is read.

    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from fairveil.classify import PrivateLogisticRegression
    >>> [leak.transformer for leak in check_pipeline(make_pipeline(StandardScaler(), PrivateLogisticRegression()))]
    ['StandardScaler']
    """
    inner = getattr(pipeline, "estimator", None)
    if inner is not None and hasattr(inner, "fit"):
        return [*_copies(pipeline, inner), *check_pipeline(inner)]
    steps = getattr(pipeline, "steps", None)
    if not steps:
        return []
    *before, (_, last) = steps
    found = check_pipeline(last)
    if not (_is_private(last) or found):
        return []
    return [leak for name, step in before for leak in _leaks(name, step)] + found


def _copies(ensemble: Any, inner: Any) -> Iterator[Leak]:
    if getattr(ensemble, "bootstrap", False) is True and _is_private(inner):
        yield Leak(
            "",
            type(ensemble).__name__,
            "it hands a row to one fit several times, and the promise is for one row",
            "bootstrap=False, with max_samples below 1",
        )


def _is_private(thing: Any) -> bool:
    inner = getattr(thing, "estimator", None)
    if getattr(thing, "private", False) is True:
        return True
    if inner is not None and hasattr(inner, "fit"):
        return _is_private(inner)
    steps = getattr(thing, "steps", None)
    return steps is not None and len(steps) > 0 and _is_private(steps[-1][1])


def _leaks(name: str, step: Any) -> Iterator[Leak]:
    if step is None or isinstance(step, str):  # passthrough, drop
        return
    parts = (
        getattr(step, "steps", None) or getattr(step, "transformer_list", None) or getattr(step, "transformers", None)
    )
    if parts:
        for part in parts:
            yield from _leaks(f"{name}.{part[0]}", part[1])
        return
    if _declares(step):
        return
    yield Leak(
        name,
        type(step).__name__,
        "it learns from the rows (ranges, means, categories, directions) and hands that on unpaid",
        "use PublicEncoder with declared ranges and categories, or a fixed function",
    )


def _declares(step: Any) -> bool:
    if getattr(step, "learns_nothing", False) is True or not get_tags(step).requires_fit:
        return True
    categories = getattr(step, "categories", None)
    if categories is None or isinstance(categories, str):
        return False
    learns = [getattr(step, key, None) is not None for key in ("min_frequency", "max_categories")]
    return not any(learns)


class PublicEncoder(TransformerMixin, BaseEstimator):
    """Encode columns by declared ranges, bins and categories; `fit` learns nothing from the rows.

    ``schema`` is a list of `fairveil.data.Column` or a `Dataset`; text columns are left out, as is the target of a
    data set. Rows come as a data frame (or a mapping) with these columns, or as a matrix with them in this order.
    Norms are at most ``norm_bound``, the public bound to give to a private estimator.

    >>> encoder = PublicEncoder([Column("age", "continuous", low=0, high=80)], bins=4)
    >>> encoder.fit_transform([[10], [79]]).tolist(), encoder.norm_bound
    ([[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]], 1.0)
    """

    learns_nothing = True

    def __init__(
        self, schema: Sequence[Column] | Dataset, *, columns: Sequence[str] | None = None, bins: int = 8
    ) -> None:
        self.schema = schema
        self.columns = columns
        self.bins = bins

    @property
    def chosen(self) -> list[Column]:
        """The columns that are encoded, in order."""
        given = self.schema.schema if isinstance(self.schema, Dataset) else tuple(self.schema)
        target = self.schema.target if isinstance(self.schema, Dataset) else ""
        known = {column.name: column for column in given}
        names = (
            [c.name for c in given if c.kind != "text" and c.name != target] if self.columns is None else self.columns
        )
        unknown = [name for name in names if name not in known]
        if unknown or not names:
            raise SpecError(
                "the schema has no such column" if unknown else "no column is chosen",
                path="columns",
                given=unknown,
                allowed=", ".join(known),
                fix=did_you_mean(unknown[0], known) if unknown else "name one, or leave columns out for all",
            )
        return [known[name] for name in names]

    @property
    def norm_bound(self) -> float:
        """No encoded row is longer, whatever the data."""
        return float(np.sqrt(len(self.chosen)))

    def fit(self, X: Any = None, y: Any = None) -> PublicEncoder:
        """Nothing is learnt."""
        self.n_features_in_ = len(self.chosen)
        return self

    def transform(self, X: Any) -> Floats:
        """Rows as a matrix of numbers in [0, 1]."""
        chosen = self.chosen
        if hasattr(X, "columns") or isinstance(X, dict):
            names = {str(name).strip(): name for name in X} | {name: name for name in X}
            missing = [column.name for column in chosen if column.name.strip() not in names]
            if missing:
                raise _missing_columns(missing, list(map(str, X)))
            spelled = {c.name: names.get(c.name, names[c.name.strip()]) for c in chosen}
            values = {column.name: np.asarray(X[spelled[column.name]]) for column in chosen}
        else:
            matrix = np.asarray(X, dtype=object)
            if matrix.ndim != 2 or matrix.shape[1] != len(chosen):
                raise InputError("the columns do not fit the schema", path="X", allowed=f"{len(chosen)} columns")
            values = {column.name: matrix[:, i] for i, column in enumerate(chosen)}
        return encode(chosen, values, bins=self.bins).matrix

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        names = [name for column in self.chosen for name in column.encoded_names(self.bins)]
        return np.array(names, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def _missing_columns(missing: list[str], there: list[str]) -> InputError:
    """Columns of the schema that a table does not have, beside those that it has."""
    near = did_you_mean(missing[0], there)
    return InputError(
        f"the table lacks what the schema names: {', '.join(missing)}",
        path="X",
        given=there,
        allowed="a table with every column of the schema",
        fix=near or "correct the name in the schema or in the table",
    )
