"""Reading spec files."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from fairveil.errors import SpecError


def read_spec(file: Path) -> dict[str, Any]:
    """A spec from a .toml or .json file; a wrong file says where it is wrong."""
    if not file.is_file():
        raise SpecError("the spec file does not exist", path=str(file), fix="check the path")
    text = file.read_text()
    try:
        return json.loads(text) if file.suffix == ".json" else tomllib.loads(text)
    except (tomllib.TOMLDecodeError, json.JSONDecodeError) as problem:
        raise SpecError(f"the spec file cannot be read: {problem}", path=str(file), allowed="TOML or JSON") from None
