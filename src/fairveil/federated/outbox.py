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


@dataclass(frozen=True)
class Account:
    """Who pays in which ledger: the event of the whole run, under a name that belongs to one holder (a fingerprint of
    what may use it: another policy on the same account is refused)."""

    ledger: Ledger
    name: str
    event: Event
    holder: str = ""


def release_once(account: Account, block: str, draw: Callable[[Noise], Any], noise: Noise | None = None) -> Released:
    """Charge the account (once for the whole run), then draw and store the block, once.

    >>> import tempfile
    >>> from fairveil.privacy.events import ParallelEvent, PureEvent
    >>> from fairveil.privacy.ledger import Ledger, Limit
    >>> folder, event = tempfile.TemporaryDirectory(), ParallelEvent(PureEvent(1.0))
    >>> with Ledger.create(folder.name + "/ledger.db", limit=Limit.covering(event)) as ledger:
    ...     account = Account(ledger, "node", event)
    ...     first = release_once(account, "sync-0", lambda noise: int(noise.laplace(2.0)[0]))
    ...     again = release_once(account, "sync-0", lambda noise: int(noise.laplace(2.0)[0]))
    >>> first.fate, again.fate, first.value == again.value
    ('drawn', 'stored', True)
    >>> folder.cleanup()
    """
    drawn = False

    def draw_now(source: Noise) -> Any:
        nonlocal drawn
        drawn = True
        return draw(source)

    account.ledger.spend(account.name, account.event, releases=None, holder=account.holder)
    try:
        value = account.ledger.release(f"{account.name}/{block}", draw_now, account=account.name, noise=noise)
    except ReleaseLost:
        return Released(None, "lost")
    return Released(value, "drawn" if drawn else "stored")
