"""How long a thread waits for a database that does not answer. Nobody who says nothing is cut short.

A server that hangs never says so: only whoever waits can give up. What may be repeated (a batch of decisions, a look at
the store) waits a few seconds; what stands between a charge and its stored value waits until it is told.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

_limit: ContextVar[float | None] = ContextVar("limit", default=None)


@contextlib.contextmanager
def at_most(seconds: float | None) -> Iterator[None]:
    """Inside, every single wait for a lock, a connection or an answer ends after so long; None: as without it.

    >>> with at_most(2.0):
    ...     shortest(30.0), shortest(None)
    (2.0, 2.0)
    """
    before = _limit.set(seconds)
    try:
        yield
    finally:
        _limit.reset(before)


def shortest(wait: float | None) -> float | None:
    """The shorter of what a caller would wait and what this thread may; None where neither has a limit."""
    limit = _limit.get()
    return wait if limit is None else limit if wait is None else min(wait, limit)
