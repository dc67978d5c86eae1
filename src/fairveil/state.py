"""A state is a value: plain arrays under fixed names, so saving, replaying, vectorising and recovery need nothing else.

A state may hold another one under a name of its own (`nest`, `nested`): its arrays are kept as ``name/array``, and this
file is the only one that knows.
"""

from __future__ import annotations

import io
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

State = dict[str, NDArray[Any]]
"""Plain arrays under fixed names."""

_LEVEL = "/"
_PARSER = threading.Lock()


def copy_state(state: State) -> State:
    """The same values in arrays of their own."""
    return {name: array.copy() for name, array in state.items()}


def same_state(first: State, second: State) -> bool:
    """Equal names, kinds of number and values; not-a-number equals itself.

    >>> same_state({"a": np.zeros(2)}, {"a": np.zeros(2)}), same_state({"a": np.zeros(2)}, {})
    (True, False)
    """
    return first.keys() == second.keys() and all(
        array.dtype == second[name].dtype and np.array_equal(array, second[name], equal_nan=array.dtype.kind == "f")
        for name, array in first.items()
    )


def nest(name: str, inner: State) -> State:
    """The arrays of an inner state as part of an outer one.

    >>> sorted(nest("sum", {"open": np.zeros(1), "rows": np.zeros(())}))
    ['sum/open', 'sum/rows']
    """
    return {name + _LEVEL + key: array for key, array in inner.items()}


def nested(state: State, name: str) -> State:
    """The inner state that was put in under this name; the arrays are shared, not copied.

    >>> list(nested({"sum/open": np.zeros(1), "end": np.zeros(1)}, "sum"))
    ['open']
    """
    start = name + _LEVEL
    return {key[len(start) :]: array for key, array in state.items() if key.startswith(start)}


def save_state(state: State) -> bytes:
    """A state as bytes (npz). `load_state` gives it back exactly."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **state)
    return buffer.getvalue()


def load_state(data: bytes) -> State:
    """The state that `save_state` wrote; one thread at a time.

    NumPy reads an array's header with `ast.literal_eval`, and CPython 3.11 keeps the depth of that parser once a
    process: two threads in it at the same moment fail each other with a SystemError.
    """
    with _PARSER, np.load(io.BytesIO(data), allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}
