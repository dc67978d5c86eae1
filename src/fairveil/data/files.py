"""A data file: where it lies, what its bytes must be, how it is made from what its home page offers, and its table.

The folder named by ``FAIRVEIL_DATA`` is looked at first, then the user's cache. Tables are read with pandas, and one
clear error says so when it is not installed.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import hashlib
import io
import os
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairveil.data import download as transfer
from fairveil.errors import DataError, DependencyError

VARIABLE = "FAIRVEIL_DATA"


def cache_folder() -> Path:
    """The user's cache for downloaded data (``XDG_CACHE_HOME`` is honoured); it need not exist yet."""
    if os.environ.get("XDG_CACHE_HOME"):
        base = Path(os.environ["XDG_CACHE_HOME"])
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path.home() / ".cache"
    return base / "fairveil" / "data"


def folder() -> Path:
    """The folder that is looked at first: ``FAIRVEIL_DATA`` if set, else the cache."""
    named = os.environ.get(VARIABLE)
    if not named:
        return cache_folder()
    path = Path(named).expanduser()
    if not path.is_dir():
        raise DataError(
            f"the folder named by {VARIABLE} does not exist",
            path=VARIABLE,
            given=named,
            fix=f"correct or unset {VARIABLE}; without it data are kept in {cache_folder()}",
        )
    return path


def find(relative: str) -> Path | None:
    """The file at this place, plain or gzipped, in the data folder or the cache; None when neither has it."""
    for root in dict.fromkeys((folder(), cache_folder())):
        for candidate in (root / relative, root / f"{relative}.gz"):
            if candidate.is_file():
                return candidate
    return None


OFFLINE = "FAIRVEIL_OFFLINE"
"""Set to 1 to forbid every download."""


@dataclass(frozen=True)
class Download:
    """An address, with the checksum of what it sends where that is known."""

    url: str
    sha256: str = ""


@dataclass(frozen=True)
class Origin:
    """How to make a file: fetch the parts (or take other data files) and build the content from their bytes.

    ``personal`` parts carry the names of real people: they are never kept, and lie in memory (``/dev/shm``) where the
    platform has such a folder while the names are taken out.
    """

    parts: tuple[Download | DataFile, ...]
    build: Callable[[list[bytes]], bytes] = lambda parts: parts[0]
    personal: bool = False


@dataclass(frozen=True)
class DataFile:
    """One file in the data folder, plain or as .gz; ``sha256`` is that of the uncompressed content."""

    path: str
    sha256: str
    home: str
    origin: Origin | None = None

    def state(self) -> str:
        """``ok``, ``damaged`` or ``missing``; reads the file, downloads nothing."""
        place = find(self.path)
        if place is None:
            return "missing"
        try:
            return "ok" if _content_digest(place) == self.sha256 else "damaged"
        except DataError:
            return "damaged"

    def read(self, progress: bool | None = None) -> bytes:
        """The checked content; fetched into the cache first when it is nowhere."""
        place = find(self.path) or self.fetch(progress)
        content = _uncompressed(place)
        if hashlib.sha256(content).hexdigest() != self.sha256:
            raise DataError(
                "the data file is damaged or another edition",
                path=str(place),
                allowed=f"sha256 {self.sha256}",
                fix="delete it and load again, or restore the original",
            )
        return content

    def fetch(self, progress: bool | None = None, *, again: bool = False) -> Path:
        """Make sure the file is there; returns its place."""
        place = find(self.path)
        if place is not None and not again:
            return place
        if self.origin is None:
            raise self._absent("this file cannot be downloaded automatically")
        if os.environ.get(OFFLINE, "") not in ("", "0"):
            raise self._absent(f"downloads are switched off by {OFFLINE}")
        try:
            parts = [_part(part, self.origin.personal, progress) for part in self.origin.parts]
        except DataError as problem:
            raise self._absent(str(problem)) from problem
        content = _built(self.origin.build, parts, self.home)
        if hashlib.sha256(content).hexdigest() != self.sha256:
            raise self._absent("what its home page offers now is not the edition this release was written for")
        target = cache_folder() / self.path
        _write(target, content)
        for part in self.origin.parts:
            if isinstance(part, Download):
                _kept(part).unlink(missing_ok=True)
        return target

    def _absent(self, reason: str) -> DataError:
        places = " or ".join(str(root / self.path) for root in dict.fromkeys((folder(), cache_folder())))
        return DataError(
            f"the data file is not available: {reason}",
            path=self.path,
            fix=f"get it from {self.home} and put it at {places} (plain or .gz), "
            f"or set {VARIABLE} to a folder that has it; "
            "the generators (fairveil data list) need no download",
        )


def _part(part: Download | DataFile, personal: bool, progress: bool | None) -> bytes:
    if isinstance(part, DataFile):
        return part.read(progress)
    if personal:
        with tempfile.TemporaryDirectory(dir=_memory()) as scratch:
            return transfer.download(
                part.url, Path(scratch) / "raw", sha256=part.sha256, progress=progress
            ).read_bytes()
    place = _kept(part)
    if not place.is_file() or (part.sha256 and transfer.digest(place) != part.sha256):
        transfer.download(part.url, place, sha256=part.sha256, progress=progress)
    return place.read_bytes()


def _memory() -> str | None:
    """A memory-backed folder where there is one."""
    return "/dev/shm" if os.path.isdir("/dev/shm") and os.access("/dev/shm", os.W_OK) else None


def _kept(part: Download) -> Path:
    name = hashlib.sha256(part.url.encode()).hexdigest()[:16]
    return cache_folder() / "downloads" / name


def _built(build: Callable[[list[bytes]], bytes], parts: list[bytes], home: str) -> bytes:
    try:
        return build(parts)
    except (KeyError, IndexError, ValueError, zipfile.BadZipFile) as problem:
        raise DataError(
            "the download does not have the expected form", path=home, fix="get the file by hand"
        ) from problem


def _uncompressed(place: Path) -> bytes:
    try:
        content = place.read_bytes()
        return gzip.decompress(content) if place.suffix == ".gz" else content
    except (OSError, EOFError, ValueError) as problem:
        raise DataError("the data file cannot be read", path=str(place), fix="delete it and load again") from problem


def _content_digest(place: Path) -> str:
    return hashlib.sha256(_uncompressed(place)).hexdigest()


def _write(target: Path, content: bytes) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "wb") as out:
                out.write(content)
                out.flush()
                os.fsync(out.fileno())
            os.replace(name, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
    except OSError as problem:
        raise DataError(
            f"the data file cannot be written ({problem.strerror})",
            path=str(target),
            fix="free some space or make the folder writable; set XDG_CACHE_HOME to use another one",
        ) from problem


def member(name: str) -> Callable[[list[bytes]], bytes]:
    """Build a file by taking one member out of a zip archive."""

    def build(parts: list[bytes]) -> bytes:
        with zipfile.ZipFile(io.BytesIO(parts[0])) as archive:
            return archive.read(name)

    return build


def written(header: list[str], rows: Iterable[list[str]]) -> bytes:
    """The bytes of a CSV file."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return out.getvalue().encode()


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
