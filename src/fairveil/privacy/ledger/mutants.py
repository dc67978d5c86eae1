"""Mistakes planted in the ledger itself; each breaks a law of `fairveil.privacy.ledger.laws`. Driver ``ledger``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from fairveil.privacy.audit.drivers import Driver
from fairveil.privacy.audit.mutants import Mutant, Plant, function, method
from fairveil.privacy.charges import Charge
from fairveil.privacy.filters import Filter
from fairveil.privacy.ledger import checks
from fairveil.privacy.ledger.chain import LOST
from fairveil.privacy.ledger.draws import Draws
from fairveil.privacy.ledger.laws import LAWS, LIMIT, Law
from fairveil.privacy.ledger.ledger import Ledger
from fairveil.privacy.ledger.sqlite.store import SqliteStore
from fairveil.privacy.ledger.values import decode, encode
from fairveil.privacy.limits import Limit
from fairveil.privacy.noise import SeededNoise
from fairveil.registry import register

Release = Callable[..., Any]


def charge_left_out() -> AbstractContextManager[None]:
    """Releases cost nothing."""
    return method(Filter, "reserve", lambda original: lambda self, event: (self, Charge()))


def charge_after_draw() -> AbstractContextManager[None]:
    """The value is drawn first, and charged when it is there."""

    def change(original: Release) -> Release:
        def broken(self: Ledger, block: str, draw: Release, **more: Any) -> Any:
            if self.status(block) != "unknown":
                return original(self, block, draw, **more)
            value = draw(checks.accepted(more.get("noise"), self.simulated))
            return original(self, block, lambda noise: value, **more)

        return broken

    return method(Ledger, "release", change)


def shown_before_stored() -> AbstractContextManager[None]:
    """The value is handed out and never written."""

    def change(original: Release) -> Release:
        def broken(self: Ledger, block: str, draw: Release, **more: Any) -> Any:
            self._draws.reserve([block], more.get("event"), more.get("account"))
            return decode(encode(draw(checks.accepted(more.get("noise"), self.simulated))))

        return broken

    return method(Ledger, "release", change)


def fresh_on_retry() -> AbstractContextManager[None]:
    """Asking again draws again."""

    def change(original: Release) -> Release:
        def broken(self: Ledger, block: str, draw: Release, **more: Any) -> Any:
            stored = original(self, block, draw, **more)
            again = self.status(block) == "published" and block in _asked
            _asked.add(block)
            return draw(checks.accepted(more.get("noise"), self.simulated)) if again else stored

        return broken

    _asked: set[str] = set()
    return method(Ledger, "release", change)


def seeded_noise() -> AbstractContextManager[None]:
    """Noise that anybody can repeat."""
    return function(checks.accepted, lambda noise, simulated: SeededNoise(1))


def lost_drawn_again() -> AbstractContextManager[None]:
    """A draw that failed is forgotten and made again."""

    def change(original: Release) -> Release:
        def broken(self: Ledger, block: str, draw: Release, **more: Any) -> Any:
            try:
                return original(self, block, draw, **more)
            except checks.ReleaseLost:
                return draw(checks.accepted(more.get("noise"), self.simulated))

        return broken

    return method(Ledger, "release", change)


def sync_left_out() -> AbstractContextManager[None]:
    """Commits return before they are on disk."""

    def opened(original: Release) -> Release:
        return lambda path: _unsynced(original(path))

    return method(SqliteStore, "open", opened)


def _unsynced(store: SqliteStore) -> SqliteStore:
    store._connection.execute("PRAGMA synchronous = OFF")
    return store


def account_shared() -> AbstractContextManager[None]:
    """An account serves whoever names it."""
    return function(checks.check_repeated, lambda name, known, asked: None)


def account_without_end() -> AbstractContextManager[None]:
    """Nobody counts the releases of an account."""
    return function(checks.check_account, lambda store, name, sequence: None)


def lost_given_back() -> AbstractContextManager[None]:
    """What a lost draw has cost can be spent again."""

    def change(original: Release) -> Release:
        def broken(self: Draws, store: Any, kind: str, block: str, *more: Any) -> None:
            with method(Filter, "settle", lambda _: _released) if kind == LOST else nullcontext():
                original(self, store, kind, block, *more)

        return broken

    return method(Draws, "_append_settled", change)


def _released(held: Filter, charge: Charge) -> Filter:
    return replace(held, reserved=held.reserved - charge)


MISTAKES: dict[str, tuple[str, Callable[[], AbstractContextManager[None]]]] = {
    "charge-left-out": ("releases cost nothing", charge_left_out),
    "charge-after-draw": ("drawn first, charged later", charge_after_draw),
    "shown-before-stored": ("handed out and never written", shown_before_stored),
    "fresh-on-retry": ("asking again draws again", fresh_on_retry),
    "seeded-noise": ("seeded instead of secure noise", seeded_noise),
    "lost-drawn-again": ("a lost block is drawn again", lost_drawn_again),
    "lost-given-back": ("a lost block costs nothing", lost_given_back),
    "sync-left-out": ("commits that are not on disk yet", sync_left_out),
    "account-shared": ("an account that serves anybody", account_shared),
    "account-without-end": ("an account that serves any number of releases", account_without_end),
}


def _in_folder(law: Law) -> Callable[[Path], None]:
    def run(folder: Path) -> None:
        file = folder / "ledger.db"
        with Ledger.create(file, limit=Limit.pure(LIMIT)) as ledger:
            law(file, ledger)

    run.__name__ = law.__name__
    return run


def _planting(made: Callable[[], AbstractContextManager[None]]) -> Plant:
    return lambda thing: made()


@register("driver", "ledger")
def ledger_driver() -> Driver:
    """The ledger: charged, durable, drawn once, stored, then shown."""
    mutants = tuple(Mutant(name, words, _planting(made)) for name, (words, made) in MISTAKES.items())
    return Driver(tuple(_in_folder(law) for law in LAWS), mutants)
