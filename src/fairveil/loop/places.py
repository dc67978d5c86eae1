"""Places: every decision that can be reported, numbered, with the facts a report needs beside it.

A place is a decision of modes online, apprentice, frozen or paused. One that is a sticky repeat, or one of whose
subjects stands at ``max_events`` places already, is *blank*: it has its number, so that who somebody is moves nobody
else's place, and counts for nobody; which places are blank is in no public table. Learned and reported appearances are
counted apart. Its content is one blob of fixed length (whether it is live, whether it was shown, the reward in [0, 1],
groups, chances of the targets, exposure given and owed), so that a row never changes its size: what is erased is
overwritten where it stands.
Only loops that declare ``reports`` have places.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fairveil.arrays import Floats
from fairveil.loop.play import ArmsPlay
from fairveil.loop.problems import Uncounted
from fairveil.loop.reporting import REFUSED, chances
from fairveil.loop.storage import Driver, Transaction, adding, saving
from fairveil.reports.rows import PlaceRows
from fairveil.state import State

if TYPE_CHECKING:
    from fairveil.loop.batch import Batch
    from fairveil.loop.events import Event
    from fairveil.loop.facts import Facts
    from fairveil.loop.loop import Loop
    from fairveil.loop.requests import Ask

PAGE = 2000
_HEAD = struct.Struct("<BBd")
"""Live (0 once it is erased, 2 where it is blank), shown (0 while it is deferred), reward (NaN while there is none)."""
COUNTS, BLANK = 1, 2
PLACED = ("online", "apprentice", "frozen", "paused")


@dataclass
class Counters:
    """The row of a loop's places. ``first``: the first that may be reported; ``erased``: all below have no content.

    ``limited`` and ``sticky`` were counted before blank places had numbers, and stand still since.
    """

    place: int = 0
    settled: int = 0
    first: int = 0
    erased: int = 0
    limited: int = 0
    sticky: int = 0
    shadow: int = 0


_COLUMNS = ", ".join(field.name for field in fields(Counters))


def counters(tx: Transaction, loop: int) -> Counters:
    found = tx.execute(f"SELECT {_COLUMNS} FROM reporting WHERE loop = ?", (loop,))
    return Counters(*found[0]) if found else Counters()


def save(tx: Transaction, loop: int, now: Counters) -> None:
    values = tuple(getattr(now, field.name) for field in fields(Counters))
    tx.execute(saving("reporting", "loop", f"loop, {_COLUMNS}"), (loop, *values))


class Placing:
    """The places of one batch: nothing is written before the batch is.

    ``law``, ``state``: the chances of the candidates of the last decision, and what was published then.
    """

    law: Floats | None = None
    state: State

    def __init__(self, facts: Facts, tx: Transaction, now: int, grace: int) -> None:
        self.facts, self.tx, self.now, self.grace = facts, tx, now, grace
        self.changed = False
        self._new: dict[bytes, list[Any]] = {}
        self._rewritten: dict[bytes, bytes] = {}
        self._people: dict[bytes, int] = {}
        self._stands: list[tuple[int, bytes, int, int]] = []
        self._counters: Counters | None = None

    @property
    def counters(self) -> Counters:
        if self._counters is None:
            self._counters = counters(self.tx, self.facts.id)
        return self._counters

    def decided(self, ask: Ask, made: Event) -> None:
        """Give a decision its place, or count it among those outside."""
        self.changed, now = True, self.counters
        if made.mode not in PLACED:
            now.shadow += 1
            return
        blank = self._over(ask) or made.reason == "sticky"
        content = self._content(ask, made, blank) + self._exposure(ask, made, blank)
        self._new[made.key] = [now.place, made.decided, made.until, made.action, made.propensity, made.mode, content]
        limit = self.facts.spec.person.max_events
        stands = zip(ask.mentioned, ask.places, strict=True)
        self._stands += [(self.facts.id, key, now.place, count) for key, count in stands if count]
        for key in ask.subjects:
            if limit is not None and (not blank or self._people[key] < limit):
                self._people[key] += 1
        now.place += 1

    def _over(self, ask: Ask) -> bool:
        limit = self.facts.spec.person.max_events
        if limit is None:
            return False
        query = "SELECT places FROM place_people WHERE loop = ? AND key = ?"
        for key in ask.subjects:
            if key not in self._people:
                found = self.tx.execute(query, (self.facts.id, key))
                self._people[key] = found[0][0] if found else 0
        return any(self._people[key] >= limit for key in ask.subjects)

    def _content(self, ask: Ask, made: Event, blank: bool) -> bytes:
        """What a report reads; of a blank place no more than the groups of its candidates."""
        facts = self.facts
        if isinstance(facts.play, ArmsPlay):
            numbers, actions = [0 if blank else ask.group or 0], facts.play.arms
        else:
            counts = np.bincount([one.group for one in ask.shown], minlength=facts.groups)
            group = 0 if blank else ask.shown[ask.place(made.action)].group
            numbers, actions = [group, *counts.tolist()], len(ask.names)
        law = np.zeros(len(facts.rules)) if blank else chances(facts.rules, ask, made.action, actions)
        head = _HEAD.pack(BLANK if blank else COUNTS, 0 if ask.defer else 1, float("nan"))
        return head + np.array(numbers, np.uint16).tobytes() + law.tobytes()

    def _exposure(self, ask: Ask, made: Event, blank: bool) -> bytes:
        """What each group was given of the exposure of this round, and what it was owed by what is published."""
        law = self.law
        merit, groups = self.facts.by_merit, self.facts.groups
        if merit is None:
            return b""
        if blank:
            return np.zeros(2 * groups).tobytes()
        count = len(ask.shown)
        if law is None:  # somebody else decided, or the fallback of a pause
            law = np.full(count, 1.0 / count)
            if made.propensity == 1.0:
                law = np.eye(count)[ask.place(made.action)]
        owed = merit.deserved(self.state, 0, np.array([one.features for one in ask.shown]))
        of = [one.group for one in ask.shown]
        return b"".join(np.bincount(of, weights=one, minlength=groups).tobytes() for one in (law, owed))

    def start_behind(self, places: list[int]) -> None:
        """After a store was put back: no place up to here is ever reported, because a lost copy may have been."""
        now = self.counters
        now.place = now.settled = now.first = max([now.place, *places])
        self.changed = True

    def rewarded(self, key: bytes, value: float) -> None:
        """The first reward of a place inside its window stands."""
        self._rewrite(
            key, lambda live, shown, reward: (live, shown, value if live == COUNTS and reward != reward else reward)
        )

    def activated(self, key: bytes) -> None:
        self._rewrite(key, lambda live, shown, reward: (live, 1, reward))

    def _rewrite(self, key: bytes, change: Any) -> None:
        fresh = self._new.get(key)
        if fresh is not None:
            until, content = fresh[2], fresh[-1]
        else:
            query = "SELECT place, until, content FROM places WHERE loop = ? AND event = ?"
            found = self.tx.execute(query, (self.facts.id, key))
            if not found or found[0][0] < self.counters.settled:
                return
            until, content = found[0][1], self._rewritten.get(key, bytes(found[0][2]))
        live, shown, reward = _HEAD.unpack_from(content)
        if not live or (self.now > until and self.now >= self.grace):
            return
        made = _HEAD.pack(*change(live, shown, reward)) + content[_HEAD.size :]
        if fresh is not None:
            fresh[-1] = made
        elif made != content:
            self.changed = True
            self._rewritten[key] = made

    def write(self) -> None:
        if not self.changed:
            return
        loop, tx = self.facts.id, self.tx
        rows = [(loop, key, *values) for key, values in self._new.items()]
        if rows:
            tx.many(adding("places", "loop, event, place, decided, until, action, propensity, mode, content"), rows)
        if self._rewritten:
            changed = [(content, loop, key) for key, content in self._rewritten.items()]
            tx.many("UPDATE places SET content = ? WHERE loop = ? AND event = ?", changed)
        if self._stands:
            tx.many(adding("place_appearances", "loop, subject, place, places"), self._stands)
        if self._people:
            counted = [(loop, key, count) for key, count in self._people.items()]
            tx.many(saving("place_people", "loop, key", "loop, key, places"), counted)
        if self._counters is not None:
            save(tx, loop, self._counters)
        self._new, self._rewritten, self._people, self._stands, self.changed = {}, {}, {}, [], False


def settle(batch: Batch) -> Counters:
    """Move ``settled``: windows close in the order of places. Look in the middle."""
    placing = batch.places
    assert placing is not None, "a loop that reports has places"
    now, low, high = placing.counters, placing.counters.settled, placing.counters.place
    if batch.now >= batch.grace:
        query = "SELECT until FROM places WHERE loop = ? AND place = ?"
        while low < high:
            middle = (low + high) // 2
            found = batch.tx.execute(query, (batch.facts.id, middle))
            low, high = (middle + 1, high) if not found or found[0][0] < batch.now else (low, middle)
    if low != now.settled:
        now.settled, placing.changed = low, True
    return now


_ERASED = {"sqlite": "zeroblob(length(content))", "postgresql": "decode(repeat('00', length(content)), 'hex')"}


LIVE = "p.loop = ? AND p.place >= ? AND p.place < ? AND substr(p.content, 1, 1) = ?"
STOOD = (
    "SELECT count(*) FROM (SELECT count(*) AS stood, max(a.places) AS places, coalesce(max(k.places), 0) AS counted "
    "FROM places p JOIN place_appearances a ON a.loop = p.loop AND a.place = p.place "
    f"LEFT JOIN place_people k ON k.loop = a.loop AND k.key = a.subject WHERE {LIVE} GROUP BY a.subject) AS people "
    "WHERE counted > ? OR stood > counted OR places > ?"
)
"""People counted beyond the limit, at more places than were counted, or as too many candidates of one."""
KNOWN = (
    "SELECT p.content, count(a.subject), count(a.places), coalesce(sum(a.places), 0) FROM places p "
    "LEFT JOIN place_appearances a ON a.loop = p.loop AND a.place = p.place "
    f"WHERE {LIVE} GROUP BY p.loop, p.place"
)
"""Of every place its content, how many people are known at it, and as how many candidates."""


def check_people(facts: Facts, driver: Driver, first: int, stop: int) -> None:
    """The limit a person, held against the places that are about to be reported, by whatever way they came."""
    person = facts.spec.person
    if person.max_events is None:
        return
    found = 0
    with driver.reading() as tx:
        for start in range(first, stop, PAGE):
            page = facts.id, start, min(start + PAGE, stop), bytes([COUNTS])
            found += sum(_somebody_unknown(facts, *row) for row in tx.execute(KNOWN, page))
        found += tx.execute(STOOD, (facts.id, first, stop, bytes([COUNTS]), person.max_events, person.candidates))[0][0]
    if found:
        raise Uncounted(
            "a range has places beyond what was counted for the people in them",
            path="person.max_events",
            allowed=f"{person.max_events} places a person, each counted when it is decided",
            fix="nothing was drawn; look at what writes to this store, or erase these people",
        )


def _somebody_unknown(facts: Facts, content: bytes, people: int, told: int, standing: int) -> bool:
    """Whether somebody stands at a place who is not known; an older version did not say as how many candidates."""
    if told < people:
        return False
    arms = isinstance(facts.play, ArmsPlay)
    shown = 1 if arms else int(np.frombuffer(bytes(content), np.uint16, facts.groups, _HEAD.size + 2).sum())
    return shown != standing


def refused_reports(loop: Loop) -> list[str]:
    """Scheduled reports that `check_people` has refused, in words for who operates the loop."""
    if loop.facts.spec.reports is None:
        return []
    query = "SELECT count(*), min(first), max(stop) FROM reports WHERE loop = ? AND status = ?"
    [(count, first, stop)] = loop.store.read(query, (loop.facts.id, REFUSED))
    were = "report was" if count == 1 else "reports were"
    words = f"refused among places {first} to {stop}: not everybody in them was counted; look at what writes here"
    return [f"{count} scheduled {were} {words}"] if count else []


def erase_person(batch: Batch, subject: bytes) -> int:
    """Take the content out of all places at which a person stands: no later report reads them. Gives how many."""
    loop = batch.facts.id
    found = batch.tx.execute("SELECT place FROM place_appearances WHERE loop = ? AND subject = ?", (loop, subject))
    query = f"UPDATE places SET content = {_ERASED[batch.tx.dialect]} WHERE loop = ? AND place = ?"
    batch.tx.many(query, [(loop, place) for (place,) in found])
    batch.tx.execute("DELETE FROM place_appearances WHERE loop = ? AND subject = ?", (loop, subject))
    return len(found)


def erase_below(batch: Batch, stop: int) -> bool:
    """Erase the content of places below ``stop``, one page; whether more is left."""
    placing = batch.places
    assert placing is not None, "a loop that reports has places"
    first = placing.counters.erased
    last = min(first + PAGE, stop)
    if first >= last:
        return False
    query = f"UPDATE places SET content = {_ERASED[batch.tx.dialect]} WHERE loop = ? AND place >= ? AND place < ?"
    batch.tx.execute(query, (batch.facts.id, first, last))
    gone = "DELETE FROM place_appearances WHERE loop = ? AND place >= ? AND place < ?"
    batch.tx.execute(gone, (batch.facts.id, first, last))
    placing.counters.erased, placing.changed = last, True
    return last < stop


# Reading --------------------------------------------------------------------------------------------------------------


class PlacePage(NamedTuple):
    """Places as a report reads them (blank ones with group -1 and no reward), and the weights of every target."""

    rows: PlaceRows
    weights: Floats


def pages(facts: Facts, driver: Driver, first: int, stop: int) -> Iterator[PlacePage]:
    """The places of a range in pages, all of one moment; erased ones and those never shown are left out."""
    query = (
        "SELECT place, action, propensity, mode, content FROM places WHERE loop = ? AND place >= ? AND place < ? "
        "ORDER BY place LIMIT ?"
    )
    with driver.reading() as tx:
        while first < stop:
            found = tx.execute(query, (facts.id, first, stop, PAGE))
            yield _page(facts, [row for row in found if all(bytes(row[4])[:2])])
            if len(found) < PAGE:
                return
            first = found[-1][0] + 1


def _page(facts: Facts, kept: list[tuple[Any, ...]]) -> PlacePage:
    arms, rules, count = isinstance(facts.play, ArmsPlay), len(facts.rules), len(kept)
    width = 1 if arms else 1 + facts.groups
    contents = [bytes(row[4]) for row in kept]
    numbers = np.array([np.frombuffer(c, np.uint16, width, _HEAD.size) for c in contents], np.int64)
    numbers = numbers.reshape(count, width)
    laws = np.array([np.frombuffer(c, np.float64, rules, _HEAD.size + 2 * width) for c in contents])
    played = deserved = None
    if facts.by_merit is not None:
        behind = _HEAD.size + 2 * width + 8 * rules
        held = np.array([np.frombuffer(c, np.float64, 2 * facts.groups, behind) for c in contents])
        played, deserved = np.split(held.reshape(count, 2 * facts.groups), 2, axis=1)
    reward = np.array([_HEAD.unpack_from(content)[2] for content in contents], np.float64)
    if facts.missing == "default":
        reward = np.where(np.isnan(reward), facts.unit_default, reward)
    blank = np.array([content[0] == BLANK for content in contents], bool)
    propensity = np.array([row[2] for row in kept], np.float64)
    weights = np.nan_to_num(laws.reshape(count, rules), nan=0.0) / propensity[:, None]
    taken = np.array([row[1] for row in kept], np.int64) if arms else None
    shown = None if arms else numbers[:, 1:]
    group, reward = np.where(blank, -1, numbers[:, 0]), np.where(blank, np.nan, reward)
    rows = PlaceRows(group=group, shown=shown, reward=reward, arm=taken, played=played, deserved=deserved)
    return PlacePage(rows, weights)
