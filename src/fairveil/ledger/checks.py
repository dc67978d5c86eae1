"""What is refused before anything is written, each with its own sentence."""

from __future__ import annotations

import math
from typing import Any

from fairveil.errors import LedgerError, PrivacyError, SpecError
from fairveil.ledger.book import Book
from fairveil.ledger.chain import ACCOUNT, FORMAT, LOST, PUBLISH, LedgerStore, Row
from fairveil.ledger.places import Place
from fairveil.privacy.events import Event
from fairveil.privacy.limits import Limit
from fairveil.privacy.noise import Noise, SecureNoise, ZeroNoise


class ReleaseLost(LedgerError):
    """The block was charged, but its value never reached the ledger. It stays charged and is never drawn again."""

    code = "release-lost"


class AlreadyReleased(PrivacyError):
    """A holder that begins finds that its account has releases of another run."""


SHORTEST_KEY = 16


def no_ledger(place: Place) -> LedgerError:
    """Opening never makes a ledger: a lost one must not come back with its whole budget."""
    return LedgerError(
        "there is no ledger here",
        path=str(place),
        allowed="an existing ledger",
        fix="restore it if there was one; Ledger.create(..., limit=...) makes one for data that was never used before",
    )


def first(place: Place, limit: Limit, simulated: bool, unit: str, anchored: bool, keyed: bool) -> dict[str, Any]:
    place.check_new()
    table = {"format": FORMAT, "limit": limit.to_dict(), "simulated": bool(simulated), "anchored": anchored}
    return {**table, "unit": str(unit)} | ({"keyed": True} if keyed else {})


def check_key(key: bytes | None) -> None:
    """A key that can be guessed protects nothing; its content is never repeated."""
    if key is not None and (not isinstance(key, bytes) or len(key) < SHORTEST_KEY):
        raise LedgerError(
            "this cannot be the key of a ledger", path="key", allowed=f"at least {SHORTEST_KEY} secret bytes"
        )


def check_same(book: Book, limit: Limit | None, simulated: bool) -> None:
    if limit is not None and not limit.same(book.state.limit):
        raise LedgerError(
            "the ledger has another limit",
            path="limit",
            given=limit.to_dict(),
            allowed=str(book.state.limit.to_dict()),
            fix="open it without a limit to keep its own; a limit never changes",
        )
    if book.state.simulated != bool(simulated):
        raise PrivacyError(
            "a simulated ledger stays simulated" if book.state.simulated else "this ledger protects people",
            path="simulated",
            given=simulated,
            allowed=str(book.state.simulated),
        )


def check_name(field: str, name: str) -> None:
    if not isinstance(name, str) or not 0 < len(name) <= 200 or not name.isprintable():
        raise SpecError("a name is needed", path=field, given=name, allowed="1 to 200 printable characters")


LAST_DIGITS = 1e-9
"""By how much numbers of one event may differ between versions and machines that calibrate it."""


def alike(known: object, asked: object) -> bool:
    """Equal but for the last digits of numbers.

    >>> alike({"kind": "gaussian", "mu": 0.25}, {"kind": "gaussian", "mu": 0.25 - 1e-14}), alike([0.25], [0.26])
    (True, False)
    """
    if isinstance(known, float) and isinstance(asked, float):
        return math.isclose(known, asked, rel_tol=LAST_DIGITS)
    if isinstance(known, dict) and isinstance(asked, dict):
        return known.keys() == asked.keys() and all(alike(known[key], asked[key]) for key in known)
    if isinstance(known, list | tuple) and isinstance(asked, list | tuple):
        return len(known) == len(asked) and all(map(alike, known, asked))
    return known == asked


def check_repeated(name: str, known: object, asked: object, covered: bool = True) -> None:
    """The same question under a known name. ``covered``: what it was charged pays for what is asked for now."""
    if known != asked and not (covered and alike(known, asked)):
        raise LedgerError(
            "this name was used for something else",
            path="block",
            given=name,
            allowed="the event or account it was used with, or a new name",
            fix="every release carries its own block id; nothing was charged",
        )


def check_account(store: LedgerStore, name: str, sequence: int) -> None:
    account = store.find(ACCOUNT, name)
    if account is None:
        raise LedgerError("this account was never paid for", path="account", given=name, fix="call spend first")
    allowed = account.table["releases"]
    if allowed is not None and store.releases_under(name, sequence) >= allowed:
        raise LedgerError(
            "this account has no release left",
            path="account",
            given=name,
            allowed=f"{allowed} in all",
            fix="pay for another account; nothing was charged",
        )


def check_first(store: LedgerStore, account: str, block: str) -> None:
    """A holder that begins is not served what another run of the same account has released."""
    if store.first_under(account) == block:
        raise AlreadyReleased(
            "this account has released its first block already, and its holder has not",
            path="account",
            given=account,
            allowed="the state that was saved last, or an account of its own",
            fix="load what was saved; resume=True if the run stopped before its first state was saved",
        )


def settlement(store: LedgerStore, block: str) -> Row | None:
    return store.find(PUBLISH, block) or store.find(LOST, block)


def stored_text(row: Row) -> str | ReleaseLost:
    """The value of a settled block as it is stored, or the error that says that there is none."""
    if row.kind == LOST or row.value is None:
        return ReleaseLost(
            "this block was charged but its value is lost",
            path="block",
            given=row.name,
            fix="go on without it (a policy's lost()); it is never drawn again",
        )
    return row.value


def accepted(noise: Noise | None, simulated: bool) -> Noise:
    """Secure noise unless another is given; what does not protect only for a simulated ledger; no noise never."""
    source = SecureNoise() if noise is None else noise
    protects = isinstance(source, Noise) and source.protects and not source.simulated
    if isinstance(source, ZeroNoise) or not isinstance(source, Noise) or not (protects or simulated):
        raise PrivacyError(
            "this ledger does not take this noise",
            path="noise",
            given=type(source).__name__,
            allowed="SecureNoise" + (" or SeededNoise" if simulated else ""),
            fix="a ledger for simulations is opened with simulated=True, and stays one",
        )
    return source


def check_pays(event: Event | None, account: str | None) -> None:
    if (event is None) == (account is None):
        raise SpecError("a release names its event or its account", path="event", allowed="exactly one of the two")
    if event is not None:
        check_event(event)


def check_event(event: Event) -> None:
    if not isinstance(event, Event):
        raise SpecError("this is not an event", path="event", given=type(event).__name__, allowed="an Event")


def check_releases(releases: int | None) -> None:
    if releases is not None and (isinstance(releases, bool) or not isinstance(releases, int) or releases < 1):
        raise SpecError("releases is a count", path="releases", given=releases, allowed="at least 1, or None")
