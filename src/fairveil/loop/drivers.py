"""A served loop, as laws and mutants: what stands between a reward that arrives and a block that is published."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

from fairveil.bandits.nash.private_nash import PrivateNash
from fairveil.laws import must
from fairveil.loop import blocks, settle
from fairveil.loop.clock import ManualClock
from fairveil.loop.config import Reward
from fairveil.loop.loop import Loop
from fairveil.loop.store import Store
from fairveil.privacy.audit.drivers import Driver
from fairveil.privacy.audit.mutants import Mutant, function, method
from fairveil.privacy.ledger import Ledger, checks, faults
from fairveil.privacy.ledger.chain import RESERVE
from fairveil.privacy.noise import Noise, SecureNoise, SeededNoise
from fairveil.registry import register

Method = Callable[..., Any]
POLICY = {"name": "private-nash", "arms": 2, "epsilon": 1.0}
ROUNDS, WAIT = 24, 60


class Killed(BaseException):
    """The process ends here."""


@contextmanager
def trial(folder: Path, missing: Any = "default", name: str = "store") -> Iterator[tuple[Loop, ManualClock]]:
    clock = ManualClock()
    with Store.open(f"sqlite:///{folder}/{name}/store.db", clock=clock, key=bytes(32)) as store:
        yield store.create("trial", policy=POLICY, reward=Reward(0, 1, wait=f"{WAIT}s", missing=missing)), clock


def play(loop: Loop, first: int = 0, reward: float | None = 1.0) -> None:
    for index in range(first, first + ROUNDS):
        loop.decide(f"e-{index}")
        if reward is not None:
            loop.reward(f"e-{index}", reward)


@contextmanager
def watching(hook: Callable[[str], None]) -> Iterator[None]:
    """The hook is told the places that served code passes."""
    faults.hook = hook
    try:
        yield
    finally:
        faults.hook = None


def charged_before_read(folder: Path) -> None:
    """When the rows of a block are read, whoever reads the ledger sees its account paid and the block reserved."""
    seen: list[bool] = []
    with trial(folder) as (loop, clock):
        file = str(loop.ledger.place)

        def look(point: str) -> None:
            if point == "block-folded":
                with Ledger.open(file) as witness:
                    kinds = [entry["kind"] for entry in witness.entries()]
                    seen.append(RESERVE in kinds and witness.spent.units > 0)

        play(loop)
        clock.advance(WAIT + 1)
        with watching(look):
            loop.store.tick()
    must(seen and all(seen), "rows are read before their charge is on disk")


def drawn_once(folder: Path) -> None:
    """A tick that dies after its draw is completed by the next one, with what was drawn."""
    folded: list[str] = []

    def die(point: str) -> None:
        if point == "block-folded":
            folded.append(point)
        if point == "block-adopted" and len(folded) < 99:
            folded.extend([""] * 99)
            raise Killed

    with trial(folder) as (loop, clock):
        play(loop)
        clock.advance(WAIT + 1)
        with watching(die):
            with suppress(Killed):
                loop.store.tick()
            drawn = folded.count("block-folded")
            loop.store.tick()
        must(drawn > 0 and folded.count("block-folded") == drawn, "a block is drawn twice")


def published_as_stored(folder: Path) -> None:
    """What is published is what the ledger has stored: noise of the operating system, drawn for it."""
    sources: list[Noise] = []

    def change(original: Method) -> Method:
        def watched(self: PrivateNash, state: Any, noise: Noise) -> Any:
            sources.append(noise)
            return original(self, state, noise)

        return watched

    with trial(folder) as (loop, clock), method(PrivateNash, "draw", change):
        play(loop)
        clock.advance(WAIT + 1)
        must(loop.store.tick() > 0, "nothing is released")
        state = loop.status().state
        published = [str(entry["name"]) for entry in loop.ledger.entries() if entry["kind"] == "publish"]
        total = sum(int(loop.ledger.value(name)["total"][0]) for name in published)
    must(sources and all(isinstance(source, SecureNoise) for source in sources), "seeded noise serves people")
    must(total == int(state["sums"].sum()), "what is published is not what was stored")


def rows_are_erased(folder: Path) -> None:
    """After a release no reward of its rounds is left in the store."""
    with trial(folder) as (loop, clock):
        play(loop)
        clock.advance(WAIT + 1)
        loop.store.tick()
        stop = loop.status().erased
        must(stop > 0, "nothing is erased")
        with loop.store.reading() as tx:
            left = tx.execute("SELECT count(*) FROM events WHERE reward IS NOT NULL AND round < ?", (stop,))
    must(left[0][0] == 0, "rewards stay after their release")


def arrivals_say_nothing(folder: Path) -> None:
    """Where missing rewards count as a default, rewards that are in settle nothing before their window closes."""
    with trial(folder) as (loop, clock):
        play(loop)
        must(loop.store.tick() == 0 and loop.status().settled == 0, "a reward that is in shows when it came")
        clock.advance(WAIT + 1)
        must(loop.store.tick() > 0, "closed windows settle nothing")
        must(loop.reward("e-0", 0.0).learned == "never", "a reward counts after its window")


def missing_is_the_default(folder: Path) -> None:
    """The number of rewards in a block is the number of its rounds, whoever answered."""
    with trial(folder) as (loop, clock):
        play(loop, reward=None)
        clock.advance(WAIT + 1)
        loop.store.tick()
        status = loop.status()
    must(status.erased > 0 and status.state["counts"].sum() == status.erased, "silence shows in the counts")


def epochs_have_blocks_of_their_own(folder: Path) -> None:
    """After a restore the loop goes on in another epoch: no name of a block comes again, in any loop."""
    with trial(folder) as (loop, _):
        names = {blocks.block_name(loop.facts, epoch, f"block-{number}") for epoch in (0, 1) for number in (0, 1)}
    must(len(names) == 4, "two epochs share the name of a block")
    must(all(loop.name in name for name in names), "two loops share the name of a block")


def _drawn_first(original: Method) -> Method:
    def broken(self: Ledger, names: Any, draw: Method, **more: Any) -> Any:
        if self.status(names[0]) != "unknown":
            return original(self, names, draw, **more)
        value = draw(SecureNoise(), ())
        drawn = [value]
        return original(self, names, lambda noise, earlier: drawn.pop() if drawn else draw(noise, earlier), **more)

    return broken


def _drawn_again(original: Method) -> Method:
    def broken(self: Ledger, names: Any, draw: Method, **more: Any) -> Any:
        known = self.status(names[0]) == "published"
        found = original(self, names, draw, **more)
        return [draw(SecureNoise(), ()), *found[1:]] if known else found

    return broken


def _by_arrival(original: Method) -> Method:
    def broken(batch: Any) -> int:
        settled = original(batch)
        found = settle._answered(batch.tx, batch.facts.id, settled, batch.round)
        if found != settled:
            batch.change(settled=found)
        return found

    return broken


def _left_out(original: Method) -> Method:
    def broken(*given: Any) -> Iterator[Any]:
        return ([one for one in page if one.reward != 0.0] for page in original(*given))

    return broken


def _planted(original: Method, change: Callable[[Method], Method]) -> Callable[[Any], AbstractContextManager[None]]:
    return lambda _: function(original, change(original))


@register("driver", "loop")
def loop_driver() -> Driver:
    """A served loop: `fairveil.loop.blocks` and `fairveil.loop.settle`."""
    laws = (
        charged_before_read,
        drawn_once,
        published_as_stored,
        rows_are_erased,
        arrivals_say_nothing,
        missing_is_the_default,
        epochs_have_blocks_of_their_own,
    )
    return Driver(
        laws,
        (
            Mutant("charge-after-draw", "drawn first, charged later",
                   lambda _: method(Ledger, "release_all", _drawn_first)),
            Mutant("drawn-again-on-retry", "a block whose tick died is drawn again",
                   lambda _: method(Ledger, "release_all", _drawn_again)),
            Mutant("seeded-for-secure", "seeded instead of secure noise",
                   _planted(checks.accepted, lambda _: lambda noise, simulated: SeededNoise(1))),
            Mutant("raw-kept-after-release", "rewards stay in the store",
                   _planted(settle.erase, lambda _: lambda batch, stop: bool(batch.change(erased=stop)))),
            Mutant("settled-by-arrival", "rewards that are in settle their rounds, although that is hidden",
                   _planted(settle.settle, _by_arrival)),
            Mutant("missing-left-out", "silence shows although a default was declared",
                   _planted(blocks._pages, _left_out)),
            Mutant("epoch-left-out", "names of blocks come again after a restore",
                   _planted(blocks.block_name, lambda _: lambda facts, epoch, block: f"{facts.spec.name}/{block}")),
        ),
    )  # fmt: skip
