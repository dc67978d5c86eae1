"""Import paths that documents of version 0.1.0 name work, with a DeprecationWarning at most, or are told as moved."""

from __future__ import annotations

import importlib
import warnings
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
CHANGELOG = HERE.parent.parent / "CHANGELOG.md"
LINES = [line for line in (HERE / "import_paths.txt").read_text().splitlines() if line and not line.startswith("#")]


def found(path: str) -> bool:
    module, _, name = path.partition(":")
    try:
        loaded = importlib.import_module(module)
    except ModuleNotFoundError:
        return False
    if not name or hasattr(loaded, name):
        return True
    try:
        importlib.import_module(f"{module}.{name}")
    except ModuleNotFoundError:
        return False
    return True


@pytest.mark.parametrize("module", sorted({line.split()[0].partition(":")[0] for line in LINES}))
def test_documented_imports_of_0_1_0(module):
    text = CHANGELOG.read_text()
    for line in LINES:
        path, *marks = line.split()
        if path.partition(":")[0] != module:
            continue
        assert marks in ([], ["moved"]), line
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            works = found(path)
        assert works or (marks == ["moved"] and path.replace(":", ".") in text), f"{path} is gone without a word"
        assert not (works and marks), f"{path} works: it is not marked as moved"
