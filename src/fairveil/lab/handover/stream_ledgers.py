"""What the ledger of a stream says: steps released, lost and missing, and the promise in words."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import numpy as np

from fairveil import registry
from fairveil.arrays import Ints
from fairveil.lab import series
from fairveil.lab.handover.document import Course, DocumentSection, TextGrid, sentence
from fairveil.lab.handover.drawings import round_ticks
from fairveil.lab.handover.words import ALWAYS, belief
from fairveil.lab.series import MOST, RECENT, Cycle, days, stretches, thinned
from fairveil.streams.columns import Columns
from fairveil.streams.protocol import LOST, MISSING, RELEASED, STATUS
from fairveil.streams.serving.feed import step_length
from fairveil.streams.serving.journal import BLOCK, KEYS, START

Settled = Iterable[tuple[str, Any]]
HOLDER = "Whoever counts holds the raw data and has to be trusted with them."
BEYOND = "Rows of one person beyond the bound that the promise names, where nothing enforces it."
LOSS = STATUS[LOST]


class StreamRecord(NamedTuple):
    """One stream of a ledger: its public keys, how many steps became what, and what is shown for every step."""

    account: str
    keys: dict[str, Any]
    steps: dict[int, int]
    shown: list[dict[str, Any]]

    @property
    def called(self) -> str:
        """What its steps are: hours, days."""
        length = self.keys.get("step")
        return series.called(step_length(length) if length else None)

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
    keys: dict[str, Any] | None = None
    starts: list[int] = []
    blocks: dict[int, Ints] = {}
    for name, value in settled:
        if KEYS.fullmatch(f"/{name}") and isinstance(value, str):
            keys = json.loads(value)
        match = BLOCK.search(f"/{name}")
        if keys is not None and match is not None:
            blocks[int(match[1])] = _block(match, value, len(keys["columns"]))
        elif START.search(f"/{name}"):
            starts.append(-1 if value is None else int(value))
    if keys is None or "releasers" not in keys:
        return None
    steps = dict.fromkeys((RELEASED, LOST, MISSING), 0)
    for _, status in blocks.values():
        for kind in status.max(axis=0).tolist():  # lost where any column was, as in the output
            steps[kind] += 1
    return StreamRecord(account, keys, steps, _shown(keys, blocks, starts))


def _block(match: re.Match[str], value: Any, columns: int) -> Ints:
    """The plain releases of a block and their status, a row a column; what was never stored is lost or was missing."""
    if value is not None:
        return np.asarray(value, np.int64)
    bits, count = int(match[3] or "0", 16), int(match[2]) - int(match[1]) + 1
    missing = np.array([bool(bits >> place & 1) for place in range(count * columns)]).reshape(count, columns).T
    return np.stack([np.zeros((columns, count), np.int64), np.where(missing, MISSING, LOST)])


def _shown(keys: dict[str, Any], blocks: dict[int, Ints], starts: list[int]) -> list[dict[str, Any]]:
    """What the filters show for every step, as points of a picture: made of stored releases, as after a restart."""
    columns = Columns(keys["columns"], [registry.build("releaser", table, "releaser") for table in keys["releasers"]])
    states, found = columns.start(), []
    for first in sorted(blocks):
        for _ in range(starts.count(first)):
            columns.begin(states)
        for name, track in zip(columns.names, columns.replay(states, *blocks[first]), strict=True):
            found += [
                {
                    "x": one.step,
                    "step": one.step,
                    "name": name,
                    "y": one.value,
                    "low": one.low,
                    "high": one.high,
                    "lost": one.status == "lost",
                }
                for one in track.rows()
                if not math.isnan(one.value)
            ]
    return found


def courses(stream: StreamRecord) -> list[Course]:
    """The last steps large, and all of them small where there are more."""
    names = ", ".join(stream.keys["columns"])
    recent = [
        point
        for name in stream.keys["columns"]
        for point in [one for one in stream.shown if one["name"] == name][-RECENT:]
    ]
    if not recent:
        return []
    steps = len({point["x"] for point in recent})
    grey = "; grey: lost, a forecast" if any(point["lost"] for point in recent) else ""
    title = f"{names}: the last {steps:,} {stream.called}; shaded: the interval{grey}"
    found = [_course(stream, title, recent, 200)]
    every = len({point["x"] for point in stream.shown})
    if every > steps:
        some = "; grey: some lost" if stream.steps[LOST] else ""
        points, neighbours = thinned(stream.shown, MOST, _cycle(stream), stream.called)
        title = f"all {every:,} {stream.called}, {neighbours}: means; shaded: all that their intervals hold{some}"
        found.append(_course(stream, title, points, 90))
    return found


def _cycle(stream: StreamRecord) -> Cycle | None:
    """What a mean may span without a wave of its own: days of a public clock, else the shortest declared season."""
    if stream.keys.get("start") is not None and stream.keys.get("step") is not None:
        return days(datetime.fromisoformat(stream.keys["start"]), step_length(stream.keys["step"]))
    seasons = stream.keys["releasers"][0].get("seasons")
    return Cycle(min(seasons)) if isinstance(seasons, list) and seasons else None


def _course(stream: StreamRecord, title: str, points: list[dict[str, Any]], height: int) -> Course:
    parts: dict[int, list[dict[str, Any]]] = {}
    for point in stretches(points):
        parts.setdefault(point["part"], []).append(point)
    drawn = tuple(
        (part[0]["name"], *(tuple(float(point[key]) for point in part) for key in ("x", "y", "low", "high")))
        for part in parts.values()
    )
    lost = tuple((float(point["x"]), float(point["y"])) for point in points if point["lost"])
    places = [point["x"] for point in points]
    ticks, label = _ticks(stream, min(places), max(places))
    return Course(title, drawn, lost, ticks, label, height)


def _ticks(stream: StreamRecord, first: int, last: int) -> tuple[tuple[tuple[float, str], ...], str]:
    """Dates below the steps where the stream's clock is public, else numbers of steps and what they are."""
    if stream.keys.get("start") is None or stream.keys.get("step") is None:
        counted = [t for t in round_ticks(first, last) if first <= t <= last]
        return tuple((t, f"{t:,.0f}") for t in counted), f"{stream.called} since the first"
    length, start = step_length(stream.keys["step"]), datetime.fromisoformat(stream.keys["start"])
    days = (last - first) * length / timedelta(days=1)
    form = "%a %H:%M" if days <= 3 else "%d %b" if days <= 300 else "%b %Y"
    size = max(1, round((last - first) / 6 * length / timedelta(days=1))) * timedelta(days=1) / length
    places = range(math.ceil(first / size), int(last // size) + 1) if days > 3 else ()
    found = [place * size for place in places] or [first + (last - first) * part / 4 for part in range(5)]
    return tuple((float(place), (start + place * length).strftime(form)) for place in found), ""


def stream_sections(streams: list[StreamRecord], epsilon: float | None, delta: float) -> list[DocumentSection]:
    """What was released, and what is promised, public and not protected."""
    released = DocumentSection("What was released")
    rows = []
    for stream in streams:
        rows.append((", ".join(stream.keys["columns"]), stream.words))
        for name, table in zip(stream.keys["columns"], stream.keys["releasers"], strict=True):
            quote = registry.build("releaser", table, "releaser").quote()
            released.text.append(f"{name}: {quote.words()}.")
        released.drawings += courses(stream)
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
