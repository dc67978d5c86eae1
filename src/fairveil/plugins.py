"""Names that come from elsewhere: single files (``--plugin file.py``) and installed packages (entry points)."""

from __future__ import annotations

import hashlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any, NoReturn

from fairveil.errors import FairveilError, SpecError

GROUP = "fairveil.plugins"
"""The entry-point group in which an installed package names the module that registers its names."""

_files: list[str] = []


def load_installed() -> None:
    """Import every installed plug-in."""
    for point in metadata.entry_points(group=GROUP):
        try:
            point.load()
        except Exception as problem:  # somebody else's package: say whose, not only what
            raise SpecError(
                f"an installed plug-in cannot be loaded: {type(problem).__name__}: {problem}",
                path=f"{point.group}:{point.name}",
                given=point.value,
                fix="mend or uninstall the package it comes from",
            ) from problem


def load_file(file: str | Path) -> None:
    """Import one Python file that registers names of its own; a second call for the same file does nothing."""
    path = Path(file)
    if str(path.resolve()) in _files:
        return
    if not path.is_file():
        state = "is a folder" if path.is_dir() else "does not exist"
        raise SpecError(
            f"the plug-in file {state}", path="plugin", given=str(file), allowed="a .py file", fix="check the path"
        )
    place = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]  # two files of one name are two plug-ins
    name = f"fairveil_plugin_{path.stem}_{place}"
    spec = importlib.util.spec_from_file_location(name, path, loader=_FreshSource(name, str(path)))
    if path.suffix != ".py" or spec is None or spec.loader is None:
        raise SpecError("the plug-in is not a Python file", path="plugin", given=str(file), allowed="a .py file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except FairveilError:
        raise
    except (Exception, SystemExit) as problem:  # any mistake in a user's file: name the file and pass the cause on
        raise SpecError(
            f"the plug-in raised {type(problem).__name__}: {problem}",
            path="plugin",
            given=str(file),
            fix=f"mend the file; python {path.name} shows the whole error",
        ) from problem
    _files.append(str(path.resolve()))


def files() -> tuple[str, ...]:
    """Plug-in files loaded so far: workers in other processes load them too."""
    return tuple(_files)


def forget_all_but(kept: tuple[str, ...]) -> None:
    """Go back to an earlier answer of `files`: the others load anew when they are asked for."""
    _files[:] = kept


@contextmanager
def blaming_plugins() -> Iterator[None]:
    """`blame` whatever fails inside."""
    try:
        yield
    except Exception as problem:  # whatever somebody else's code raises
        blame(problem)


def blame(problem: Exception) -> NoReturn:
    """Raise a mistake in a plug-in's code as a sentence with its file and line, and every other error as it is."""
    found = None if isinstance(problem, FairveilError) else _in_python(problem) or _in_formula(problem)
    if found is None:
        raise problem
    file, line, words = found
    raise SpecError(
        f"the plug-in's code failed: {words}",
        path="plugin",
        given=f"{Path(file).name}, line {line}",
        fix="mend that line; formulas may use numbers, math and functions decorated with numba.njit",
    ) from problem


def _in_python(problem: Exception) -> tuple[str, int, str] | None:
    """The innermost line of a plug-in that an error went through."""
    for frame in reversed(traceback.extract_tb(problem.__traceback__)):
        file = str(Path(frame.filename).resolve())
        if file in _files:
            return file, frame.lineno or 0, f"{type(problem).__name__}: {problem}"
    return None


_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_REASON = re.compile(r"(NameError: .+|Unknown attribute .+|TypeError: [^\"\n]+)")
"""What a compiler's message of many lines says of the formula."""


def _in_formula(problem: Exception) -> tuple[str, int, str] | None:
    """The line of a plug-in whose formula could not be compiled, or failed when it ran."""
    file, kind = _kind_of(problem)
    if file is None:
        return None
    message, name = _COLOURS.sub("", str(problem)), re.escape(Path(file).name)
    reason = _REASON.search(message)
    place = re.search(rf'File "[^"]*\b{name}", line (\d+):', message)
    if place is not None:
        types = re.findall(r">>> (.+)", message[: place.start()])
        unknown = f"no such operation on these types: {types[-1]}" if types else "it cannot be compiled"
        return file, int(place[1]), reason[1] if reason else unknown
    words = reason[1] if reason else message.splitlines()[0]
    sought = [*re.findall(r"'(\w+)'", words)[::-1], rf"_of\({kind}\)"]
    lines = list(enumerate(Path(file).read_text(encoding="utf-8").splitlines(), 1))
    used = [number for word in sought for number, text in lines if re.search(rf"\b\w*{word}(?!\w)", text)]
    return file, used[0] if used else 1, words if reason else f"{type(problem).__name__}: {words}"


def _kind_of(problem: Exception) -> tuple[str | None, str]:
    """The plug-in whose public numbers a compiled engine was called with, and what these are called."""
    for frame, _ in traceback.walk_tb(problem.__traceback__):
        kind = frame.f_locals.get("kind") if frame.f_code.co_qualname == "Kernel.__call__" else None
        file = getattr(sys.modules.get(getattr(kind, "__module__", "")), "__file__", None)
        if file is not None and str(Path(file).resolve()) in _files:
            return str(Path(file).resolve()), str(getattr(kind, "__name__", ""))
    return None, ""


class _FreshSource(SourceFileLoader):
    """Compiles the file every time: Python's cache misses an edit of the same length within the same second."""

    def get_code(self, fullname: str) -> Any:
        return self.source_to_code(self.get_data(self.path), self.path)
