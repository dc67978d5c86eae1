"""Mistakes planted in the one way out; each breaks a law of `fairveil.proof.laws.served` at every adapter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from fairveil.ledger.account import Account
from fairveil.ledger.chain import RESERVE
from fairveil.ledger.checks import accepted
from fairveil.ledger.draws import Draws, Payment, Released, open_account
from fairveil.ledger.values import decode, encode
from fairveil.privacy.charges import Charge
from fairveil.privacy.filters import Filter
from fairveil.privacy.noise import Noise
from fairveil.proof.mutants import Mutant, function, in_method, method, together, twin
from fairveil.proof.mutants.mutant import Change

Release = Callable[..., list[Released]]


def _source(draws: Draws, noise: Noise | None) -> Noise:
    return accepted(noise, draws._book.state.simulated)


def charge_left_out(adapter: Any) -> AbstractContextManager[None]:
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


def drawn_again(fate: str) -> Change:
    """A block that was stored (or lost) before is drawn now."""

    @twin
    def broken(original: Release, self: Draws, blocks: Any, draw: Any, noise: Any, payment: Payment) -> list[Released]:
        found, source = original(self, blocks, draw, noise, payment), _source(self, noise)
        return [
            one if one.fate != fate else Released(draw(source, tuple(found[:place])), "drawn")
            for place, one in enumerate(found)
        ]

    return broken


PATH = (
    Mutant("charge-left-out", "releases cost nothing", charge_left_out),
    Mutant("charge-after-draw", "drawn first, charged later", in_method(Draws, "release", charged_later)),
    Mutant("shown-before-stored", "shown and never stored", in_method(Draws, "release", never_stored)),
    Mutant("drawn-again-on-retry", "asking again draws again", in_method(Draws, "release", drawn_again("stored"))),
    Mutant("lost-drawn-again", "a lost block is drawn", in_method(Draws, "release", drawn_again("lost"))),
    Mutant("count-left-out", "an account that does not say how much it covers",
           in_method(Account, "__post_init__", lambda _: lambda self: None)),
)  # fmt: skip


def mutants_of_the_path(harmless: Mapping[str, str]) -> tuple[Mutant, ...]:
    """All of them, with why some change nothing at an adapter."""
    return tuple(replace(mutant, harmless=harmless.get(mutant.name, "")) for mutant in PATH)
