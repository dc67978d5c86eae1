"""Names that come from elsewhere: single files (``--plugin file.py``) and installed packages (entry points)."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from importlib import metadata
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

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


class _FreshSource(SourceFileLoader):
    """Compiles the file every time: Python's cache misses an edit of the same length within the same second."""

    def get_code(self, fullname: str) -> Any:
        return self.source_to_code(self.get_data(self.path), self.path)
