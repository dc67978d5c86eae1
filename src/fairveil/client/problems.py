"""What a client raises: a refusal of the service, and no answer at all."""

from __future__ import annotations

from typing import Any

from fairveil.errors import FairveilError


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
