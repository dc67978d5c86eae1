"""Named points between the steps of a write, so that tests can stop or break the process at each of them.

Nothing happens here in normal use: `hook` is None and only test code sets it, inside its own process.
"""

from __future__ import annotations

from collections.abc import Callable

hook: Callable[[str], None] | None = None


def point(name: str) -> None:
    if hook is not None:
        hook(name)
