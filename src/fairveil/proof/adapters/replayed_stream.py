"""`fairveil release --person` recorded and replayed: what one person's rows can be changed into, and what then shows.

Break behind it: a row whose time lay in a later step closed every step before it, so that one time stamp moved 22 of 24
counts by 200 people at a noise of 6, while audits changed values and never whose row it is, when it came or in which
order.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from fairveil.errors import FairveilError
from fairveil.ledger import Ledger
from fairveil.proof.adapters.feed import OF_ROWS, Rows, fed, hourly
from fairveil.proof.engine.adapter import Checks, adapter
from fairveil.proof.engine.replay import Compared, compare, without_chance
from fairveil.proof.laws import must
from fairveil.proof.mutants import Method, Mutant, in_method, twin
from fairveil.streams.columns import Columns
from fairveil.streams.serving.feed import Feed
from fairveil.streams.serving.output import Layout
from fairveil.streams.serving.people import PersonCounts
from fairveil.streams.serving.release_run import ReadAgain, ReleaseRun

HOURS, PEOPLE, OFTEN, MU, CROWD = 5, 4, 2, 0.5, 150
RELEASER = {"name": "baseline-gaussian", "mu": MU, "horizon": HOURS}
NEIGHBOURS = {"replace": MU, "add-remove": 2 * MU}
"""What it costs that somebody's rows become others: they are replaced, or taken out and others put in."""


def rows() -> Rows:
    return hourly(HOURS, PEOPLE)


def released(folder: Path, given: Rows, watermark: bool = False, neighbours: str = "replace") -> dict[str, Any]:
    """One run of the command over these rows: its output, its words, its ledger."""
    people, said = PersonCounts(1, OFTEN), {"error": ""}
    columns = Columns.build({**RELEASER, **people.keys(), "neighbours": neighbours}, ["count"])
    with fed(folder, given, people, HOURS, watermark) as feed:
        try:
            ReleaseRun(columns, feed, Layout("ts", ("count",)), folder / "out.csv", folder / "ledger.db").run()
        except FairveilError as problem:
            said["error"] = str(problem)
    said["output"] = (folder / "out.csv").read_text() if (folder / "out.csv").exists() else ""
    if (folder / "ledger.db").exists():
        with Ledger.open(folder / "ledger.db") as ledger:
            said["ledger"] = without_chance(list(ledger.entries()))
    return said


def between(one: Rows, other: Rows, **more: Any) -> Compared:
    return compare(lambda folder, world: released(folder, (one, other)[world], **more))


def another_order(folder: Path) -> None:
    """Rows closed steps for each other: the same rows in another order publish the same."""
    given = rows()
    for mixed in (given[::-1], given[7:] + given[:7], sorted(given, key=lambda row: row[1])):
        must(between(given, mixed) == Compared(0.0, 0.0, ()), "the order of rows shows")


def another_time(folder: Path) -> None:
    """One time stamp moved the counts of everybody: it moves two counts by one, and nothing else."""
    given = rows()
    for place in (0, len(given) // 2, len(given) - 1):
        for time in ("2024-01-01T04:59", "2024-01-01T00:00", "1999-01-01", "2999-01-01"):
            changed = [*given[:place], (time, given[place][1]), *given[place + 1 :]]
            must(between(given, changed).within(mu=MU), "one row's time moves more than its own counts")


def one_person(folder: Path) -> None:
    """Somebody who is gone, late, everywhere at once, or somebody else, costs what was charged, and nothing else."""
    given = rows()
    others = [row for row in given if row[1] != "p0"]
    everywhere = [(f"2024-01-01T{hour:02}:{minute}", "p0") for hour in range(HOURS) for minute in (10, 20, 30)]
    for neighbours, most in NEIGHBOURS.items():
        for own in ([], everywhere, everywhere[:1] * 9, [("2024-01-01T02:02", "p0")]):
            found = between(given, own + others, neighbours=neighbours)
            must(found.within(mu=most if own else MU), "one person costs more than was charged")
    renamed = [(time, "new" if who == "p0" else who) for time, who in given]
    must(between(given, renamed) == Compared(0.0, 0.0, ()), "another name for the same person shows")


def two_names(folder: Path) -> None:
    """A person under two names is two people, and costs what two people do; a limit counts each by itself."""
    given = rows()
    split = [(time, f"p0-{place % 2}" if who == "p0" else who) for place, (time, who) in enumerate(given)]
    must(between(given, split).within(mu=2 * MU), "two names cost more than two people")


def after_a_watermark(folder: Path) -> None:
    """What comes after its step was closed is dropped, whoever else comes: a late row costs what a row does."""
    marks = [(f"2024-01-01T{hour:02}:00", "") for hour in range(1, HOURS + 1)]
    given = [row for mark, hour in zip(marks, range(HOURS)) for row in (*rows()[hour * PEOPLE :][:PEOPLE], mark)]
    for place in (0, 6, len(given) - 2):
        late = [*given[:place], *given[place + 1 :], given[place]]
        must(between(given, late, watermark=True).within(mu=MU), "a late row costs more than a row")


def gone_on(folder: Path) -> None:
    """A run that is stopped and goes on costs a person what was charged once for both runs."""
    marks = [(f"2024-01-01T{hour:02}:00", "") for hour in (2, 4, 5)]

    def twice(place: Path, world: int) -> dict[str, Any]:
        whole = sorted([*(row for row in rows() if world == 0 or row[1] != "p0"), *marks])
        said = released(place, whole[: whole.index(marks[0]) + 1], watermark=True)
        return {**{f"first {name}": words for name, words in said.items()}, **released(place, whole, watermark=True)}

    must(compare(twice).within(mu=MU), "a person costs more because the run was stopped in between")


def rotated(folder: Path) -> None:
    """A run that goes on with the next file of a rotated log counted everybody anew: it costs what was charged once."""
    marks = [(f"2024-01-01T{hour:02}:00", "") for hour in (2, 4, HOURS)]

    def parts(place: Path, world: int) -> dict[str, Any]:
        given = sorted([*(row for row in rows() if world == 0 or row[1] != "p0"), *marks])
        ends = [0, *(given.index(mark) + 1 for mark in marks)]
        said = [released(place, given[first:stop], watermark=True) for first, stop in pairwise(ends)]
        return {f"{number} {name}": words for number, one in enumerate(said) for name, words in one.items()}

    must(compare(parts).within(mu=MU), "a person is counted anew because the run went on with other rows")


def a_longer_name(folder: Path) -> None:
    """Rows were read so many bytes at a time, and the ledger named together the steps that these closed: how long one
    name is moved its names."""
    given = [(time, f"{who}-{copy}") for copy in range(CROWD) for time, who in rows()]
    marks = [(f"2024-01-01T{hour:02}:00", "") for hour in range(1, HOURS + 1)]
    whole = sorted([*given, *marks], key=lambda row: (row[0][:13], row[1] != "", row))
    longer = [(time, "x" * 9000 if who == "p0-0" else who) for time, who in whole]
    must(between(whole, longer, watermark=True) == Compared(0.0, 0.0, ()), "how long a name is shows")


@twin
def _counted_again(original: Method, self: Feed, picked: list[str]) -> Any:
    """Who was counted before a watermark is forgotten with the steps that it closes."""
    made = original(self, picked)
    if not picked[1].strip() and self.people is not None:
        self.people._steps.clear()
    return made


@twin
def _first_come(original: Method, self: PersonCounts, people: Any) -> int:
    """Only so many rows of a step are counted, whoever comes first."""
    return int(original(self, list(people)[: PEOPLE - 1]))


def _sorted_only(original: Callable[..., Any]) -> Callable[..., Any]:
    """A row that goes back in time is dropped."""

    newest: WeakKeyDictionary[Feed, str] = WeakKeyDictionary()

    def broken(self: Feed, picked: list[str]) -> Any:
        last = newest.get(self, "")
        if picked[1].strip() and picked[0] < last:
            return []
        newest[self] = max(picked[0], last)
        return original(self, picked)

    return broken


def _by_bytes(original: Callable[..., Any]) -> Callable[..., Any]:
    """The rule of before: what one read holds is handed out together."""
    return lambda self: None


@adapter("release-replayed")
def stream_checks() -> Checks:
    """`fairveil release --person`, recorded and replayed: `fairveil.streams.serving`."""
    return Checks(
        (another_order, another_time, one_person, two_names, after_a_watermark, gone_on, rotated, a_longer_name),
        (
            *OF_ROWS,
            Mutant("first-come", "a step holds so many rows and drops the others",
                   in_method(PersonCounts, "step", _first_come)),
            Mutant("sorted-only", "a row that goes back in time is dropped",
                   in_method(Feed, "_person", _sorted_only)),
            Mutant("counted-again", "a watermark forgets who was counted",
                   in_method(Feed, "_person", _counted_again)),
            Mutant("bytes-in-names", "what one read holds is a block of the ledger",
                   in_method(Feed, "_at_once", _by_bytes), breaks="a_longer_name"),
            Mutant("other-rows-taken", "a stream goes on with rows that do not begin with those that were read",
                   in_method(ReadAgain, "check", lambda _: lambda self: None)),
        ),
    )  # fmt: skip
