"""What is still kept of a loop's events, for whoever runs it: a JSON object a line, no features, no rewards, no ids.

Ids are kept as keyed hashes alone, so a line names its event by that hash.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from fairveil.loop.clock import in_words

if TYPE_CHECKING:
    from fairveil.loop.loop import Loop

_PLAIN = ("round", "action", "propensity", "version", "mode", "learn", "reason", "activated")


def event_lines(loop: Loop, after: int, count: int) -> str:
    """So many events behind number ``after``, each on a line that ends; what was erased is absent."""
    query = (
        f"SELECT seq, key, decided, until, rewarded, {', '.join(_PLAIN)} FROM events "
        "WHERE loop = ? AND seq > ? ORDER BY seq LIMIT ?"
    )
    with loop.store.reading() as tx:
        rows = tx.execute(query, (loop.facts.id, after, count))
    return "".join(json.dumps(_line(row), separators=(",", ":")) + "\n" for row in rows)


def _line(row: tuple[Any, ...]) -> dict[str, Any]:
    seq, key, decided, until, rewarded, *plain = row
    table = {"seq": seq, "event": bytes(key).hex(), **dict(zip(_PLAIN, plain, strict=True))}
    times = (("decided", decided), ("until", until), ("rewarded", rewarded))
    table |= {name: in_words(value) for name, value in times if value is not None}
    return {name: value for name, value in table.items() if value is not None}
