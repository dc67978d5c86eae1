"""What a new loop pays from: the limit of its own ledger, or the room of a shared one; and what a ledger holds."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fairveil.errors import BudgetError, LedgerTampered
from fairveil.ledger import Ledger, Limit
from fairveil.loop.config import LoopSpec
from fairveil.loop.problems import NameTaken
from fairveil.loop.storage import Transaction, saving
from fairveil.privacy.charges import DELTA_UNITS, UNITS, Charge, Currency, exactly
from fairveil.privacy.conversions import gdp_epsilon, zcdp_epsilon
from fairveil.privacy.events import Event, NothingEvent
from fairveil.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    from fairveil.loop.loop import Loop


def limit_of(spec: LoopSpec, event: Any, scheduled: list[Event]) -> Limit | None:
    """The limit of the ledger that is to be made, None when it must exist already.

    A ledger of the loop's own covers its policy and its scheduled reports exactly, and ``reports.spare``.
    """
    budget = spec.budget
    if budget.epsilon is not None:
        return Limit.pure(budget.epsilon) if budget.delta is None else Limit.approximate(budget.epsilon, budget.delta)
    if budget.ledger is not None:
        return None
    if isinstance(event, NothingEvent):
        return Limit.pure(1e-6)
    limit = Limit.covering(event, *scheduled)
    spare = 0.0 if spec.reports is None else spec.reports.spare
    units = limit.units + math.floor(exactly(spare) * UNITS[limit.currency])
    promised = units / UNITS[limit.currency] if limit.epsilon is not None else None
    return replace(limit, units=units, epsilon=promised)


def budget_words(ledger: Ledger) -> dict[str, str]:
    """Limit, spent and left in words, as a list of loops shows them."""
    now = ledger.known.filter
    words, whole = now.limit.words, now.limit.total
    return {
        "definition": now.limit.currency.value,
        **{"limit": words(whole), "spent": words(now.spent), "remaining": words(now.remaining)},
    }


def write_budget(tx: Transaction, name: str, ledger: Ledger) -> None:
    """Put what a ledger holds beside the loops, for lists; the ledger itself is what counts."""
    tx.execute(
        saving("budgets", "ledger", "ledger, sequence, words") + " WHERE excluded.sequence >= budgets.sequence",
        (name, ledger.seen, json.dumps(budget_words(ledger))),
    )


def note_budget(loop: Loop) -> None:
    """Write it where it differs from what is there."""
    found = loop.store.read("SELECT words FROM budgets WHERE ledger = ?", (loop.ledger_name,))
    if not found or json.loads(found[0][0]) != budget_words(loop.ledger):
        with loop.store.writing() as tx:
            write_budget(tx, loop.ledger_name, loop.ledger)


def check_newest(tx: Transaction, name: str, ledger: Ledger) -> None:
    """A ledger is at least as long as this store has seen it, whichever loop has charged it."""
    found = tx.execute("SELECT sequence FROM budgets WHERE ledger = ?", (name,))
    if found and ledger.sequence < found[0][0]:
        raise LedgerTampered(
            "the ledger is older than this store has seen it", path=str(ledger.place),
            given=f"entry {ledger.sequence}", allowed=f"at least entry {found[0][0]}",
            fix="restore the newest ledger; until then nothing is charged to it",
        )  # fmt: skip


def check_accounts(ledger: Ledger, holders: dict[str, str]) -> None:
    """No loop rides on what another one has paid, and none on its own name in a life that its store has forgotten.

    A store that was put back to before a loop was made does not know it, and its ledger does: made again, the loop
    would take what is released there for its own, and whoever stood in it could be in a release once more.
    """
    for name, holder in holders.items():
        known = ledger.holder_of(name)
        if known not in (None, holder):
            raise NameTaken(
                "this ledger has an account of this name for another loop", path="name", given=name,
                fix="another name, or another ledger",
            )  # fmt: skip
        blocks = ledger.entries() if known is not None else ()
        if any(entry["kind"] == "reserve" and entry["name"].startswith(f"{name}/") for entry in blocks):
            raise NameTaken(
                "this ledger has releases of a loop of this name, which this store does not know: it was put back",
                path="name", given=name, fix="another name; what the ledger has released stands",
            )  # fmt: skip


def check_room(ledger: Ledger, events: list[Event]) -> None:
    """A shared ledger pays for learning and all scheduled reports, or for nothing."""
    needed = [ledger.limit.charge(event) for event in events if not isinstance(event, NothingEvent)]
    total = sum((one.units for one in needed), 0), sum((one.delta_units for one in needed), 0)
    if len(needed) > 1 and not Charge(*total).within(ledger.remaining):
        raise BudgetError(
            "the ledger cannot pay for learning and reports", path="budget",
            given=ledger.limit.words(Charge(*total)), allowed=ledger.limit.words(ledger.remaining),
            fix="a larger limit, or a smaller budget for reports",
        )  # fmt: skip


# What a ledger holds --------------------------------------------------------------------------------------------------


def ledger_table(name: str, ledger: Ledger, guarantee: Guarantee | None) -> dict[str, Any]:
    now = ledger.filter
    words = now.limit.words
    amount = now.spent.units / UNITS[now.limit.currency]
    delta = now.spent.delta_units / DELTA_UNITS
    target = guarantee.delta if guarantee is not None and guarantee.delta else 1e-6
    if now.limit.currency is Currency.EPSILON:
        epsilon = amount
    else:
        convert = zcdp_epsilon if now.limit.currency is Currency.ZCDP else (lambda a, d: gdp_epsilon(a**0.5, d))
        rest = max(target - delta, target / 2)
        epsilon, delta = (convert(amount, rest) if amount > 0 else 0.0), max(target, delta)
    return {
        "ledger": name,
        "definition": now.limit.currency.value,
        "unit": "" if guarantee is None else guarantee.unit,
        "limit": words(now.limit.total),
        "spent": words(now.spent),
        "reserved": words(now.reserved),
        "remaining": words(now.remaining),
        "epsilon": epsilon,
        "delta": delta,
        "simulated": ledger.simulated,
        "upper_bound": "upper bound by this ledger's currency",
        "words": f"{words(now.spent)} of {words(now.limit.total)} is spent; {words(now.remaining)} is left",
    }


def accounts(ledger: Ledger) -> list[dict[str, Any]]:
    """What was paid for in advance."""
    limit = ledger.limit
    return [
        {"name": entry["name"], "time": entry["time"], "charge": limit.words(type(limit.total)(*entry["charge"]))}
        for entry in ledger.entries()
        if entry["kind"] == "account"
    ]
