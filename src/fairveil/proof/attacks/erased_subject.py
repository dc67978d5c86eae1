"""A person who asked to be erased, and whose numbers stay in the file."""

from __future__ import annotations

import struct
import tempfile
from pathlib import Path

from fairveil.loop.config import Person
from fairveil.loop.loop import Loop
from fairveil.proof.adapters.people import forgets_seats_alone, queue
from fairveil.proof.attacks import Attack
from fairveil.proof.mutants import method, together
from fairveil.randomness import Generator
from fairveil.registry import register


@register("attack", "erased-subject")
class ErasedSubject(Attack):
    """Read the files of a loop after an erasure and look for the person's feature, in either byte order.

    The twin forgets where the person stood and leaves the rows to their block, as an index with a mark would.
    """

    game = "find a feature of an erased person in the files of the store"
    words = "an erasure empties every row in which the person stood, in place, and the log of the database with it"
    games = 10
    chance = 0.0

    def play(self, protected: bool, rng: Generator) -> bool:
        secret = float(rng.uniform(-1, 1))
        broken = method(Loop, "erase_subject", lambda _: forgets_seats_alone)
        with tempfile.TemporaryDirectory() as name, together() if protected else broken:
            with queue(Path(name), Person(max_events=3)) as loop:
                for number in range(4):
                    others = {"group": "a", "features": [0.1], "subject": f"other {number}"}
                    person = {"group": "b", "features": [secret], "subject": "one person"}
                    loop.decide_many([{"event_id": f"e-{number}", "candidates": [others, person]}])
                    loop.reward(f"e-{number}", 1.0)
                loop.erase_subject("one person")
                loop.store.erased()
            kept = b"".join(file.read_bytes() for file in Path(name).rglob("*") if file.is_file())
        return any(struct.pack(order, secret) in kept for order in ("<d", ">d"))
