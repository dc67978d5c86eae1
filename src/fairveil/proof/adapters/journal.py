"""A stream on disk as an adapter; its own laws: steps follow each other, options are fixed, starts are counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from fairveil.errors import PrivacyError
from fairveil.ledger import Account, Ledger, RunCost
from fairveil.privacy.noise import SeededNoise
from fairveil.proof.adapters import SAID_LOST, Adapter, checks_of
from fairveil.proof.engine.adapter import Checks, adapter
from fairveil.proof.laws import must
from fairveil.proof.mutants import Method, Mutant, in_function, in_method
from fairveil.streams.columns import Columns, exact_limit
from fairveil.streams.protocol import LOST
from fairveil.streams.serving import journal as module
from fairveil.streams.serving.journal import Journal

PLAIN: dict[str, Any] = {"name": "baseline-gaussian", "epsilon": 1.0, "delta": 1e-6, "horizon": 16}
OFFSET = {**PLAIN, "horizon": 400, "neighbours": "add-remove"}
VALUES = np.array([[3.0], [4.0]])


@contextmanager
def stream(folder: Path, seed: int = 1, **change: Any) -> Iterator[Journal]:
    """A journal over the ledger of a folder, opened as after a restart where there is one."""
    columns = Columns.build({**PLAIN, **change}, ["n"])
    with Ledger.create(folder / "ledger.db", limit=exact_limit(columns), simulated=True) as ledger:
        journal = Journal(columns, ledger, noise=SeededNoise(seed))
        try:
            yield journal
        finally:
            journal.close()


class ShownSteps:
    """A stream whose first steps are shown, from its ledger where they are there."""

    def __init__(self, journal: Journal) -> None:
        self.journal, self.ledger = journal, journal.ledger

    def release(self) -> Any:
        if self.journal.blocks:
            lost = (self.journal.blocks[0].status == LOST).all()
            return SAID_LOST if lost else self.journal.tracks[0][0].units.tobytes()
        return self.journal.release(VALUES)[0].units.tobytes()


@contextmanager
def shown(folder: Path, number: int) -> Iterator[ShownSteps]:
    with stream(folder, seed=1 + number) as journal:
        yield ShownSteps(journal)


def steps_follow_each_other(folder: Path) -> None:
    """A stream that is opened again goes on behind what was shown, and behind what was lost."""
    with stream(folder) as journal:
        journal.release(VALUES)
    with stream(folder, seed=2) as again:
        must(again.step == len(VALUES), "a value is shown that is not stored")
        [later] = again.release(VALUES)
    must(int(later.step[0]) == len(VALUES), "a step is released twice")


def a_second_process(folder: Path) -> None:
    with stream(folder) as journal:
        Journal(journal.columns, journal.ledger, noise=SeededNoise(1)).close()


def other_options(folder: Path) -> None:
    with Ledger.open(folder / "ledger.db", simulated=True) as ledger:
        Journal(Columns.build({**PLAIN, "interval": 0.5}, ["n"]), ledger, noise=SeededNoise(1)).close()


def stored_value(name: str, value: Any) -> bool:
    """Steps are units and fates on the integer grid; beside them stand public keys and starts."""
    if "/steps/" in name:
        return value.dtype == np.int64 and value.shape == (2, 1, len(VALUES))
    return isinstance(value, str | int)


def starts_are_counted(folder: Path) -> None:
    """Offsets are paid for so many starts of the process: another one is refused."""
    for place in range(3):
        with stream(folder, **OFFSET, starts=2) as journal:
            must(journal.columns.has_starts, "this stream has no offset")
            try:
                journal.release(VALUES)
            except PrivacyError:
                must(place == 2, "a start that was paid for is refused")
                return
    must(False, "a start that nobody paid for draws a new offset")


def _lost_forgotten(original: Method) -> Method:
    return lambda self: (block for block in original(self) if not (block.status == LOST).all())


@adapter("journal")
def journal_checks() -> Checks:
    """A stream under a ledger: `fairveil.streams.serving.journal`, behind `fairveil release`."""
    nothing: Callable[[Method], Method] = lambda _: lambda *given, **named: None  # noqa: E731
    return checks_of(Adapter(
        shown,
        (Columns, "advance"),
        lambda ledger: Account(ledger, "stream", RunCost(Columns.build(PLAIN, ["n"]).event())),
        stored_value,
        (a_second_process, other_options),
        (steps_follow_each_other, starts_are_counted),
        (
            Mutant("lost-drawn-again", "lost steps are released again", in_method(Journal, "_read", _lost_forgotten)),
            Mutant("options-unchecked", "an old stream with other options", in_method(Journal, "_compare", nothing)),
            Mutant("lock-left-out", "two processes release one stream",
                   in_function(module._hold, lambda *given: None)),
            Mutant("starts-uncounted", "a new offset for every start", in_method(Journal, "_take_start", nothing)),
        ),
        harmless={"drawn-again-on-retry": "an opened stream replays what is stored and asks for no steps again"},
    ))  # fmt: skip
