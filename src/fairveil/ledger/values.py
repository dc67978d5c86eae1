"""Released values as text: typed, exact, and readable without running anything (no pickle).

Taken: None, booleans, integers of any size, floats (with NaN and infinities), strings, bytes, lists and tuples (read
back as lists), dictionaries with string keys, numpy scalars (read back as arrays without axes) and arrays of booleans,
integers, floats or complex numbers.
"""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import numpy as np

from fairveil.errors import InputError, LedgerTampered

MAX_BYTES = 256 * 2**20
_ARRAY_KINDS = "biufc"
_AS_IT_IS, _ARRAYS, _RAW, _LISTS = (str, bool, type(None)), (np.ndarray, np.generic), (bytes, bytearray), (list, tuple)
_written = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_ALLOWED = "None, numbers, strings, bytes, lists, dictionaries with string keys, numeric arrays"


def encode(value: Any) -> str:
    """The one text for a value.

    >>> decode(encode({"sum": np.arange(3), "n": 2}))
    {'sum': array([0, 1, 2]), 'n': 2}
    """
    text = _written(_plain(value))
    if len(text) > MAX_BYTES:
        raise InputError("a released value is too large", path="value", given=len(text), allowed=f"{MAX_BYTES} bytes")
    return text


def decode(text: str) -> Any:
    """Read a value back; text that `encode` cannot have written is refused."""
    try:
        return _value(json.loads(text))
    except (ValueError, TypeError, KeyError) as problem:
        fix = "run fairveil ledger verify"
        raise LedgerTampered("a stored value cannot be read", path="value", fix=fix) from problem


def _plain(value: Any) -> Any:
    if isinstance(value, _AS_IT_IS):
        return value
    if isinstance(value, _ARRAYS):
        return _array(np.asarray(value))
    if isinstance(value, int):
        return value if abs(value) < 2**53 else {"$int": str(value)}
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, _RAW):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, _LISTS):
        return [_plain(item) for item in value]
    if isinstance(value, dict) and all(map(_is_name, value)):
        return {"$dict": [[key, _plain(item)] for key, item in value.items()]}
    kind = type(value).__name__
    raise InputError("this kind of value cannot be released", path="value", given=kind, allowed=_ALLOWED)


def _is_name(key: Any) -> bool:
    return isinstance(key, str)


def _array(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    if array.dtype.kind not in _ARRAY_KINDS:
        raise InputError(
            "this kind of array cannot be released", path="value", given=str(array.dtype), allowed="numeric arrays"
        )
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    data = base64.b64encode(little.tobytes()).decode()
    return {"$array": [little.dtype.str, list(array.shape), data]}


def _value(plain: Any) -> Any:
    if isinstance(plain, list):
        return [_value(item) for item in plain]
    if not isinstance(plain, dict):
        return plain
    ((kind, content),) = plain.items()
    if kind == "$dict":
        return {key: _value(item) for key, item in content}
    if kind == "$int":
        return int(content)
    if kind == "$float":
        return float(content)
    if kind == "$bytes":
        return base64.b64decode(content, validate=True)
    if kind != "$array":
        raise ValueError(kind)
    name, shape, data = content
    dtype = np.dtype(name)
    if dtype.kind not in _ARRAY_KINDS:
        raise ValueError(name)
    # native byte order again, and writable: frombuffer alone would give a read-only view
    return np.frombuffer(base64.b64decode(data, validate=True), dtype).astype(dtype.newbyteorder("=")).reshape(shape)
