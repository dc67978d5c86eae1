"""A state is a value: plain arrays under fixed names, so saving, replaying, vectorising and recovery need nothing else.

A state may hold another one under a name of its own (`nest`, `nested`): its arrays are kept as ``name/array``, and this
file is the only one that knows.
"""

from __future__ import annotations

import io
import struct
import threading
import zlib
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

State = dict[str, NDArray[Any]]
"""Plain arrays under fixed names."""

_LEVEL = "/"
_PARSER = threading.Lock()
_FILE, _PLACE, _END = struct.Struct("<4s5H3L2H"), struct.Struct("<4s6H3L5H2L"), struct.Struct("<4s4HLLH")
"""The records of a zip file: before each file, in the table at the end, and the end."""
_SINCE, _UTF8, _DAY = 20, 0x800, 0x21


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
    """A state as bytes (npz, as `numpy.savez` writes it, at a tenth of its cost). `load_state` gives it back exactly.

    >>> load_state(save_state({"a": np.arange(3)}))
    {'a': array([0, 1, 2])}
    """
    files, places, at = list[bytes](), list[bytes](), 0
    for name, array in state.items():
        path, data = f"{name}.npy".encode(), _npy(np.asarray(array))
        about = _SINCE, _UTF8, 0, 0, _DAY, zlib.crc32(data), len(data), len(data), len(path), 0
        files += [_FILE.pack(b"PK\3\4", *about), path, data]
        places += [_PLACE.pack(b"PK\1\2", _SINCE, *about, 0, 0, 0, 0, at), path]
        at += _FILE.size + len(path) + len(data)
    table = b"".join(places)
    end = _END.pack(b"PK\5\6", 0, 0, len(state), len(state), len(table), at, 0)
    return b"".join([*files, table, end])


def _npy(array: NDArray[Any]) -> bytes:
    if array.dtype.hasobject:
        raise ValueError("a state holds numbers, truth values and text, no objects")
    across = array.flags.f_contiguous and not array.flags.c_contiguous
    return _header(array.dtype, array.shape, across) + (array.T if across else array).tobytes()


@lru_cache(maxsize=1024)
def _header(kind: np.dtype[Any], shape: tuple[int, ...], across: bool) -> bytes:
    buffer = io.BytesIO()
    table = {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": across, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, table)
    return buffer.getvalue()


def load_state(data: bytes) -> State:
    """The state that `save_state` wrote, now or in an earlier version."""
    found = _plain(data)
    if found is not None:
        return found
    with _PARSER, np.load(io.BytesIO(data), allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def _plain(data: bytes) -> State | None:
    """The arrays of a file that `save_state` wrote; None for another one, or one that is damaged."""
    state, at = State(), 0
    while data.startswith(b"PK\3\4", at) and len(data) > at + _FILE.size:
        _, _, flags, packed, _, _, sum, size, _, path, more = _FILE.unpack_from(data, at)
        first = at + _FILE.size + path
        file = data[first : first + size]
        if (flags, packed, more) != (_UTF8, 0, 0) or zlib.crc32(file) != sum:
            return None
        start = 10 + int.from_bytes(file[8:10], "little")
        kind, shape, across = _layout(file[:start])
        array = np.ndarray(shape, kind, file, start, order="F" if across else "C")
        state[data[at + _FILE.size : first].decode().removesuffix(".npy")] = array.copy(order="K")
        at = first + size
    sign, _, _, _, count, _, table, _ = _END.unpack(data[-_END.size :].rjust(_END.size, b"\0"))
    return state if (sign, count, table) == (b"PK\5\6", len(state), at) else None


@lru_cache(maxsize=1024)
def _layout(header: bytes) -> tuple[np.dtype[Any], tuple[int, ...], bool]:
    """What the header of an array says; one thread at a time.

    NumPy reads it with `ast.literal_eval`, and CPython 3.11 keeps the depth of that parser once a process: two threads
    in it at the same moment fail each other with a SystemError.
    """
    with _PARSER:
        file = io.BytesIO(header)
        np.lib.format.read_magic(file)
        shape, across, kind = np.lib.format.read_array_header_1_0(file)
    return kind, shape, across
