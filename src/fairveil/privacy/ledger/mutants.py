"""Mistakes planted in the ledger itself; each breaks a law of `fairveil.privacy.ledger.laws`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from fairveil.privacy.audit.mutants import function, method
from fairveil.privacy.charges import Charge
from fairveil.privacy.filters import Filter
from fairveil.privacy.ledger import checks
from fairveil.privacy.ledger.ledger import Ledger
from fairveil.privacy.ledger.values import decode, encode
from fairveil.privacy.noise import SeededNoise

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


MISTAKES: dict[str, tuple[str, Callable[[], AbstractContextManager[None]]]] = {
    "charge-left-out": ("releases cost nothing", charge_left_out),
    "charge-after-draw": ("drawn first, charged later", charge_after_draw),
    "shown-before-stored": ("handed out and never written", shown_before_stored),
    "fresh-on-retry": ("asking again draws again", fresh_on_retry),
    "seeded-noise": ("seeded instead of secure noise", seeded_noise),
    "lost-drawn-again": ("a lost block is drawn again", lost_drawn_again),
}
