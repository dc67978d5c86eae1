"""Results on disk: equal results are equal files.

    <root>/<task>/<hash>/spec.json        the complete spec
    <root>/<task>/<hash>/result.json      spec, guarantee, metrics (no timings)
    <root>/<task>/<hash>/series.parquet   every series as rows (series, x, y, low, high)
    <root>/<task>/<hash>/provenance.json  versions, cpu, timings, peak memory: what may differ between equal results
    <root>/<task>/<hash>/parts/           finished blocks of an interrupted run, removed when the result is written

The hash is of the complete spec, our version, and what else decides the numbers: code of your own that the spec names,
and whether the data sets it names are on the machine. Every file is written beside its place and moved there: nobody
ever reads half of one.
"""

from __future__ import annotations

import hashlib
import inspect
import io
import json
import os
import platform
import shutil
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from fairveil import registry
from fairveil._version import __version__
from fairveil.errors import DependencyError, StoreError
from fairveil.task import Part

SERIES_COLUMNS = ("series", "x", "y", "low", "high")
LONGEST_NAME = 4096
ORDERED = ("groups", "grid")
"""Tables of a spec whose order means something: who is drawn first, which axis is which."""


def spec_hash(spec: dict[str, Any]) -> str:
    """Name of a complete spec: the first 16 hex digits of the SHA-256 of its canonical JSON, with our version.

    What else decides the numbers goes in where there is any: see `circumstances`.
    """
    text = json.dumps([__version__, spec, *circumstances(spec)], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def circumstances(spec: dict[str, Any]) -> list[Any]:
    """What decides the result beside the spec's entries and our version; nothing for most specs.

    The order of groups and of a grid's axes (where it is not the alphabet's), data sets that are named but not on the
    machine (a generated stand-in is used), the content of files that are named, and the source of what is named but not
    ours. A module that a plug-in imports is not looked at.
    """
    tables = [spec.get(key) for key in ORDERED]
    order = [list(table) for table in tables if isinstance(table, dict) and list(table) != sorted(table)]
    named = set(_texts(spec))
    absent = [name for name in registry.names("dataset") if name in named and not _there(name)]
    foreign = {
        f"{entry.kind}:{entry.name}": _source_digest(entry.target)
        for entry in registry.known()
        if entry.name in named and not entry.target.__module__.startswith("fairveil.")
    }
    files = {name: digest for name in sorted(named) if (digest := _content_digest(name))}
    found = (("order", order), ("absent", absent), ("files", files), ("foreign", foreign))
    return [{kind: facts} for kind, facts in found if facts]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


def _there(name: str) -> bool:
    from fairveil.data.files import find  # here: commands that only write files need no data sets

    places = [find(file.path) for file in registry.get("dataset", name).files]
    return all(places) and _undamaged(name, tuple((str(place), place.stat().st_mtime_ns) for place in places if place))


def _content_digest(name: str) -> str:
    """Of the file of this name; empty when there is none. A name of a data set is a name, whatever lies around here."""
    path = Path(name)
    try:
        if len(name) > LONGEST_NAME or not path.suffix or not path.is_file():
            return ""
        facts = path.stat()
        return _digest_of(str(path.resolve()), facts.st_mtime_ns, facts.st_size)
    except (OSError, ValueError):
        return ""


@lru_cache(maxsize=256)
def _digest_of(path: str, _changed: int, _size: int) -> str:
    """Read again only when the file has changed."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@lru_cache(maxsize=256)
def _undamaged(name: str, places: tuple[tuple[str, int], ...]) -> bool:
    """Asked again only when a file has changed: it reads all of them."""
    from fairveil.data.schema import available

    return available(name)


@lru_cache(maxsize=256)
def _source_digest(target: Any) -> str:
    """Of the file that defines the target, else of its own source, else empty (typed at a prompt)."""
    file = getattr(sys.modules.get(target.__module__), "__file__", None)
    try:
        source = Path(file).read_bytes() if file else inspect.getsource(target).encode()
    except (OSError, TypeError):
        return ""
    return hashlib.sha256(source).hexdigest()


class ResultStore:
    """A folder of results, cached by spec."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)
        _parquet()  # say that it is missing before the work, not after it

    def folder(self, spec: dict[str, Any], key: str = "") -> Path:
        """Where a spec's result lies; ``key`` is its hash where the caller knows it (in all methods)."""
        return self.root / spec["task"] / (key or spec_hash(spec))

    def get(self, spec: dict[str, Any], key: str = "") -> dict[str, Any] | None:
        """The stored result of a complete spec, or None. Secure noise is never answered from the store."""
        folder = self.folder(spec, key)
        if spec.get("noise") == "secure" or not (folder / "provenance.json").exists():
            return None
        return read_result(folder)

    def put(self, result: dict[str, Any], key: str = "") -> Path:
        """Write a result; finished blocks are no longer needed after that."""
        folder = self.folder(result["spec"], key)
        body = {key: result[key] for key in ("spec", "guarantee", "metrics")}
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            if result["spec"].get("noise") == "secure":  # it replaces other numbers: half of each is no result
                (folder / "provenance.json").unlink(missing_ok=True)
            write_atomically(folder / "spec.json", _json(result["spec"]))
            write_atomically(folder / "result.json", _json(body))
            write_atomically(folder / "series.parquet", _series_bytes(result["series"]))
            write_atomically(folder / "provenance.json", _json({"meta": result["meta"], "machine": machine_facts()}))
            shutil.rmtree(folder / "parts", ignore_errors=True)
        return folder

    def get_part(self, spec: dict[str, Any], index: int, key: str = "") -> Part | None:
        path = self.folder(spec, key) / "parts" / f"{index:06d}.npz"
        if not path.exists() or spec.get("noise") == "secure":
            return None
        try:
            with np.load(path, allow_pickle=False) as archive:
                return {name: archive[name] for name in archive.files}
        except (OSError, ValueError, EOFError, zipfile.BadZipFile):
            return None  # a damaged part is done again

    def put_part(self, spec: dict[str, Any], index: int, part: Part, key: str = "") -> None:
        """Keep a finished block. Another run that finishes the same spec meanwhile clears parts away: so be it."""
        folder = self.folder(spec, key) / "parts"
        with writing(folder), suppress(FileNotFoundError):
            folder.mkdir(parents=True, exist_ok=True)
            write_atomically(folder / f"{index:06d}.npz", _part_bytes(part))

    def all(self) -> Iterator[tuple[Path, dict[str, Any]]]:
        """Every finished result, newest first."""
        found = sorted(self.root.glob("*/*/provenance.json"), key=lambda path: -path.stat().st_mtime)
        for path in found:
            yield path.parent, read_result(path.parent)


def read_result(folder: Path) -> dict[str, Any]:
    """A result as `fairveil.run` returned it."""
    try:
        body = json.loads((folder / "result.json").read_text())
        provenance = json.loads((folder / "provenance.json").read_text())
        series = _read_series(folder / "series.parquet")
    except (OSError, ValueError) as problem:
        raise StoreError(
            "a stored result cannot be read",
            given=folder.name,
            fix=f"remove the folder and run again ({type(problem).__name__})",
        ) from None
    return {**body, "series": series, "meta": provenance["meta"]}


def machine_facts() -> dict[str, Any]:
    """Versions and hardware, without names or paths of the machine."""
    import numba
    import scipy

    return {
        "python": platform.python_version(),
        "system": platform.system(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "numba": numba.__version__,
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def write_atomically(path: Path, data: bytes) -> None:
    """Write beside the place and move there: either the old file or the whole new one exists."""
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


@contextmanager
def writing(place: Path) -> Iterator[None]:
    """Turn an operating system's refusal to write here into one clear message."""
    try:
        yield
    except OSError as problem:
        raise StoreError(
            "results cannot be written",
            given=str(place),
            fix=f"free some space or choose another folder ({problem.strerror}); finished results are intact",
        ) from None


def _json(value: Any) -> bytes:
    """Keys stay in their order: the order of groups means something, and equal runs fill tables in equal order."""
    return (json.dumps(value, indent=1, allow_nan=False) + "\n").encode()


def _parquet() -> Any:
    try:
        import pyarrow as arrow
        import pyarrow.parquet
    except ImportError:
        raise DependencyError("storing results needs pyarrow", fix="pip install 'fairveil[lab]'") from None
    return arrow, pyarrow.parquet


def _part_bytes(part: Part) -> bytes:
    """As np.savez writes it, but for any name: savez keeps some for its own parameters."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, value in part.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asarray(value), allow_pickle=False)
    return buffer.getvalue()


def _series_bytes(series: dict[str, dict[str, list[float]]]) -> bytes:
    arrow, parquet = _parquet()
    columns: dict[str, list[Any]] = {name: [] for name in SERIES_COLUMNS}
    for name in sorted(series):
        points = series[name]
        length = len(points["x"])
        columns["series"].extend([name] * length)
        for key in SERIES_COLUMNS[1:]:
            values: list[Any] = list(points[key]) if points.get(key) else [None] * length
            columns[key].extend([None if value is None else float(value) for value in values])
    types = arrow.schema([("series", arrow.string())] + [(key, arrow.float64()) for key in SERIES_COLUMNS[1:]])
    buffer = io.BytesIO()
    parquet.write_table(arrow.table(columns, schema=types), buffer)
    return buffer.getvalue()


def _read_series(path: Path) -> dict[str, dict[str, list[float]]]:
    _, parquet = _parquet()
    series: dict[str, dict[str, list[float]]] = {}
    for row in parquet.read_table(path).to_pylist():
        points = series.setdefault(row["series"], {key: [] for key in SERIES_COLUMNS[1:]})
        for key in SERIES_COLUMNS[1:]:
            points[key].append(row[key])
    for points in series.values():
        for key in ("low", "high"):
            if all(value is None for value in points[key]):
                del points[key]
    return series
