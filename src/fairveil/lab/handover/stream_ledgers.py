"""What the ledger of a stream says: steps released, lost and missing, and the promise in words."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from fairveil import registry
from fairveil.lab.handover.document import DocumentSection, TextGrid, sentence
from fairveil.lab.handover.words import ALWAYS, belief
from fairveil.streams.protocol import LOST, MISSING, RELEASED
from fairveil.streams.serving.journal import BLOCK, KEYS

Settled = Iterable[tuple[str, Any]]
HOLDER = "Whoever counts holds the raw data and has to be trusted with them."
BEYOND = "Rows of one person beyond the bound that the promise names, where nothing enforces it."
CALLED = {"1m": "minutes", "1h": "hours", "1d": "days", "1w": "weeks"}
"""What steps of these lengths are called."""


class StreamRecord(NamedTuple):
    """One stream of a ledger: its public keys, and how many steps became what."""

    account: str
    keys: dict[str, Any]
    steps: dict[int, int]

    @property
    def called(self) -> str:
        """What its steps are: hours, days."""
        return CALLED.get(self.keys.get("step") or "", "steps")

    @property
    def words(self) -> str:
        count = self.steps
        lost = f", {count[LOST]:,} lost" if count[LOST] else ", none lost"
        return f"{count[RELEASED]:,} released{lost}" + (f", {count[MISSING]:,} missing" if count[MISSING] else "")

    @property
    def whose(self) -> str:
        """What is hidden, in words: one person's rows."""
        table = self.keys["releasers"][0]
        if table.get("unit") == "event":
            return f"what one person's rows in one {self.called[:-1]} change"
        if table.get("unit") == "window":
            return f"what one person's rows in any {table['window']:,} successive {self.called} change"
        if table.get("participation"):
            return f"what one person's rows in at most {table['participation']:,} {self.called} change"
        return "what all rows of one person change"


def stream_of(account: str, settled: Settled) -> StreamRecord | None:
    """The stream that an account paid for, None where it paid for something else."""
    keys, steps = None, dict.fromkeys((RELEASED, LOST, MISSING), 0)
    for name, value in settled:
        if KEYS.fullmatch(f"/{name}") and isinstance(value, str):
            keys = json.loads(value)
        match = BLOCK.search(f"/{name}")
        if keys is None or match is None:
            continue
        for kind in _kinds(match, value, len(keys["columns"])):
            steps[kind] += 1
    return None if keys is None or "releasers" not in keys else StreamRecord(account, keys, steps)


def _kinds(match: re.Match[str], value: Any, columns: int) -> list[int]:
    """What became of each step of a block: lost where any column was, as in the output."""
    if value is not None:
        return [int(kinds.max()) for kinds in np.asarray(value)[1].T]
    bits, count = int(match[3] or "0", 16), int(match[2]) - int(match[1]) + 1
    nothing = (1 << columns) - 1
    return [MISSING if bits >> place * columns & nothing == nothing else LOST for place in range(count)]


def stream_sections(streams: list[StreamRecord], epsilon: float | None, delta: float) -> list[DocumentSection]:
    """What was released, and what is promised, public and not protected."""
    released = DocumentSection("What was released")
    rows = []
    for stream in streams:
        rows.append((", ".join(stream.keys["columns"]), stream.words))
        for name, table in zip(stream.keys["columns"], stream.keys["releasers"], strict=True):
            quote = registry.build("releaser", table, "releaser").quote()
            released.text.append(f"{name}: {quote.words()}.")
    released.grids.append(TextGrid(("series", called(streams)), tuple(rows)))
    released.points.append(
        "A lost step was paid for and never stored (a process was killed): a forecast stands in its place, and it is "
        "not drawn again. A missing step had no value and cost nothing."
    )
    promised = DocumentSection("What is promised to the people in the data")
    promised.text += [_promise(stream, epsilon, delta) for stream in streams]
    public = DocumentSection("What is public")
    notes = [
        note
        for stream in streams
        for note in registry.build("releaser", stream.keys["releasers"][0], "releaser").guarantee().notes
        if stream.keys.get("person") is None or not note.startswith("the sensitivity is declared")
    ]
    public.text.append("The options of the stream, its times, and how many steps it has are taken to be public.")
    public.points += [sentence(note) for note in dict.fromkeys(notes)]
    return [
        released,
        promised,
        public,
        DocumentSection("What is not protected", points=[HOLDER, BEYOND, ALWAYS[1], ALWAYS[3]]),
    ]


def called(streams: list[StreamRecord]) -> str:
    """What the steps of all of them are."""
    return streams[0].called if len({stream.called for stream in streams}) == 1 else "steps"


def cost(epsilon: float, delta: float) -> str:
    """A budget as people read it."""
    return f"epsilon {epsilon:.4g}" + (f", delta {delta:.2g}" if delta else "")


def _promise(stream: StreamRecord, epsilon: float | None, delta: float) -> str:
    whose = stream.whose[0].upper() + stream.whose[1:]
    if epsilon is None:
        return f"{whose} is hidden within the limit of this ledger."
    slip = f", apart from events of a total chance of {delta:.1g}" if delta else ""
    return (
        f"{whose} is hidden up to {cost(epsilon, delta)}: had those rows been different, everything that is published "
        f"would have come out with nearly the same chance, at most {math.exp(epsilon):.3g} times as likely{slip}. "
        f"Somebody who is undecided (50 %) about them can be at most {belief(epsilon):.0%} sure after seeing all of it."
    )
