"""A store that comes back, as laws and mutants: from a backup, with or without its ledger, its pages or its anchors.

Breaks behind it: one event was learned in released blocks of three epochs, and no note said so; a store and its ledger
that were restored together drew published blocks again, and nothing said that nobody would notice.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fairveil.errors import LedgerTampered
from fairveil.ledger.anchor import FileAnchor, Mark
from fairveil.ledger.book import Book
from fairveil.loop import paying, public, recovery, reports, trail, upkeep
from fairveil.loop.clock import ManualClock
from fairveil.loop.config import Reward
from fairveil.loop.loop import Loop
from fairveil.loop.pages import Pages
from fairveil.loop.problems import LedgerInDoubt, StorageFailed
from fairveil.loop.public import loop_table
from fairveil.loop.store import Store
from fairveil.proof.engine.adapter import Checks, adapter
from fairveil.proof.laws import must, refused
from fairveil.proof.mutants import Method, Mutant, in_function, in_method, replaced, twin
from fairveil.storage import faults

POLICY = {"name": "private-nash", "arms": 2, "epsilon": 1.0}
RULES = ("arrivals", "blocks")
"""How a loop releases: by seats that are given when rewards come, or by rounds that are decided together."""
ROUNDS, WAIT = 24, 60
DOUBTED = (LedgerInDoubt, LedgerTampered, StorageFailed)
"""How something is refused that does not continue what was there."""


class Place:
    """A store in a folder with its anchors, a backup, and the time."""

    def __init__(self, folder: Path, anchored: bool = False, rule: str = RULES[0]) -> None:
        self.data, self.copy, self.clock = folder / "data", folder / "copy", ManualClock()
        self.anchors = folder / "anchors" if anchored else None
        self.policy = {**POLICY, "release": rule}

    @contextmanager
    def opened(self, key: bytes = bytes(32), new_key: bool = False) -> Iterator[Loop]:
        url = f"sqlite:///{self.data}/store.db"
        with Store.open(url, clock=self.clock, key=key, new_key=new_key, anchors=self.anchors) as store:
            yield store.loop("trial") if "trial" in store.names() else self.made(store)

    def made(self, store: Store) -> Loop:
        """The loop of this place."""
        return store.create("trial", policy=self.policy, reward=Reward(0, 1, wait=f"{WAIT}s", missing="default"))

    def play(self, loop: Loop, first: int) -> list[Any]:
        """Events by number, decided, answered and due."""
        replies = [loop.decide(f"e-{number}") for number in range(first, first + ROUNDS)]
        for reply in replies:
            loop.reward(reply.event_id, 1.0)
        self.tick(loop)
        return replies

    def tick(self, loop: Loop) -> None:
        self.clock.advance(WAIT + 1)
        loop.store.tick()

    def begin(self) -> set[str]:
        """Some releases, a backup, and more releases of the events from ROUNDS on: which of these were released."""
        with self.opened() as loop:
            self.play(loop, 0)
            upkeep.backup(loop.store, self.copy)
            replies = self.play(loop, ROUNDS)
            return {reply.event_id for reply in replies if reply.round < loop.status().erased}

    def put_back(self, everything: bool) -> None:
        """The copy in the place of the store; ``everything``: of its ledger, too."""
        if everything:
            shutil.rmtree(self.data)
        for file in self.data.glob("store.db*"):
            file.unlink()
        upkeep.restore(self.copy, self.data / "store.db")

    def lose_pages(self) -> None:
        for file in (self.data / "ledgers").glob("*.events*"):
            file.unlink()


class WithReports(Place):
    """A loop that keeps something for one report by hand."""

    def made(self, store: Store) -> Loop:
        return store.create("trial", policy=POLICY, reward=Reward(0, 1, wait=f"{WAIT}s"), reports={"spare": 1.0})


def an_event_is_released_once(folder: Path) -> None:
    """However often a store is put back, a released event is decided and not learned, and epochs are named."""
    for rule in RULES:
        _released_once(Place(folder / rule, rule=rule))


def _released_once(place: Place) -> None:
    released = place.begin()
    must(released, "nothing is released")
    for epoch in (1, 2):
        place.put_back(everything=False)
        with place.opened() as loop:
            place.tick(loop)
            must(loop.status().epoch == epoch, "a store that was put back goes on as if it was not")
            again = place.play(loop, ROUNDS)
            learned = {reply.event_id for reply in again if reply.learning == "pending"}
            must(not released & learned, "an event is learned again from a copy")
            released |= learned
            fresh = place.play(loop, 100 * epoch)
            must(all(reply.learning == "pending" for reply in fresh), "nothing is learned after a restore")
            notes = " ".join(loop_table(loop)["guarantee"]["notes"])
            must(f"put back {epoch} time" in notes, "the guarantee does not name the epochs")


def the_trail_says_that_it_was_put_back(folder: Path) -> None:
    """The trail of a store that was put back names the epoch, and `store check` sees an entry that was taken out."""
    place = Place(folder)
    place.begin()
    place.put_back(everything=False)
    with place.opened() as loop:
        place.tick(loop)
        with loop.store.reading() as tx:
            entries = trail.entries(tx)
        epochs = [entry["facts"]["epoch"] for entry in entries if entry["action"] == "epoch"]
        must(epochs == [loop.status().epoch], "the trail of a store that was put back does not say so")
        must(upkeep.check(loop.store)["trail"] == len(entries), "an unchanged trail is not what was written")
        with loop.store.writing() as tx:
            tx.execute("DELETE FROM trail WHERE seq = 1")
        with refused("an entry that was taken out of the trail is not missed", *DOUBTED):
            upkeep.check(loop.store)


def without_pages_learning_waits(folder: Path) -> None:
    """Keys of released events that are lost stop learning, not decisions; the guarantee counts what is accepted."""
    for rule in RULES:
        _learning_waits(Place(folder / rule, rule=rule))


def _learning_waits(place: Place) -> None:
    place.begin()
    place.put_back(everything=False)
    place.lose_pages()
    with place.opened() as loop:
        place.tick(loop)
        before = loop.status().version
        replies = place.play(loop, ROUNDS)
        must(all(reply.learning == "frozen" for reply in replies), "events are learned again, and nobody accepted that")
        must(loop.status().version == before, "a block is released in an epoch that nobody accepted")
        upkeep.accept_epoch(loop.store, "trial", uncharged=True)
        place.tick(loop)
        must(all(reply.learning == "pending" for reply in place.play(loop, 200)), "an accepted epoch does not learn")
        must(loop_table(loop)["guarantee"]["epsilon"] == 2.0, "the guarantee does not count an accepted epoch")


def pages_come_before_values(folder: Path) -> None:
    """When a value is stored the keys of its events are on disk, and its digest is theirs."""
    place, seen = Place(folder), list[int]()
    with place.opened() as loop:

        def look(point: str) -> None:
            if point == "drawn" and loop.pages is not None:
                with loop.store.driver.beside("trial").reading() as tx:
                    there = tx.execute("SELECT count(*) FROM sqlite_master WHERE name = 'released_pages'")[0][0]
                    seen.append(tx.execute("SELECT count(*) FROM released_pages")[0][0] if there else 0)

        with replaced(faults, "hook", look):
            place.play(loop, 0)
        digests = recovery._digests(loop)
        assert loop.pages is not None
        must(seen and min(seen) > 0, "a value is drawn before the keys of its events are on disk")
        must(digests and not loop.pages.missing(digests), "a published block has no page")


def put_back_together_is_refused(folder: Path) -> None:
    """With an anchor, store and ledger from one backup decide and publish nothing, and no command makes them."""
    place = Place(folder, anchored=True)
    place.begin()
    place.put_back(everything=True)
    with place.opened() as loop:
        place.play(loop, ROUNDS)
        must(loop.decide("later").reason == "ledger", "a ledger that was put back is learned into")


def an_older_ledger_pays_nothing(folder: Path) -> None:
    """On a ledger that is older than its store has seen it no report is drawn by hand, and no loop is charged to it."""
    place = WithReports(folder)
    with place.opened() as loop:
        place.play(loop, 0)
        shutil.copytree(place.data / "ledgers", place.copy)
        loop.release("fairness", first=0, stop=ROUNDS // 2, epsilon=1.0)
    shutil.rmtree(place.data / "ledgers")
    shutil.copytree(place.copy, place.data / "ledgers")
    about: dict[str, Any] = {"policy": POLICY, "reward": Reward(0, 1, wait=f"{WAIT}s"), "budget": {"ledger": "trial"}}
    with place.opened() as loop:
        with refused("a report by hand is drawn on an older ledger", *DOUBTED):
            loop.release("fairness", first=ROUNDS // 2, stop=ROUNDS, epsilon=1.0)
        with refused("a loop is charged to an older ledger", *DOUBTED):
            loop.store.create("next", **about)


def a_lost_mark_stops_learning(folder: Path) -> None:
    """Without its mark a loop decides and does not learn until somebody accepts it, which the ledger says for ever."""
    place = Place(folder, anchored=True)
    assert place.anchors is not None
    with place.opened() as loop:
        place.play(loop, 0)
    (place.anchors / "trial.anchor").unlink()
    with place.opened() as loop:
        place.play(loop, ROUNDS)
        must(loop.status().stopped == "ledger", "an anchor that is lost begins again by itself")
        upkeep.reanchor(loop.store, "trial")
        place.tick(loop)
        must(loop.status().stopped is None, "an accepted anchor does not learn")
        notes = upkeep.check(loop.store)["ledgers"]["trial"]["notes"]
    must("started anew" in " ".join(notes), "a ledger does not say that its anchor was lost")


def a_mark_never_goes_back(folder: Path) -> None:
    """Of two processes that move a mark, the later entry stays."""
    anchor = FileAnchor(folder / "one.anchor")
    for sequence in (5, 4):
        anchor.write(Mark("one", sequence, str(sequence)))
    must(anchor.read() == Mark("one", 5, "5"), "the mark of the slower process takes the anchor back")


def a_backup_holds_no_mark(folder: Path) -> None:
    """A mark that is put back with its ledger shows nothing: no file of a backup holds one."""
    place = Place(folder)
    place.anchors = place.data / "anchors"
    place.begin()
    mark = FileAnchor(place.anchors / "trial.anchor").read()
    with place.opened() as loop:
        must(loop.store.anchoring == "beside the store", "anchors in the store's own folder pass for a second place")
    shutil.rmtree(place.copy)
    with place.opened() as loop:
        upkeep.backup(loop.store, place.copy)
    texts = [file.read_bytes() for file in place.copy.rglob("*") if file.is_file() and file.suffix != ".db"]
    must(mark is not None and not any(mark.head.encode() in text for text in texts), "a backup holds a mark")


def _silent(what: str) -> Method:
    original = trail.note
    return lambda tx, now, actor, action, *about: None if action == what else original(tx, now, actor, action, *about)


def _counted(tx: Any) -> int:
    return len(trail.entries(tx))


def _always_again(original: Method) -> Method:
    return lambda self, again: original(self, True)


def _write_back(original: Method) -> Method:
    return lambda self, mark: self._write(mark)


@twin
def _marks_too(original: Method, store: Store, folder: Path, *given: Any) -> Any:
    made = original(store, folder, *given)
    if store.anchors is not None:
        shutil.copytree(store.anchors, folder / "anchors")
    return made


@twin
def _written_later(original: Method, self: Pages, blocks: Any) -> dict[str, str]:
    return {block: self.keys().page(block, events) for block, events in blocks.items()}


@adapter("restored")
def restored_checks() -> Checks:
    """A store that was put back: `fairveil.loop.recovery`, `.pages`, `.trail`, `.upkeep`, `fairveil.ledger.anchor`."""
    return Checks(
        (
            an_event_is_released_once,
            the_trail_says_that_it_was_put_back,
            without_pages_learning_waits,
            pages_come_before_values,
            put_back_together_is_refused,
            an_older_ledger_pays_nothing,
            a_lost_mark_stops_learning,
            a_mark_never_goes_back,
            a_backup_holds_no_mark,
        ),
        (
            Mutant("pages-not-asked", "a copy learns events that were released",
                   in_method(Pages, "among", lambda _: lambda self, tx, keys: frozenset())),
            Mutant("pages-not-written", "a value is stored without the keys of its events",
                   in_method(Pages, "write", _written_later)),
            Mutant("blind-epoch", "an epoch without its pages learns by itself",
                   in_method(Pages, "missing", lambda _: lambda self, digests: [])),
            Mutant("epochs-not-named", "the guarantee of a restored loop is that of a new one",
                   in_function(public.event_guarantee, lambda loop, epoch: loop.facts.guarantee)),
            Mutant("epoch-not-in-the-trail", "the trail of a store that was put back goes on as if it was not",
                   in_function(trail.note, _silent("epoch")), breaks=the_trail_says_that_it_was_put_back.__name__),
            Mutant("trail-only-counted", "an entry that was taken out of the trail is not missed",
                   in_function(trail.check, _counted), breaks=the_trail_says_that_it_was_put_back.__name__),
            Mutant("older-ledger-pays", "a ledger that was set back behind a report is charged again",
                   in_function(paying.check_newest, lambda tx, name, ledger: None)),
            Mutant("report-in-doubt", "a report by hand does not ask whether the ledger continues what is stored",
                   in_function(reports._check_doubt, lambda loop: None)),
            Mutant("anchor-begins-again", "a lost anchor is made anew and nobody is asked",
                   in_method(Book, "adopt_anchor", _always_again)),
            Mutant("mark-goes-back", "the slower of two processes takes the anchor back",
                   in_method(FileAnchor, "write", _write_back)),
            Mutant("marks-in-the-backup", "a backup holds the marks that should show that it was put back",
                   in_function(upkeep.backup, _marks_too(upkeep.backup))),
            Mutant("set-back-passes", "a ledger that its anchor has seen longer is written to",
                   in_method(Book, "_check_anchor", lambda _: lambda self, store: None)),
        ),
    )  # fmt: skip
