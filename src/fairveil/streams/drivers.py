"""A stream on disk, as laws and mutants: charged, reserved, drawn, stored, and only then shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from fairveil.errors import LedgerError, PrivacyError
from fairveil.laws import must
from fairveil.privacy.audit.drivers import Driver
from fairveil.privacy.audit.mutants import Mutant, function, method
from fairveil.privacy.charges import Charge
from fairveil.privacy.ledger import Ledger
from fairveil.privacy.ledger.chain import RESERVE
from fairveil.privacy.noise import Noise, SeededNoise
from fairveil.registry import register
from fairveil.streams import journal as module
from fairveil.streams.columns import Columns
from fairveil.streams.journal import Journal
from fairveil.streams.limits import exact_limit
from fairveil.streams.protocol import LOST, Track

Method = Callable[..., Any]
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


def charged_before_drawn(folder: Path) -> None:
    """When noise meets values, whoever reads the ledger sees the stream paid for and its steps reserved."""
    seen: list[bool] = []

    def change(original: Method) -> Method:
        def watched(self: Columns, states: Any, values: Any, noise: Noise) -> list[Track]:
            with Ledger.open(folder / "ledger.db", simulated=True) as witness:
                names = [str(entry["name"]) for entry in witness.entries() if entry["kind"] == RESERVE]
                seen.append(any("/steps/" in name for name in names) and witness.spent.units > 0)
            drawn: list[Track] = original(self, states, values, noise)
            return drawn

        return watched

    with stream(folder) as journal, method(Columns, "advance", change):
        journal.release(VALUES)
    must(seen and all(seen), "noise is drawn before its charge is on disk")


def stored_before_shown(folder: Path) -> None:
    """What is shown is in the ledger, and a stream that is opened again shows it again and draws nothing."""
    with stream(folder) as journal:
        [shown] = journal.release(VALUES)
    with stream(folder, seed=2) as again:
        must(again.step == len(VALUES), "a value is shown that is not stored")
        must(np.array_equal(again.tracks[0][0].units, shown.units), "opened again, a stream shows another value")
        [later] = again.release(VALUES)
    must(int(later.step[0]) == len(VALUES), "a step is released twice")


def lost_stays_lost(folder: Path) -> None:
    """Steps that were reserved and never stored count as used and are never drawn."""

    def dies(self: Columns, states: Any, values: Any, noise: Noise) -> list[Track]:
        raise ZeroDivisionError

    with stream(folder) as journal, method(Columns, "advance", lambda _: dies), suppress(ZeroDivisionError):
        journal.release(VALUES)
    with stream(folder) as again:
        must(again.step == len(VALUES), "lost steps are forgotten")
        must((again.blocks[0].status == LOST).all(), "lost steps are shown")


def bound_to_its_options(folder: Path) -> None:
    """Other options on an old ledger are another stream, and a second process is kept out."""
    with stream(folder) as journal:
        journal.release(VALUES)
        try:
            second = Journal(journal.columns, journal.ledger, noise=SeededNoise(1))
        except LedgerError:
            pass
        else:
            second.close()
            must(False, "two processes release one stream")
    with Ledger.open(folder / "ledger.db", simulated=True) as ledger:
        try:
            Journal(Columns.build({**PLAIN, "interval": 0.5}, ["n"]), ledger, noise=SeededNoise(1)).close()
        except LedgerError:
            return
    must(False, "a stream goes on with other options")


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


def _drawn_first(original: Method) -> Method:
    def broken(self: Ledger, block: str, draw: Method, **more: Any) -> Any:
        if self.status(block) != "unknown":
            return original(self, block, draw, **more)
        value = draw(more["noise"])
        return original(self, block, lambda noise: value, **more)

    return broken


def _never_stored(original: Method) -> Method:
    def broken(self: Ledger, block: str, draw: Method, **more: Any) -> Any:
        return draw(more["noise"]) if "/steps/" in block else original(self, block, draw, **more)

    return broken


def _lost_forgotten(original: Method) -> Method:
    return lambda self: (block for block in original(self) if not (block.status == LOST).all())


def _plant(owner: type, name: str, change: Callable[[Method], Method]) -> Callable[[Any], AbstractContextManager[None]]:
    return lambda _: method(owner, name, change)


@register("driver", "journal")
def journal_driver() -> Driver:
    """A stream under a ledger: `fairveil.streams.journal`, behind `fairveil release`."""
    nothing: Callable[[Method], Method] = lambda _: lambda *given, **named: None  # noqa: E731
    return Driver(
        (charged_before_drawn, stored_before_shown, lost_stays_lost, bound_to_its_options, starts_are_counted),
        (
            Mutant("charge-left-out", "the stream is not charged",
                   _plant(Ledger, "spend", lambda _: lambda self, *facts, **named: Charge())),
            Mutant("charge-after-draw", "drawn first, reserved later", _plant(Ledger, "release", _drawn_first)),
            Mutant("shown-before-stored", "shown and never stored", _plant(Ledger, "release", _never_stored)),
            Mutant("lost-drawn-again", "lost steps are released again", _plant(Journal, "_read", _lost_forgotten)),
            Mutant("options-unchecked", "an old stream with other options", _plant(Journal, "_compare", nothing)),
            Mutant("lock-left-out", "two processes release one stream",
                   lambda _: function(module._hold, lambda *given: None)),
            Mutant("starts-uncounted", "a new offset for every start", _plant(Journal, "_take_start", nothing)),
        ),
    )  # fmt: skip
