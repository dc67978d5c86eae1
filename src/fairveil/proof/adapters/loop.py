"""A served loop as an adapter; its own laws: what stands between a reward that comes and a published block."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from fairveil.bandits import feedback
from fairveil.bandits.feedback import ARRIVALS_IN_WORDS
from fairveil.bandits.nash.private_nash import PrivateNash
from fairveil.bandits.protocol import HEADER
from fairveil.errors import PrivacyError
from fairveil.ledger import Account, Ledger, RunCost, checks
from fairveil.loop import blocks, kept, paying, seats, settle
from fairveil.loop.clock import ManualClock
from fairveil.loop.config import Reward
from fairveil.loop.facts import ERASED, SENDERS, STORED
from fairveil.loop.loop import Loop
from fairveil.loop.pages import DIGEST
from fairveil.loop.problems import NameTaken
from fairveil.loop.public import loop_table
from fairveil.loop.seats import Seating
from fairveil.loop.store import Store
from fairveil.privacy.noise import Noise, SecureNoise, SeededNoise
from fairveil.proof.adapters import SAID_LOST, Adapter, checks_of
from fairveil.proof.engine.adapter import Checks, adapter
from fairveil.proof.laws import must
from fairveil.proof.mutants import Method, Mutant, function, in_function, in_method, method, replaced, twin
from fairveil.storage import faults

POLICY: dict[str, Any] = {"name": "private-nash", "arms": 2, "epsilon": 1.0}
ROUNDS, WAIT = 24, 60


class Killed(BaseException):
    """The process ends here."""


@contextmanager
def trial(
    folder: Path, missing: Any = "default", name: str = "store", release: str = "arrivals"
) -> Iterator[tuple[Loop, ManualClock]]:
    clock, policy = ManualClock(), POLICY | {"release": release}
    with Store.open(f"sqlite:///{folder}/{name}/store.db", clock=clock, key=bytes(32)) as store:
        yield store.create("trial", policy=policy, reward=Reward(0, 1, wait=f"{WAIT}s", missing=missing)), clock


def play(loop: Loop, first: int = 0, reward: float | None = 1.0) -> None:
    for index in range(first, first + ROUNDS):
        loop.decide(f"e-{index}")
        if reward is not None:
            loop.reward(f"e-{index}", reward)


class Ticked:
    """A loop with blocks that are due. The first one dies with values in its ledger that its store does not have."""

    def __init__(self, loop: Loop, dies: bool) -> None:
        self.loop, self.ledger, self.dies = loop, loop.ledger, dies

    def release(self) -> Any:
        def die(point: str) -> None:
            if self.dies and point == "block-adopted":
                raise Killed

        with replaced(faults, "hook", die), suppress(Killed):
            self.loop.store.tick()
        with self.loop.store.reading() as tx:
            fates = {fate for (fate,) in tx.execute("SELECT status FROM blocks WHERE loop = ?", (self.loop.facts.id,))}
        must(self.dies or fates, "nothing is released")
        stored = [self.ledger.value(name) for name in published(self.ledger)]
        total = sum(int(value["total"][0]) for value in stored)
        return SAID_LOST if fates == {"lost"} else total if self.dies else int(self.loop.status().state["sums"].sum())


def published(ledger: Ledger) -> list[str]:
    return [str(entry["name"]) for entry in ledger.entries() if entry["kind"] == "publish"]


@contextmanager
def ticked(folder: Path, number: int) -> Iterator[Ticked]:
    clock = ManualClock()
    with Store.open(f"sqlite:///{folder}/store/store.db", clock=clock, key=bytes(32)) as store:
        if number == 0:
            play(store.create("trial", policy=POLICY, reward=Reward(0, 1, wait=f"{WAIT}s", missing="default")))
        clock.advance(WAIT + 1)
        yield Ticked(store.loop("trial"), dies=number == 0)


def _made_again(folder: Path, name: str, epsilon: float) -> None:
    """A loop of the same name in a new store over a copy of the old ledger."""
    shutil.copytree(folder / "store" / "ledgers", folder / name / "ledgers")
    with Store.open(f"sqlite:///{folder}/{name}/store.db", clock=ManualClock(), key=bytes(32)) as store:
        policy = {**POLICY, "epsilon": epsilon}
        store.create("trial", policy=policy, reward=Reward(0, 1, wait="60s"), budget={"ledger": "trial"})


def another_store(folder: Path) -> None:
    """Of another budget: refused by the account, also where its name is not looked at."""
    with function(paying.check_accounts, lambda ledger, holders: None):
        _made_again(folder, "other", 0.5)


def a_forgotten_loop(folder: Path) -> None:
    """The same once more, where its store was put back to before it: refused by its name."""
    try:
        _made_again(folder, "forgotten", POLICY["epsilon"])
    except NameTaken as taken:
        raise PrivacyError(str(taken)) from taken


def published_as_stored(folder: Path) -> None:
    """What is published is what the ledger has stored: noise of the operating system, drawn for it."""
    sources: list[Noise] = []

    @twin
    def watched(original: Method, self: PrivateNash, state: Any, noise: Noise) -> Any:
        sources.append(noise)
        return original(self, state, noise)

    with trial(folder) as (loop, clock), method(PrivateNash, "draw", watched):
        play(loop)
        clock.advance(WAIT + 1)
        must(loop.store.tick() > 0, "nothing is released")
        state = loop.status().state
        total = sum(int(loop.ledger.value(name)["total"][0]) for name in published(loop.ledger))
    must(sources and all(isinstance(source, SecureNoise) for source in sources), "seeded noise serves people")
    must(total == int(state["sums"].sum()), "what is published is not what was stored")


def rows_are_erased(folder: Path) -> None:
    """After a release nothing of its rounds is left that the table of what is kept lets go with its block."""
    with trial(folder) as (loop, clock):
        play(loop)
        clock.advance(WAIT + 1)
        loop.store.tick()
        stop = loop.status().erased
        must(stop > 0, "nothing is erased")
        left = kept.left_behind(loop.store, loop.facts.id, stop)
    must(not left, f"{', '.join(left)} of a released round stays")


def arrivals_say_nothing(folder: Path) -> None:
    """Where missing rewards count as a default, rewards that are in settle nothing before their window closes."""
    for release in ("arrivals", "blocks"):
        with trial(folder, name=release, release=release) as (loop, clock):
            play(loop)
            must(loop.tick() == 0 and loop.status().settled == 0, "a reward that is in shows when it came")
            seats = loop.status().state.get("came", np.zeros(1))
            must(not seats.any(), "a reward that is in has a seat before its window closes")
            clock.advance(WAIT + 1)
            must(loop.store.tick() > 0, "closed windows settle nothing")
            must(loop.reward("e-0", 0.0).learned == "never", "a reward counts after its window")


def an_end_waits_for_everybody(folder: Path) -> None:
    """A loop that is frozen in the middle of a turn releases all its answers, and none while a window is open."""
    for number, treat in enumerate(("default", "public")):
        with trial(folder, missing=treat, name=f"store-{number}") as (loop, clock):
            for index in range(5):
                loop.decide(f"e-{index}")
            loop.reward("e-3", 1.0)
            loop.set_mode("frozen")
            must(loop.tick() == 0, "a pool is released while somebody waits")
            clock.advance(WAIT + 1)
            loop.tick()
            state = loop.status().state
        must(state["came"].any() and (state["taken"] == state["came"]).all(), "an answer is in no release at the end")


def missing_is_the_default(folder: Path) -> None:
    """The number of rewards in a block is the number of its rounds, whoever answered."""
    with trial(folder) as (loop, clock):
        play(loop, reward=None)
        clock.advance(WAIT + 1)
        loop.store.tick()
        status = loop.status()
    must(status.erased > 0 and status.state["counts"].sum() == status.erased, "silence shows in the counts")


def arrivals_are_said_as_kept(folder: Path) -> None:
    """What is published of a loop says of arrivals and erasures what the loop does about them."""
    for number, treat in enumerate(("default", "public")):
        with trial(folder, missing=treat, name=f"store-{number}") as (loop, _):
            notes = loop_table(loop)["guarantee"]["notes"]
        said = [treat for treat, words in ARRIVALS_IN_WORDS.items() if words in notes]
        must(said == [treat], "a loop publishes another note on arrivals than it keeps")
        must(ERASED in notes, "a loop does not say what an erasure shows")
        must(SENDERS in notes and STORED in notes, "a loop does not say whom and what it trusts")


def epochs_have_blocks_of_their_own(folder: Path) -> None:
    """After a restore the loop goes on in another epoch: no name of a block comes again, in any loop."""
    with trial(folder) as (loop, _):
        names = {blocks.block_name(loop.facts, epoch, f"block-{number}") for epoch in (0, 1) for number in (0, 1)}
    must(len(names) == 4, "two epochs share the name of a block")
    must(all(loop.name in name for name in names), "two loops share the name of a block")


@twin
def _by_arrival(original: Method, batch: Any) -> int:
    settled = original(batch)
    found = settle._answered(batch.tx, batch.facts.id, settled, batch.round)
    if found != settled:
        batch.change(settled=found)
    return found


@twin
def _at_the_answer(original: Method, self: Seating, row: Any) -> Any:
    return row if row.reward is None or row.seat is not None else row._replace(seat=self.take(row.queue))


@twin
def _left_out(original: Method, *given: Any) -> Iterator[Any]:
    return ([one for one in page if one.reward != 0.0] for page in original(*given))


OF_ARRIVALS = (
    Mutant("settled-by-arrival", "rewards that are in settle their rounds, although that is hidden",
           in_function(settle.settle, _by_arrival(settle.settle))),
    Mutant("missing-left-out", "silence shows although a default was declared",
           in_function(blocks._pages, _left_out(blocks._pages))),
)  # fmt: skip
"""Mistakes that show when or whether somebody answered."""


def account(ledger: Ledger) -> Account:
    return Account(ledger, "trial", RunCost(PrivateNash(arms=2, epsilon=1.0).event()))


@adapter("loop")
def loop_checks() -> Checks:
    """A served loop: `fairveil.loop.blocks` and `fairveil.loop.settle`."""
    return checks_of(Adapter(
        ticked,
        (PrivateNash, "draw"),
        account,
        lambda name, value: set(value) == {HEADER, "total", "count", DIGEST},
        (another_store, a_forgotten_loop),
        (
            published_as_stored,
            rows_are_erased,
            arrivals_say_nothing,
            an_end_waits_for_everybody,
            missing_is_the_default,
            arrivals_are_said_as_kept,
            epochs_have_blocks_of_their_own,
        ),
        (
            Mutant("seeded-for-secure", "seeded instead of secure noise",
                   in_function(checks.accepted, lambda noise, simulated: SeededNoise(1))),
            Mutant("raw-kept-after-release", "rewards stay in the store",
                   in_function(settle.erase, lambda batch: batch.change(erased=batch.before.released) or 0)),
            *OF_ARRIVALS,
            Mutant("seat-at-the-answer", "a seat is given when a reward comes, although that is hidden",
                   in_method(Seating, "at_answer", _at_the_answer)),
            Mutant("frozen-at-once", "a frozen loop releases what it has while others may still answer",
                   in_function(seats.decided_by_line, lambda state, rounds: state["came"] + state["closed"])),
            Mutant("turn-never-over", "answers of a turn that is not decided to its end stay in no release",
                   in_function(seats.at_rest, lambda facts, status: False)),
            Mutant("note-of-the-policy", "the policy's note on arrivals for that of the loop",
                   in_function(feedback.with_arrivals, lambda guarantee, treat: guarantee)),
            Mutant("name-given-again", "a loop that its store has forgotten is made again over what was released of it",
                   in_function(paying.check_accounts, lambda ledger, holders: None)),
            Mutant("epoch-left-out", "names of blocks come again after a restore",
                   in_function(blocks.block_name, lambda facts, epoch, block: f"{facts.spec.name}/{block}")),
        ),
    ))  # fmt: skip
