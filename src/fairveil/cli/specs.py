"""Reading spec files."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from fairveil.errors import SpecError


def read_spec(file: Path) -> dict[str, Any]:
    """A spec from a .toml or .json file; a wrong file says where it is wrong. Paths in it start in its own folder."""
    allowed = "a TOML file, or JSON when its name ends in .json"
    if not file.exists():
        raise SpecError("the spec file does not exist", path=str(file), allowed=allowed, fix="check the path")
    if file.is_dir():
        raise SpecError("this is a folder", path=str(file), allowed=allowed, fix="name a file in it")
    try:
        text = file.read_text(encoding="utf-8")
        table = json.loads(text) if file.suffix == ".json" else tomllib.loads(text)
    except OSError as problem:
        raise SpecError(
            f"the spec file cannot be opened: {problem.strerror}", path=str(file), allowed=allowed
        ) from None
    except ValueError as problem:  # not UTF-8, not TOML, not JSON
        fix = "compare it with examples/first.toml"
        raise SpecError(f"the spec file cannot be read: {problem}", path=str(file), allowed=allowed, fix=fix) from None
    if not isinstance(table, dict):
        raise SpecError("a spec is a table", path=str(file), given=type(table).__name__, allowed='{"task": ..., ...}')
    return beside(table, file.parent)


def beside(value: Any, folder: Path) -> Any:
    """A spec whose files (keys called ``file``) are looked for in the folder that it lies in.

    >>> beside({"log": {"file": "trial.csv"}, "seed": 1}, Path("studies"))
    {'log': {'file': 'studies/trial.csv'}, 'seed': 1}
    """
    if isinstance(value, list):
        return [beside(item, folder) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: str(folder / item) if key == "file" and isinstance(item, str) else beside(item, folder)
        for key, item in value.items()
    }
