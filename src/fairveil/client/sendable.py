"""What JSON can carry, said before anything is sent; no value is repeated."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from fairveil.errors import InputError


def finite(value: float) -> float:
    """A reward that JSON can carry."""
    if isinstance(value, float) and not math.isfinite(value):
        fix = "send nothing for an answer that is missing: its window closes by itself"
        raise InputError("a reward is a finite number", path="value", allowed="no NaN, no infinity", fix=fix)
    return value


def check_sendable(value: Any, path: str = "") -> None:
    """Refuse what is no JSON: NaN, numbers of numpy, dates."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            check_sendable(part, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for place, part in enumerate(value):
            check_sendable(part, f"{path}.{place}")
    elif isinstance(value, float) and not math.isfinite(value):
        raise InputError("this is not a finite number", path=path, allowed="no NaN, no infinity")
    elif not isinstance(value, str | int | float | None):
        kind, fix = type(value).__name__, "numbers of numpy: float(...), int(...) or .tolist()"
        raise InputError(
            "JSON cannot carry this", path=path, given=kind, allowed="numbers, words, lists, tables", fix=fix
        )
