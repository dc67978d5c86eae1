"""A private report of a loop as an adapter; its own law: it is charged for itself, beside what learning has cost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fairveil.errors import PrivacyError
from fairveil.ledger import Ledger, OneEvent
from fairveil.ledger.draws import Payment
from fairveil.loop.asked import mechanism
from fairveil.loop.clock import ManualClock
from fairveil.loop.config import Reward
from fairveil.loop.loop import Loop
from fairveil.loop.problems import Overlap
from fairveil.loop.store import Store
from fairveil.privacy.events import PureEvent
from fairveil.privacy.vectors import NoisyVector, Price
from fairveil.proof.adapters import SAID_LOST, Adapter, laws_of
from fairveil.proof.adapters.loop import POLICY, ROUNDS, WAIT, Killed
from fairveil.proof.engine.adapter import Checks, adapter
from fairveil.proof.laws import must
from fairveil.proof.mutants import Method, Mutant, in_method, replaced
from fairveil.proof.mutants.served import mutants_of_the_path
from fairveil.storage import faults

GROUPS = ("a", "b")
PRICE = Price(epsilon=0.5)


class Reported:
    """A loop that is reported on. The first one dies with a value in its ledger that its store does not have."""

    def __init__(self, loop: Loop, dies: bool) -> None:
        self.loop, self.ledger, self.dies = loop, loop.ledger, dies

    def release(self, stop: int = ROUNDS) -> Any:
        def die(point: str) -> None:
            if self.dies and point == "report-drawn":
                raise Killed

        made = None
        with replaced(faults, "hook", die), suppress(Killed):
            made = self.loop.release("fairness", first=0, stop=stop, epsilon=PRICE.epsilon)
        if made is not None and made["value"].get("status") == SAID_LOST:
            return SAID_LOST
        return self.ledger.value(f"trial/0/report-fairness-0-{stop}")["sums"].tobytes()


@contextmanager
def reported(folder: Path, number: int) -> Iterator[Reported]:
    clock = ManualClock()
    with Store.open(f"sqlite:///{folder}/store/store.db", clock=clock, key=bytes(32)) as store:
        if number == 0:
            reward = Reward(0, 1, wait=f"{WAIT}s", missing="default")
            loop = store.create("trial", policy=POLICY, reward=reward, groups=list(GROUPS), reports={"spare": 2.0})
            for index in range(ROUNDS):
                loop.decide(f"e-{index}", group=GROUPS[index % 2])
                loop.reward(f"e-{index}", 1.0)
            clock.advance(WAIT + 1)
            store.tick()
        yield Reported(store.loop("trial"), dies=number == 0)


def another_range(folder: Path) -> None:
    with reported(folder, 1) as other:
        try:
            other.release(ROUNDS - 1)
        except Overlap as refused:
            raise PrivacyError(str(refused)) from refused


def charged_for_itself(folder: Path) -> None:
    """A report costs what its mechanism says, beside what learning has cost."""
    with reported(folder, 0) as holder:
        before, report = holder.ledger.spent, mechanism(holder.loop.facts, "fairness", PRICE, 0.95)
        holder.release()
        asked = holder.ledger.limit.charge(report.event())
        must(holder.ledger.spent == before + asked, "a report does not cost what its mechanism says")


def payer(ledger: Ledger) -> OneEvent:
    return OneEvent(ledger, PureEvent(0.5))


def _by_learning(original: Method) -> Method:
    return lambda self, resume: Payment(account="trial", resume=resume)


UNCOUNTED = "covers_so_many"
"""The law of accounts: a report by hand has none, and the ledger of its loop holds the account of learning."""


@adapter("report")
def report_checks() -> Checks:
    """A report that is asked for by hand: `fairveil.loop.reports`."""
    served = Adapter(
        reported,
        (NoisyVector, "release"),
        payer,
        lambda name, value: "/report-" not in name or set(value) == {"range", "sums", "public"},
        (another_range,),
    )
    laws = tuple(law for law in laws_of(served) if law.__name__ != UNCOUNTED)
    paid_by_learning = Mutant(
        "paid-by-learning", "a report is charged to the account of learning",
        in_method(OneEvent, "payment", _by_learning), breaks=charged_for_itself.__name__,
    )  # fmt: skip
    without = {"count-left-out": "a report is charged for itself and has no account"}
    return Checks((*laws, charged_for_itself), (*mutants_of_the_path(without), paid_by_learning))
