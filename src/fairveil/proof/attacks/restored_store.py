"""A store that is put back from a backup: it asks for the same events again and learns them a second time."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from fairveil.loop.pages import Pages
from fairveil.proof.adapters.restored import ROUNDS, Place
from fairveil.proof.attacks import Attack
from fairveil.proof.mutants import method, together
from fairveil.randomness import Generator
from fairveil.registry import register


@register("attack", "restored-store")
class RestoredStore(Attack):
    """Put last night's store back beside today's ledger, and send the events of today again.

    The twin keeps no keys of released events, so a restored loop cannot know them.
    """

    game = "have one event in the released blocks of two epochs, charged once"
    words = "keys of released events stand beside the ledger: such an event is decided and not learned"
    games = 6
    chance = 0.0

    def play(self, protected: bool, rng: Generator) -> bool:
        nothing_known: Any = lambda _: lambda self, *asked: set()  # noqa: E731
        with tempfile.TemporaryDirectory() as name, together() if protected else method(Pages, "among", nothing_known):
            place = Place(Path(name))
            released = place.begin()
            place.put_back(everything=False)
            with place.opened() as loop:
                place.tick(loop)
                again = place.play(loop, ROUNDS)
        return bool(released & {reply.event_id for reply in again if reply.learning == "pending"})
