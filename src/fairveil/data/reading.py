"""Reading tables, with pandas when it is installed and one clear error when it is not."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairveil.errors import DependencyError


def pandas() -> Any:
    """The pandas module, or an error that says how to get it."""
    try:
        import pandas as module
    except ImportError:
        raise DependencyError("this needs pandas", fix="pip install 'fairveil[lab]'") from None
    return module


def read_csv(content: bytes, **options: Any) -> Any:
    """A DataFrame from the bytes of a delimited file."""
    return pandas().read_csv(io.BytesIO(content), **options)


def columns(frame: Any) -> dict[str, NDArray[Any]]:
    """Numpy columns of a DataFrame: numbers stay numbers, everything else becomes text objects."""
    out: dict[str, NDArray[Any]] = {}
    for name in frame.columns:
        series = frame[name]
        numeric = series.dtype.kind in "biuf"
        out[str(name)] = series.to_numpy() if numeric else np.asarray(series.to_list(), dtype=object)
    return out
