"""Check a ledger without writing to it, and say what the check can and cannot show."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from fairveil.errors import LedgerTampered
from fairveil.ledger.anchor import Anchor, FileAnchor
from fairveil.ledger.book import anchor_just_started, check_mark
from fairveil.ledger.chain import ANCHOR, LOST, PUBLISH, RESERVE, LedgerStore, State, replay
from fairveil.ledger.places import Place, place_of
from fairveil.ledger.values import decode
from fairveil.privacy.charges import Charge

NO_ANCHOR = "no anchor was given: that it was set back to an older copy, or cut, cannot be detected"

NO_KEY = "no key: whoever can write the file can also recompute the chain; only accidents and careless edits show"


@dataclass(frozen=True)
class Report:
    """What `verify` found in an unchanged ledger."""

    ledger: str
    entries: int
    head: str
    simulated: bool
    unit: str
    limit: str
    spent: str
    reserved: str
    remaining: str
    promise: str
    published: int
    lost: int
    under_way: int
    anchor: str
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "notes": list(self.notes)}


def verify(
    path: str | os.PathLike[str],
    anchor: str | os.PathLike[str] | Anchor | None = None,
    *,
    ledger: str | None = None,
    key: bytes | None = None,
) -> Report:
    """Check pages, every link, every charge and total, and the anchor; LedgerTampered says what is wrong.

    Reads only, in constant memory and linear time; also works on a read-only copy.
    """
    place = place_of(path, ledger)
    mark_place = FileAnchor(anchor) if isinstance(anchor, str | os.PathLike) else anchor
    with _explained(place, mark_place is not None):
        # read before the ledger: a ledger that grows meanwhile still contains what this mark has seen
        mark = None if mark_place is None else mark_place.read()
        with place.reading() as store:
            store.check_pages()
            state, kinds, again, seated = _replay(store, key)
            if mark is not None:
                check_mark(mark, state, store, place)
            just_started = anchor_just_started(state, store)
    if mark_place is None:
        words = NO_ANCHOR
    elif mark is None and just_started:
        words = "no mark yet: nothing was written since this ledger has an anchor"
    elif mark is None:
        raise LedgerTampered("there is no anchor here", path=str(mark_place), fix="name the file used with the ledger")
    elif mark.sequence == state.sequence:
        words = f"matches at entry {mark.sequence}"
    else:
        behind = state.sequence - mark.sequence
        words = (
            f"matches at entry {mark.sequence}, {behind} behind: a crash, or a write under way; it moves on when opened"
        )
    return _report(state, kinds, words, again, seated)


def entries(
    path: str | os.PathLike[str], first: int = 0, *, ledger: str | None = None, key: bytes | None = None
) -> list[dict[str, Any]]:
    """The entries from ``first`` on as plain data, each with its charge in words; values stay in the ledger."""
    place = place_of(path, ledger)
    with _explained(place), place.reading() as store:
        limit = next(replay(store, key))[0].limit
        found = [row.describe() for row in store.rows(first - 1)]
    return [{**entry, "charged": limit.words(Charge(*entry.get("charge", (0, 0))))} for entry in found]


def releases(
    path: str | os.PathLike[str], account: str, *, ledger: str | None = None, key: bytes | None = None
) -> list[tuple[str, Any]]:
    """Every settled block of an account in order, without the account's name, with its value (None: lost)."""
    place, prefix = place_of(path, ledger), f"{account}/"
    with _explained(place), place.reading() as store:
        for _ in replay(store, key):
            pass
        return [
            (row.name.removeprefix(prefix), None if row.value is None else decode(row.value))
            for row in store.rows()
            if row.kind in (PUBLISH, LOST) and row.name.startswith(prefix)
        ]


@contextmanager
def _explained(place: Place, anchored: bool = False) -> Iterator[None]:
    """A failure to read is told in the words of the place."""
    try:
        yield
    except place.failures as problem:
        raise place.explain(problem, "nothing was changed", anchored) from problem


def _replay(store: LedgerStore, key: bytes | None) -> tuple[State, Counter[str], int, int]:
    kinds, again, seats = Counter[str](), 0, Seats()
    for now, row in replay(store, key):
        state = now
        kinds[row.kind] += 1
        again += row.kind == ANCHOR and bool(row.table.get("again"))
        seats.see(row.kind, row.name, row.value)
    return state, kinds, again, seats.check()


class Seats:
    """Releases by arrival, named ``<account>/<arm>-<from>-<to>``: do they take the seats of every arm one after the
    other, each once? Read off names alone; a name counts where a published one of its account has the same header.
    Seats begin at 0; in a later epoch of a loop (``<loop>/<epoch>``), behind what the earlier ones may have taken."""

    def __init__(self) -> None:
        self.taken: dict[tuple[str, int], list[tuple[int, int]]] = {}
        self.accounts: set[str] = set()

    def see(self, kind: str, name: str, value: str | None) -> None:
        found = _INTERVAL.fullmatch(name)
        if found is None or kind not in (RESERVE, PUBLISH):
            return
        account, (arm, first, stop) = found[1], (int(number) for number in found.groups()[1:])
        if kind == RESERVE:
            self.taken.setdefault((account, arm), []).append((first, stop))
        elif account not in self.accounts and value is not None:
            stored = decode(value)
            header = stored.get("header", ()) if isinstance(stored, dict) else ()
            if len(header) == 4 and [int(number) for number in header[:3]] == [arm, first, stop]:
                self.accounts.add(account)

    def check(self) -> int:
        """The number of releases by arrival; LedgerTampered where seats are missing or taken twice."""
        count = 0
        for (account, arm), intervals in self.taken.items():
            if account not in self.accounts:
                continue
            intervals.sort()
            at = intervals[0][0] if _LATER.search(account) else 0
            for first, stop in intervals:
                if first != at or stop <= first:
                    raise LedgerTampered(
                        "the seats of an arm are not released one after the other, each once",
                        path=f"{account}/{arm}-{first}-{stop}",
                        given=f"{first} to {stop}",
                        allowed=f"from {at}",
                        fix="a reward may be in two releases: do not go on with this ledger",
                    )
                at, count = stop, count + 1
        return count


_INTERVAL = re.compile(r"(.+)/(\d+)-(\d+)-(\d+)")
_LATER = re.compile(r"/[1-9]\d*$")


def _report(state: State, kinds: Counter[str], anchor: str, again: int, seated: int) -> Report:
    notes = []
    if seated:
        notes.append(f"{seated} releases by arrival: the seats of every arm follow each other, each in one release")
    if state.simulated:
        notes.append("simulated: this ledger takes seeded noise and protects nobody")
    if state.key is None and anchor == NO_ANCHOR:
        notes.append(NO_KEY)
    if state.anchored and anchor == NO_ANCHOR:
        notes.append("this ledger has an anchor: give it to detect that it was set back")
    if again:
        notes.append(f"its anchor was lost and started anew {again} time(s): before that it could have been set back")
    limit = state.limit
    promised = limit.epsilon is not None and limit.delta is not None
    promise = f"({limit.epsilon:.6g}, {limit.delta:.3g})-DP" if promised else limit.words(limit.total)
    return Report(
        ledger=state.ledger,
        entries=state.sequence + 1,
        head=state.head,
        simulated=state.simulated,
        unit=state.unit,
        limit=limit.words(limit.total),
        spent=limit.words(state.filter.spent),
        reserved=limit.words(state.filter.reserved),
        remaining=limit.words(state.filter.remaining),
        promise=promise,
        published=kinds[PUBLISH],
        lost=kinds[LOST],
        under_way=kinds[RESERVE] - kinds[PUBLISH] - kinds[LOST],
        anchor=anchor,
        notes=tuple(notes),
    )
