"""A party's own releases: charged before they are drawn, drawn once, stored before anybody sees them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from fairveil.privacy.events import Event
from fairveil.privacy.ledger import Ledger, ReleaseLost
from fairveil.privacy.noise import Noise

Fate = Literal["drawn", "stored", "lost"]


@dataclass(frozen=True)
class Released:
    """What a ledger answered. Unless ``fate`` is "drawn" nothing was drawn now, and the rows of the block must go.

    ``drawn``: noise met the rows in this call. ``stored``: the value was published before (a retry, a restart); whether
    the rows at hand are in it cannot be known, so none of them may enter another release. ``lost``: charged, but the
    value is gone.
    """

    value: Any
    fate: Fate


def release_once(
    ledger: Ledger, account: str, event: Event, block: str, draw: Callable[[Noise], Any], noise: Noise | None = None
) -> Released:
    """Charge ``event`` to ``account`` (once for the whole run), then release ``account/block``.

    >>> import tempfile
    >>> from fairveil.privacy.events import ParallelEvent, PureEvent
    >>> from fairveil.privacy.ledger import Ledger, Limit
    >>> folder, event = tempfile.TemporaryDirectory(), ParallelEvent(PureEvent(1.0))
    >>> with Ledger.create(folder.name + "/ledger.db", limit=Limit.covering(event)) as ledger:
    ...     first = release_once(ledger, "node", event, "sync-0", lambda noise: int(noise.laplace(2.0)[0]))
    ...     again = release_once(ledger, "node", event, "sync-0", lambda noise: int(noise.laplace(2.0)[0]))
    >>> first.fate, again.fate, first.value == again.value
    ('drawn', 'stored', True)
    >>> folder.cleanup()
    """
    drawn = False

    def draw_now(source: Noise) -> Any:
        nonlocal drawn
        drawn = True
        return draw(source)

    ledger.spend(account, event, releases=None)
    try:
        value = ledger.release(f"{account}/{block}", draw_now, account=account, noise=noise)
    except ReleaseLost:
        return Released(None, "lost")
    return Released(value, "drawn" if drawn else "stored")
