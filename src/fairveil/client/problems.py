"""What a client raises: a refusal of the service, no answer at all, and what JSON cannot carry, before it is sent."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from fairveil.errors import FairveilError, InputError


class Repeated(str):
    """What the service repeats of a request: it has quotes of its own where it needs them."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Problem(FairveilError):
    """The service refused; ``type`` is stable, ``status`` the HTTP status, ``table`` the whole answer."""

    code, exit_code = "service", 2

    def __init__(self, status: int, table: dict[str, Any]) -> None:
        self.status, self.table = status, table
        self.type = str(table.get("type", "")).rpartition("/")[2]
        words = str(table.get("detail") or f"the service answered {status}")
        facts = {name: str(table.get(name) or "") for name in ("path", "allowed", "fix")}
        given = table.get("given")
        super().__init__(words, given=None if given is None else Repeated(given), **facts)

    def __reduce__(self) -> Any:
        return type(self), (self.status, self.table)


class Unreachable(FairveilError):
    """No answer after all attempts; every call may be repeated, a decision with the same event id."""

    code, exit_code = "unreachable", 7


# Before anything is sent; no value is repeated -----------------------------------------------------------------------


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
