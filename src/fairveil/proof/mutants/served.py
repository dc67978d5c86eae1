"""Mistakes planted in the one way out; each breaks a law of `fairveil.proof.laws.served` at every adapter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

from fairveil.ledger.account import Account
from fairveil.ledger.chain import RESERVE
from fairveil.ledger.checks import accepted
from fairveil.ledger.draws import Draws, Payment, Released, open_account
from fairveil.ledger.values import decode, encode
from fairveil.privacy.charges import Charge
from fairveil.privacy.filters import Filter
from fairveil.privacy.noise import Noise
from fairveil.proof.mutants import Mutant, Plant, function, method, together, twin

Release = Callable[..., list[Released]]


def path(change: Callable[[Release], Release]) -> AbstractContextManager[None]:
    """Another way from a charge to a value."""
    return method(Draws, "release", change)


def _source(draws: Draws, noise: Noise | None) -> Noise:
    return accepted(noise, draws._book.state.simulated)


def charge_left_out() -> AbstractContextManager[None]:
    """Neither an account nor a release costs anything."""
    free = method(Filter, "reserve", lambda _: lambda self, event: (self, Charge()))
    return together(free, function(open_account, lambda book, store, name, facts: Charge()))


@twin
def charged_later(
    original: Release, self: Draws, blocks: Any, draw: Any, noise: Any, payment: Payment
) -> list[Released]:
    """The first block is drawn before it is reserved."""
    with self._book.reading() as store:
        known = not blocks or store.find(RESERVE, blocks[0]) is not None
    if known:
        return original(self, blocks, draw, noise, payment)
    first = [draw(_source(self, noise), ())]

    def drawn(source: Any, earlier: Any) -> Any:
        return first.pop() if first else draw(source, earlier)

    return original(self, blocks, drawn, noise, payment)


@twin
def never_stored(
    original: Release, self: Draws, blocks: Any, draw: Any, noise: Any, payment: Payment
) -> list[Released]:
    """What is drawn is shown and never written."""
    found: list[Released] = []
    for stored in self.reserve(blocks, payment):
        if isinstance(stored, str):
            found.append(Released(decode(stored), "stored"))
        elif stored is None:
            found.append(Released(decode(encode(draw(_source(self, noise), tuple(found)))), "drawn"))
        else:
            found.append(Released(stored, "lost"))
    self._under_way.clear()
    return found


def drawn_again(fate: str) -> Callable[[Release], Release]:
    """A block that was stored (or lost) before is drawn now."""

    def change(original: Release) -> Release:
        def broken(self: Draws, blocks: Any, draw: Any, noise: Any, payment: Payment) -> list[Released]:
            found = original(self, blocks, draw, noise, payment)
            return list(_again(found, draw, _source(self, noise)))

        def _again(found: list[Released], draw: Any, source: Any) -> Iterator[Released]:
            for place, one in enumerate(found):
                yield one if one.fate != fate else Released(draw(source, tuple(found[:place])), "drawn")

        return broken

    return change


def count_left_out(original: Callable[[Account], None]) -> Callable[[Account], None]:
    """An account need not say how many releases it covers."""
    return lambda self: None


PATH: dict[str, tuple[str, Callable[[], AbstractContextManager[None]]]] = {
    "charge-left-out": ("releases cost nothing", charge_left_out),
    "charge-after-draw": ("drawn first, charged later", lambda: path(charged_later)),
    "shown-before-stored": ("shown and never stored", lambda: path(never_stored)),
    "drawn-again-on-retry": ("asking again draws again", lambda: path(drawn_again("stored"))),
    "lost-drawn-again": ("a lost block is drawn", lambda: path(drawn_again("lost"))),
    "count-left-out": (
        "an account that does not say how much it covers",
        lambda: method(Account, "__post_init__", count_left_out),
    ),
}


def mutants_of_the_path(harmless: Mapping[str, str]) -> tuple[Mutant, ...]:
    """All of them, with why some change nothing at an adapter."""

    def planting(made: Callable[[], AbstractContextManager[None]]) -> Plant:
        return lambda adapter: made()

    return tuple(Mutant(name, words, planting(made), harmless.get(name, "")) for name, (words, made) in PATH.items())
