"""What a history of requests and answers proves. Reads what callers saw and what is public; never the store.

A history is a list of calls (`Call`, in the order in which they began), the entries of the loop's ledger, and nothing
else. `violations` names every rule that it breaks, by a stable word before the colon.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Table = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """One attempt. ``kind``: decide, reward, event (what is stored at the end), loop (the public page).

    ``status`` is None where no answer came: the outcome is unknown, and either is allowed.
    """

    kind: str
    began: float
    ended: float
    status: int | None
    answer: Table
    event: str = ""
    subject: str = ""
    value: float | None = None

    @property
    def done(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


@dataclass(frozen=True)
class History:
    calls: Sequence[Call]
    entries: Sequence[Table]
    sticky: bool = True
    wait: float | None = None
    """Length of a window in seconds, where clocks were set while it happened."""

    def of(self, kind: str) -> list[Call]:
        return [call for call in self.calls if call.kind == kind and call.done]


def one_reply(history: History) -> Iterator[str]:
    """The same id gives the same answer, for ever, and is made once."""
    first: dict[str, Table] = {}
    made: set[str] = set()
    for call in history.of("decide"):
        if first.setdefault(call.event, call.answer) != call.answer:
            yield f"reply-changed: {call.event}"
        if call.status == 201:
            if call.event in made:
                yield f"made-twice: {call.event}"
            made.add(call.event)
    stored = {call.event: call.answer for call in history.of("event")}
    for event, reply in first.items():
        if stored and event not in stored:
            yield f"decision-lost: {event}"
        elif stored and any(stored[event].get(name) != reply[name] for name in ("action", "propensity", "round")):
            yield f"reply-changed: {event}, as it is stored"


def sticky(history: History) -> Iterator[str]:
    """A person keeps the arm."""
    arms: dict[str, int] = {}
    for call in history.of("decide"):
        if (
            history.sticky
            and call.subject
            and arms.setdefault(call.subject, call.answer["action"]) != call.answer["action"]
        ):
            yield f"arm-changed: {call.subject}"


def rounds(history: History) -> Iterator[str]:
    """Each number is given once, and none is left out once every id has been answered."""
    given: dict[int, str] = {}
    for call in history.of("decide"):
        number = call.answer["round"]
        if number is not None and given.setdefault(number, call.event) != call.event:
            yield f"round-twice: {number}"
    if given and len(given) != max(given) + 1:
        yield f"round-gap: {max(given) + 1 - len(given)} of {max(given) + 1}"


def rewards(history: History) -> Iterator[str]:
    """What was accepted is stored; a second value is never accepted."""
    values: dict[str, float] = {}
    pending: set[str] = set()
    for call in history.of("reward"):
        if call.value is not None and values.setdefault(call.event, call.value) != call.value:
            yield f"reward-changed: {call.event}"
        if call.answer.get("learned") == "pending":
            pending.add(call.event)
    for call in history.of("event"):
        if call.event in pending and call.answer.get("reward") == "none":
            yield f"reward-lost: {call.event}"


def windows(history: History) -> Iterator[str]:
    """No window closes before its time, whatever clocks said; nothing stops learning where no ledger was harmed."""
    began: dict[str, float] = {}
    for call in history.calls:
        if call.kind == "decide":
            began[call.event] = min(call.began, began.get(call.event, call.began))
    for call in history.of("reward"):
        early = history.wait is not None and call.ended - began[call.event] < history.wait
        if early and call.answer.get("reason") == "late":
            yield f"window-closed-early: {call.event}"
    for call in history.of("decide"):
        if call.answer["reason"] in ("ledger", "epoch"):
            yield f"learning-stopped: {call.event}"


def ledger(history: History) -> Iterator[str]:
    """Charged, then reserved, then published, each block once; never more than the limit."""
    limit, paid, reserved, published = None, set[str](), set[str](), set[str]()
    for entry in history.entries:
        kind, name = entry["kind"], entry["name"]
        if kind == "genesis":
            limit = entry["limit"]["units"]
        if limit is not None and entry.get("totals", [0])[0] > limit:
            yield f"budget-passed: entry {entry['sequence']}"
        if kind == "account":
            if name in paid:
                yield f"charged-twice: {name}"
            paid.add(name)
        elif kind == "reserve":
            if entry.get("account") not in paid:
                yield f"not-charged: {name}"
            reserved.add(name)
        elif kind == "publish":
            if name not in reserved:
                yield f"not-charged: {name} was published before it was reserved"
            if name in published:
                yield f"block-twice: {name}"
            published.add(name)


def pages(history: History) -> Iterator[str]:
    """Public numbers never fall; blocks that are open hold no round twice, and no more is published than released."""
    shown = history.of("loop")
    released = sum(entry["kind"] == "publish" for entry in history.entries)
    for name in ("rounds", "settled", "version"):
        best = 0
        for before, call in _in_order(shown):
            best = max([best, *(one.answer[name] for one in before)])
            if call.answer[name] < best:
                yield f"number-fell: {name} from {best} to {call.answer[name]}"
    for call in shown:
        blocks = sorted((block["first"], block["stop"]) for block in call.answer["open_blocks"])
        if any(stop > first for (_, stop), (first, _) in itertools.pairwise(blocks)):
            yield f"blocks-overlap: {blocks}"
        if history.entries and call.answer["version"] > released:
            yield f"published-early: version {call.answer['version']} of {released} releases"


def _in_order(calls: Sequence[Call]) -> Iterator[tuple[list[Call], Call]]:
    """Each call with those that had ended before it began and were not told yet."""
    waiting = sorted(calls, key=lambda call: call.ended)
    for call in sorted(calls, key=lambda call: call.began):
        before = []
        while waiting and waiting[0].ended < call.began:
            before.append(waiting.pop(0))
        yield before, call


RULES: tuple[Callable[[History], Iterator[str]], ...] = (one_reply, sticky, rounds, rewards, windows, ledger, pages)


def violations(history: History) -> list[str]:
    return [found for rule in RULES for found in rule(history)]


def told(first: History, second: History) -> list[str]:
    """Where two runs that differ in what one person sent show different public pages: they are equal until that is
    released."""
    pairs = zip(first.of("loop"), second.of("loop"), strict=True)
    return [f"public-differs: page {at}" for at, (one, other) in enumerate(pairs) if one.answer != other.answer]
