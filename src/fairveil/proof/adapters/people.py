"""Who stands behind the rows of a served loop, as laws and mutants: what a person's promise counts is all there is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

from fairveil.loop import blocks, kept, public
from fairveil.loop.batch import Batch
from fairveil.loop.clock import ManualClock
from fairveil.loop.config import Person, Reward
from fairveil.loop.events import Reply
from fairveil.loop.facts import Facts
from fairveil.loop.lives import Lives
from fairveil.loop.loop import Loop
from fairveil.loop.places import check_people
from fairveil.loop.problems import SubjectTwice
from fairveil.loop.requests import Preparer
from fairveil.loop.store import Store
from fairveil.proof.engine.adapter import Checks, adapter
from fairveil.proof.laws import must
from fairveil.proof.mutants import Method, Mutant, in_function, in_method, replaced, twin

POLICY = {"name": "batched-private-fair-greedy", "epsilon": 1.0, "delta": 1e-6, "first_batch": 8}
FEATURES = [{"name": "x", "low": -1.0, "high": 1.0}]
EVENTS, PLACES = (1, 2), (1, 3)
"""Limits that are tried: events of a person, and places of one request at which a person may stand."""
DOORS = {
    "who is learned and not counted": "UPDATE subjects SET events = 0 WHERE key = ?",
    "who is learned without a name": "DELETE FROM appearances WHERE subject = ?",
    "who stands at more places than are counted": "UPDATE appearances SET places = 2 WHERE subject = ?",
}
"""What a path to the rows may have left undone for one person, written into the store behind all doors."""


@contextmanager
def queue(folder: Path, person: Person, clock: ManualClock | None = None) -> Iterator[Loop]:
    """A loop that chooses between people."""
    with Store.open(f"sqlite:///{folder}/store.db", clock=clock or ManualClock(), key=bytes(32)) as store:
        name = f"queue-{person.max_events}-{person.candidates}"
        reward = Reward(0, 1, wait="60s")
        yield store.create(name, policy=POLICY, groups=["a", "b"], features=FEATURES, reward=reward, person=person)


def standing(event: str, places: int) -> dict[str, Any]:
    """A request in which one person stands at so many places, beside somebody who comes once."""
    who = [f"beside {event}", *["one person"] * places]
    people = [{"group": "ab"[place % 2], "features": [0.1], "subject": one} for place, one in enumerate(who)]
    return {"event_id": event, "candidates": people}


def learned_within_the_promise(folder: Path) -> None:
    """Places of a person in what is learned, single or in a batch, are at most the units that the promise counts."""
    for events, places in product(EVENTS, PLACES):
        with queue(folder, Person(max_events=events, candidates=places)) as loop:
            promise, units = loop.facts.guarantee, events * places
            assert promise is not None
            told = public.loop_table(loop)["person_guarantee"]
            must(told == promise.for_units(units).to_dict(), "a promise to a person leaves out events or places")
            stands = [places + 1, places, 1, places, places + 2, places]
            asked = [standing(f"e-{number}", stand) for number, stand in enumerate(stands)]
            replies = [*loop.decide_many(asked[:3]), *(loop.decide_many([one])[0] for one in asked[3:])]
            pending = [isinstance(reply, Reply) and reply.learning == "pending" for reply in replies]
            learned = sum(stand for stand, taken in zip(stands, pending, strict=True) if taken)
            must(0 < learned <= units, "a person is learned at more places than the promise counts")


def held_at_the_release(folder: Path) -> None:
    """Whatever path a row took, nobody is released who is not known, not counted, or at more places than are counted;
    whoever is excluded is learned from nowhere and counts nowhere."""
    for number, (who, door) in enumerate((("", ""), *DOORS.items())):
        clock = ManualClock()
        with queue(folder / str(number), Person(max_events=1), clock) as loop:
            for event in range(8):
                people = [("excluded", 0.3), (f"one of {event}", 0.1), (f"other of {event}", 0.2)]
                shown = [{"group": "a", "features": [x], "subject": name} for name, x in people]
                loop.decide(f"e-{event}", candidates=shown, exclude=[0])
                loop.reward(f"e-{event}", 1.0)
            if door:
                with loop.store.writing() as tx:
                    tx.execute(door, (loop.store.keys.subject("other of 3"),))
            clock.advance(61)
            loop.tick()
            must((loop.status().version > 0) == (not door), f"somebody {who} is released" if door else "no release")


PLACED = {
    "who is reported and not counted": "UPDATE place_people SET places = 0 WHERE key = ?",
    "who is reported without a name": "DELETE FROM place_appearances WHERE subject = ?",
}
"""The same for what is reported."""


def held_at_the_report(folder: Path) -> None:
    """Nobody is reported who is not known or not counted, whatever path the place took."""
    for number, (who, door) in enumerate((("", ""), *PLACED.items())):
        clock, url = ManualClock(), f"sqlite:///{folder}/{number}/store.db"
        with Store.open(url, clock=clock, key=bytes(32)) as store:
            arms = {"name": "private-nash", "arms": 2, "epsilon": 1.0}
            about: dict[str, Any] = {"policy": arms, "reward": Reward(0, 1, wait="60s"), "person": Person(max_events=1)}
            loop = store.create("trial", **about, groups=["a"], reports={"every": 8, "epsilon": 0.5})
            loop.decide_many([{"event_id": f"e-{event}", "subject": f"{event}", "group": "a"} for event in range(8)])
            if door:
                with store.writing() as tx:
                    tx.execute(door, (store.keys.subject("3"),))
            clock.advance(61)
            store.tick()
            with store.reading() as tx:
                [(made,)] = tx.execute("SELECT count(*) FROM reports WHERE status = 'released'")
            must((made == 1) == (not door), f"somebody {who} is reported" if door else "nothing is reported")


def refused_without_a_trace(folder: Path) -> None:
    """One person at too many places is refused with the places and without a name, and leaves nothing in the store."""
    with queue(folder, Person(max_events=1)) as loop:
        fine, twice = loop.decide_many([standing("fine", 1), standing("twice", 2)])
        must(isinstance(twice, SubjectTwice), "one person at two places is not refused")
        assert isinstance(twice, SubjectTwice)
        must("1" in twice.allowed and "2" in twice.path, "a refusal does not name both places")
        must("one person" not in f"{twice.path} {twice.given} {twice.allowed}", "a refusal repeats who it is about")
        with loop.store.reading() as tx:
            [(events,)] = tx.execute("SELECT count(*) FROM events")
            [(people,)] = tx.execute("SELECT count(*) FROM subjects")
        must((events, people) == (1, 2), "a refused request is in the store")
        must(isinstance(fine, Reply) and fine.learning == "pending", "another request of the batch is refused with it")


def erased_at_any_seat(folder: Path) -> None:
    """After an erasure no raw content is left of requests in which the person stood, at whichever place."""
    with queue(folder, Person(max_events=3)) as loop:
        for place in range(3):
            request = standing(f"e-{place}", 1)
            others = [{**request["candidates"][0], "subject": f"{other} of {place}"} for other in range(2)]
            request["candidates"] = [*others[:place], request["candidates"][1], *others[place:]]
            loop.decide_many([request])
            loop.reward(f"e-{place}", 1.0)
        must(loop.erase_subject("one person") == 3, "an erasure misses a place")
        with loop.store.reading() as tx:
            [(learned,)] = tx.execute("SELECT count(*) FROM events WHERE learn <> 'erased'")
        left = kept.left_behind(loop.store, loop.facts.id, loop.status().round)
    must(not left, f"{', '.join(left)} of an erased person stays")
    must(learned == 0, "a round that is erased waits for its reward")


def _places_left_out(facts: Facts, lives: Lives, _total: Any = None) -> Any:
    guarantee, most = facts.policy.guarantee(), facts.spec.person.max_events
    return None if guarantee is None or most is None else guarantee.for_units(most * (lives.epoch + 1)).to_dict()


@twin
def _uncounted(original: Method, self: Batch, ask: Any, learned: bool) -> None:
    counted = {key: self.people[key].events for key in ask.subjects}
    original(self, ask, learned)
    for key, events in counted.items():
        self.people[key].events = events


LIMIT_ALONE = blocks.STOOD.replace("counted > ? OR stood > counted OR places > ?", "counted > ? AND ? > 0")


@twin
def _first_seat_alone(original: Method, self: Batch, ask: Any) -> None:
    before = len(self.appearances)
    original(self, ask)
    del self.appearances[before + 1 :]


def forgets_seats_alone(self: Loop, subject: str, actor: str = "local") -> int:
    def change(batch: Batch) -> int:
        key = self.store.keys.subject(subject)
        found = batch.tx.execute("SELECT event FROM appearances WHERE subject = ?", (key,))
        for (event,) in found:
            batch.tx.execute("DELETE FROM appearances WHERE event = ?", (event,))
        return len(found)

    return int(self.writer.act(change))


@adapter("people")
def people_checks() -> Checks:
    """People of a served loop: `fairveil.loop.requests`, `fairveil.loop.batch` and the promise to a person."""
    return Checks(
        (
            learned_within_the_promise,
            held_at_the_release,
            held_at_the_report,
            refused_without_a_trace,
            erased_at_any_seat,
        ),
        (
            Mutant("subject-twice-taken", "one person at many places of a request counts as one event",
                   in_method(Preparer, "_check_places", lambda _: lambda self, people: None)),
            Mutant("places-left-out", "a promise to a person counts events and not places",
                   in_function(public.person_guarantee, _places_left_out)),
            Mutant("limit-not-counted", "events of a person are learned and not counted",
                   in_method(Batch, "_count", _uncounted)),
            Mutant("door-believed", "a release asks nobody who stands in its rows", breaks="held_at_the_release",
                   plant=in_function(blocks.check_people, lambda facts, driver, epoch, blocks: None)),
            Mutant("limit-alone", "a release looks at what was counted and not at rows", breaks="held_at_the_release",
                   plant=lambda _: replaced(blocks, "STOOD", LIMIT_ALONE)),
            Mutant("places-believed", "a report asks nobody who stands in its places", breaks="held_at_the_report",
                   plant=in_function(check_people, lambda facts, driver, first, stop: None)),
            Mutant("first-seat-alone", "only the first person of a request is found by an erasure",
                   breaks="erased_at_any_seat", plant=in_method(Batch, "_note_persons", _first_seat_alone)),
            Mutant("rows-kept-after-erasure", "an erasure forgets where a person stood and keeps the rows",
                   in_method(Loop, "erase_subject", lambda _: forgets_seats_alone)),
        ),
    )  # fmt: skip
