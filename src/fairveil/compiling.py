"""Compiled code: kept between processes under the sources it was made of, and formulas that a type picks.

`njit` is numba's; kernels take it from here because this module makes their cached code depend on every source it can
have come from: the kernel's own file, all files of its folder, and what they import from this package. An edited callee
or constant in another file then compiles its callers anew, and nobody removes cache files by hand.

A *kind* is a NamedTuple of public numbers. `by_kind` makes a function whose body is chosen by the kind of its first
argument, so an engine can call a formula that it does not know. `Kernel` compiles an engine's entry points: for kinds
of this package into the shared cache, for kinds from outside (plug-ins) in memory only. Otherwise a process without the
plug-in could not read the cache, and an edited plug-in would run its old formula.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from numba import njit as njit
from numba import types
from numba.core import caching
from numba.extending import overload

PACKAGE = Path(__file__).resolve().parent
F = TypeVar("F", bound=Callable[..., Any])


_tried: set[str] = set()


class _KeyedBySources:
    """Mixed into numba's cache locators: the stamp of a kernel is a digest of all sources it depends on."""

    _py_file: str

    def get_source_stamp(self) -> str:
        return stamp(Path(self._py_file))

    def ensure_cache_path(self) -> None:
        """A folder is tried once: numba would write a file into it for each of its functions."""
        folder = self.get_cache_path()  # type: ignore[attr-defined]
        if folder not in _tried:
            super().ensure_cache_path()  # type: ignore[misc]
            _tried.add(folder)

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Any:
        return super().from_function(py_func, py_file) if _is_ours(Path(py_file)) else None  # type: ignore[misc]


class _Provided(_KeyedBySources, caching.UserProvidedCacheLocator):
    """In the folder that NUMBA_CACHE_DIR names."""


class _InTree(_KeyedBySources, caching.InTreeCacheLocator):
    """Beside the sources."""


class _UserWide(_KeyedBySources, caching.UserWideCacheLocator):
    """In the user's cache folder, where the sources cannot be written beside."""


class _Index(caching.IndexDataCacheFile):
    """An index that names its sources in its header, beside numba's version.

    What follows names kinds by their classes. One of other sources may name a kind that is gone, and must not be read.
    """

    def __init__(self, cache_path: str, filename_base: str, source_stamp: Any) -> None:
        super().__init__(cache_path, filename_base, source_stamp)
        if isinstance(source_stamp, str):  # of `_KeyedBySources`; numba's own stamps are pairs of numbers
            self._version = f"{self._version} {source_stamp}"


if _InTree not in caching.CacheImpl._locator_classes:
    caching.CacheImpl._locator_classes = [_Provided, _InTree, _UserWide, *caching.CacheImpl._locator_classes]
    caching.IndexDataCacheFile = _Index  # type: ignore[misc]


def _is_ours(file: Path) -> bool:
    return PACKAGE in file.resolve().parents


@cache
def stamp(file: Path) -> str:
    """A digest of a file, of the other files in its folder, and of all files of this package that they import."""
    seen: dict[Path, str] = {}
    waiting = [file.resolve(), *sorted(file.resolve().parent.glob("*.py"))]
    while waiting:
        path = waiting.pop()
        if path not in seen:
            seen[path], imported = _source(path)
            waiting.extend(imported)
    start = len(str(PACKAGE))
    lines = sorted(f"{str(path)[start:]} {digest}\n" for path, digest in seen.items())
    return hashlib.sha256("".join(lines).encode()).hexdigest()


@cache
def _source(path: Path) -> tuple[str, tuple[Path, ...]]:
    """The digest of one file and the files of this package that it imports when it is loaded."""
    text = path.read_text()
    known = _modules(PACKAGE)
    found: set[Path] = set()
    for module, names in _IMPORT.findall(text):
        inner = [f"{module}.{word}" for word in _NAME.findall(names)]
        found.update(known[name] for name in (module, *inner) if name in known)
    return hashlib.sha256(text.encode()).hexdigest(), tuple(found)


@cache
def _modules(package: Path) -> dict[str, Path]:
    """Every module of this package with its file: one walk is cheaper than asking for thousands of files."""
    found: dict[str, Path] = {}
    for folder, _, names in os.walk(package):
        inside = folder[len(str(package)) :].replace(os.sep, ".")
        for name in names:
            if name.endswith(".py"):
                own = "" if name == "__init__.py" else f".{name[:-3]}"
                found[f"{package.name}{inside}{own}"] = Path(folder, name)
    return found


_IMPORT = re.compile(r"^from (fairveil[\w.]*) import (\([^)]*\)|[^\n]*)", re.M)
_NAME = re.compile(r"\w+")


def by_kind(default: F) -> F:
    """A function for compiled code whose body depends on the kind of its first argument; the decorated body is for
    kinds that have none of their own. ``of(kind)`` registers one, with the same parameters.
    """
    bodies: dict[type, Callable[..., Any]] = {}

    @overload(default, strict=False)
    def choose(numbers: Any, *rest: Any) -> Any:
        kind: Any = getattr(numbers, "instance_class", None)
        return bodies.get(kind, default) if isinstance(numbers, types.BaseNamedTuple) else None

    def of(kind: type) -> Callable[[F], F]:
        def add(body: F) -> F:
            bodies[kind] = body
            return body

        return add

    default.of = of  # type: ignore[attr-defined]
    return default


class Kernel:
    """An entry point of an engine, compiled for every kind of numbers that it is called with.

    Functions that an entry point calls are compiled into it; they are decorated with ``njit(nogil=True)``, without a
    cache of their own where they take numbers.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.shared = njit(cache=True, nogil=True)(function)
        self.outside: dict[type, Any] = {}

    def __call__(self, numbers: Any, *rest: Any) -> Any:
        return self.of(type(numbers))(numbers, *rest)

    def of(self, kind: type) -> Any:
        """The compiled function for a kind of numbers."""
        if kind.__module__.partition(".")[0] == "fairveil":
            return self.shared
        if kind not in self.outside:
            self.outside[kind] = njit(nogil=True)(self.function)
        return self.outside[kind]
