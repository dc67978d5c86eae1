"""What a client raises: the service's own words, or that it could not be reached."""

from __future__ import annotations

from typing import Any

from fairveil.errors import FairveilError


class Problem(FairveilError):
    """The service refused; ``type`` is stable, ``status`` the HTTP status, ``table`` the whole answer."""

    code, exit_code = "service", 2

    def __init__(self, status: int, table: dict[str, Any]) -> None:
        self.status, self.table = status, table
        self.type = str(table.get("type", "")).rpartition("/")[2]
        words = str(table.get("detail") or f"the service answered {status}")
        facts = {name: str(table.get(name) or "") for name in ("path", "allowed", "fix")}
        super().__init__(words, given=table.get("given"), **facts)

    def __reduce__(self) -> Any:
        return type(self), (self.status, self.table)


class Unreachable(FairveilError):
    """No answer after all attempts; a repeat with the same event id is safe."""

    code, exit_code = "unreachable", 7
