"""What anybody may know of a loop: configuration, published numbers, releases and the state of its ledger.

A `PublicView` is plain data without a way back to the store. Everything in it is public by declaration or made of
releases, so it may be shown for ever and costs nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fairveil.bandits.nash.base import NashPolicy, unknown_arms
from fairveil.bandits.protocol import HEADER
from fairveil.configuration import describe
from fairveil.errors import FairveilError
from fairveil.loop.accept import closed_actions, policy_of
from fairveil.loop.asked import reports_left
from fairveil.loop.audits import audit_tables
from fairveil.loop.blocks import block_name
from fairveil.loop.clock import in_words
from fairveil.loop.config import new_spec, read_spec, spec_table
from fairveil.loop.facts import Facts, Status
from fairveil.loop.guards import serving_table
from fairveil.loop.lives import Lives, lives_of, places_of_person, units_of_person
from fairveil.loop.pages import without_page
from fairveil.loop.paying import accounts, ledger_table
from fairveil.loop.places import Counters, counters, refused_reports
from fairveil.loop.play import ArmsPlay
from fairveil.loop.waiting import ends, lines, rounds_of_arms, waiting, warnings, who_answered
from fairveil.privacy.charges import DELTA_UNITS, UNITS, Charge, Currency
from fairveil.privacy.guarantee import Guarantee
from fairveil.state import State

if TYPE_CHECKING:
    from fairveil.loop.loop import Loop
    from fairveil.loop.store import Store


LOST_KEY = (
    "the key of ids was lost {} time(s): an event or a person of before may have been learned once more each time, and "
    "the numbers count that; the ledger was not charged for it"
)
UNLOOKED = (
    "made by release 0.1, which did not look whether the candidates of a request are one person: the numbers count all "
    "{} places of a request"
)


@dataclass(frozen=True)
class PublicView:
    """Public tables by loop. Handlers of public routes get this and nothing else."""

    loops: dict[str, dict[str, Any]] = field(default_factory=dict)
    budgets: dict[str, dict[str, Any]] = field(default_factory=dict)
    releases: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    audits: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    history: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    streams: dict[str, dict[str, Any]] | None = None
    """Private streams in the folder that was named at the start; None where none was."""


def public_view(store: Store, name: str) -> PublicView:
    """The view of one loop; `fairveil.loop.listing` has all of them, in pages."""
    loop = store.loop(name)
    tables = loop_table(loop), budget_table(loop), release_tables(loop), audit_tables(loop)
    return PublicView(*({name: table} for table in tables))  # type: ignore[arg-type]


def loop_table(loop: Loop) -> dict[str, Any]:
    facts, status = loop.facts, loop.status()
    lives = lives_of(loop)
    guarantee, total = event_guarantee(loop, lives), everything(loop)
    person = person_guarantee(facts, lives, total)
    return {
        "guarantee": None if guarantee is None else guarantee.to_dict(),
        "total_guarantee": total_guarantee(total, lives),
        "person_guarantee": person,
        "person_reason": person_reason(facts, lives, person),
        **stored_table(facts, status, beside(loop), places_table(loop), serving_table(loop)),
        "waiting": waiting(loop, status),
        "warnings": [*warnings(loop, status), *refused_reports(loop)],
    }


def beside(loop: Loop) -> int:
    """Decisions that are no rounds: by coin, or in a mode that does not learn; a public count."""
    return int(loop.store.read("SELECT beside FROM loops WHERE id = ?", (loop.facts.id,))[0][0])


def stored_table(
    facts: Facts, status: Status, beside: int, places: dict[str, Any] | None, serving: dict[str, Any] | None
) -> dict[str, Any]:
    """What the rows of a loop in the store say, without its ledger."""
    spec, policy = facts.spec, facts.policy
    declared = spec_table(spec, describe(policy))
    return {
        "name": spec.name,
        "policy": declared["policy"],
        "mode": status.mode,
        "learning": learning(facts, status),
        "decided": status.round - facts.first_round + beside,
        "rounds": status.round,
        "first_round": facts.first_round,
        "settled": status.settled,
        "version": status.version,
        "epoch": status.epoch,
        "open_blocks": [] if facts.by_seat else [ends(block) for block in policy.open_blocks(status.state)],
        "waiting": lines(facts, status),
        "published": published(facts, status.state, status.round),
        "reward": {**declared["reward"], "missing": facts.missing},
        "explore": spec.explore,
        "allocation": declared["allocation"],
        "serving": serving,
        "closed_actions": closed_actions(facts, status.state),
        "actions": spec.actions,
        "groups": spec.groups,
        "crossings": spec.crossings,
        "features": declared["features"],
        "person": declared["person"],
        "max_candidates": spec.max_candidates,
        "retention": declared["retention"],
        "ledger": spec.budget.ledger or spec.name,
        "reports": declared["reports"],
        "targets": [rule.name for rule in facts.rules],
        "places": places,
        "created": in_words(facts.created),
        "closed": None if status.closed is None else in_words(status.closed),
        "simulated": spec.simulated,
    }


def same_spec(facts: Facts, table: dict[str, Any]) -> bool:
    """Whether this description, defaults filled, is the one that a loop was made of."""
    new = not facts.spec.of_release_0_1
    spec = new_spec(table) if new else read_spec(table)
    pairs = (spec, policy_of(spec, new=new)), (facts.spec, facts.policy)
    asked, made = (json.dumps(spec_table(one, describe(policy)), sort_keys=True) for one, policy in pairs)
    return asked == made


def places_table(loop: Loop) -> dict[str, Any] | None:
    """Public counts of what can be reported; None where a loop declares no reports."""
    if loop.facts.spec.reports is None:
        return None
    with loop.store.reading() as tx:
        return counted(counters(tx, loop.facts.id))


def counted(now: Counters) -> dict[str, Any]:
    """What everybody may know; how many places are blank is not in it."""
    first, outside = max(now.first, now.erased), {"shadow": now.shadow}
    return {"decided": now.place, "settled": now.settled, "first": first, "outside": outside}


def learning(facts: Facts, status: Status) -> dict[str, Any]:
    """Whether rounds are learned now, and why not."""
    reason = status.stopped
    if status.mode in ("shadow", "frozen", "paused"):
        reason = "mode"
    elif facts.horizon is not None and status.round >= facts.horizon:
        reason = "horizon"
    return {"state": "open" if reason is None else "frozen", "reason": reason}


def event_guarantee(loop: Loop, lives: Lives) -> Guarantee | None:
    """The promise for one event over all lives of its loop (`fairveil.loop.lives`).

    Events that were released are known beside the ledger and not learned again. Each epoch that an operator accepted
    without that knowledge, and each new key, may have learned an event once more, and the numbers count it.
    """
    promise, notes = loop.facts.guarantee, list[str]()
    if promise is None:
        return None
    if lives.epoch and loop.pages is not None:
        notes.append(
            f"the store was put back {lives.epoch} time(s): an event that was released before is not learned again"
        )
    if lives.blind:
        notes.append(
            f"{lives.blind} time(s) an operator accepted that without the keys of released events: an event may have "
            "been learned once more each time, and the numbers count that"
        )
    if lives.keys:
        notes.append(LOST_KEY.format(lives.keys))
    if loop.facts.spec.reports is not None and (lives.epoch or lives.keys):
        notes.append("an event that is sent again takes another place in reports, one more unit of theirs each time")
    try:
        counted: Guarantee = promise.for_units(lives.blind + lives.keys + 1)
    except FairveilError:
        counted = replace(promise, established=False)
    return replace(counted, unit=promise.unit, notes=(*counted.notes, *notes))


def total_guarantee(total: Guarantee | None, lives: Lives) -> dict[str, Any] | None:
    """The promise for one event over all that is published, once more for each life; None where learning is all."""
    if total is None:
        return None
    try:
        counted: Guarantee = total.for_units(lives.epoch + lives.keys + 1)
    except FairveilError:
        counted = replace(total, established=False)
    return replace(counted, unit=total.unit).to_dict()


def person_guarantee(facts: Facts, lives: Lives, total: Guarantee | None = None) -> dict[str, Any] | None:
    """What the policy's promise is worth to one person, None where events per person are not limited.

    Its units: `fairveil.loop.lives.units_of_person`. ``total``: the promise for one event over learning, scheduled
    reports and every release by hand.
    """
    guarantee = facts.guarantee if total is None else total
    units = units_of_person(facts.spec, lives)
    if guarantee is None or units is None:
        return None
    try:
        made: Guarantee = guarantee.for_units(units)
    except FairveilError:
        return None
    table = made.to_dict()
    if lives.epoch:
        table["notes"].append(
            f"the store was restored {lives.epoch} time(s): a person may have been learned once more each time"
        )
    if lives.keys:
        table["notes"].append(LOST_KEY.format(lives.keys))
    if (places := places_of_person(facts.spec)) > facts.spec.person.candidates:
        table["notes"].append(UNLOOKED.format(places))
    if lives.before:
        table["notes"].append(
            f"it started from {facts.spec.start_from}: what a person had there is in what it publishes, and is counted"
        )
    return table


def person_reason(facts: Facts, lives: Lives, person: dict[str, Any] | None) -> str | None:
    """Why there is no promise for one person; None where there is one."""
    if person is not None:
        return None
    if facts.guarantee is None:
        return "the policy makes no promise"
    if facts.spec.person.max_events is None:
        return "events per person are not limited (person.max_events): the promise is for one event"
    if lives.before is None:
        return f"it started from {facts.spec.start_from}, where events per person are not limited"
    return "the promise for one event cannot be stretched over so many events of one person: its delta would reach one"


def everything(loop: Loop) -> Guarantee | None:
    """The promise for one event over learning, scheduled reports and releases by hand, in the ledger's currency.

    None where nothing but learning is ever charged: then the policy's own promise is the whole.
    """
    facts = loop.facts
    own = facts.guarantee
    if facts.spec.reports is None or own is None:
        return None
    ledger, limit = loop.ledger, loop.ledger.limit
    mine = [
        Charge(*entry["charge"])
        for entry in ledger.entries()
        if (
            entry["kind"] == "account"
            and (entry["name"] == loop.name or entry["name"].startswith(f"{loop.name}-reports-"))
        )
        or (entry["kind"] == "reserve" and entry["name"].startswith(f"{loop.name}/") and "charge" in entry)
    ]
    units = sum(charge.units for charge in mine)
    return None if len(mine) < 2 or units == 0 else composed(own, limit.currency, mine)


def composed(own: Guarantee, currency: Currency, mine: list[Charge]) -> Guarantee:
    """The promise for one event over all of these charges, each of which it may be in."""
    units = sum(charge.units for charge in mine)
    notes = (*own.notes, "learning, scheduled reports and every release by hand together, in the ledger's currency")
    about = {"model": own.model, "unit": own.unit, "neighbours": own.neighbours, "notes": notes}
    amount, delta = units / UNITS[currency], own.delta or 1e-6
    if currency is Currency.EPSILON:
        added = sum(charge.delta_units for charge in mine) / DELTA_UNITS
        return Guarantee.approximate(amount, added, **about) if added else Guarantee.pure(amount, **about)
    if currency is Currency.ZCDP:
        return Guarantee.zcdp(amount, delta, **about)
    return Guarantee.gaussian(amount**0.5, delta, **about)


def published(facts: Facts, state: State, round: int | None = None) -> dict[str, Any]:
    """Released numbers: arm means with intervals that include the noise, or the released arrays of the policy."""
    if isinstance(facts.play, ArmsPlay) and {"sums", "counts"} <= set(state):
        return {"arms": _arms(facts, state, round)}
    names = [name for name in facts.policy.released if name in state]
    return {name: _plain(state[name]) for name in names}


def _arms(facts: Facts, state: State, round: int | None) -> list[dict[str, Any]]:
    """Estimates of the policy itself (`fairveil.bandits.nash.optimism`), in the units of the loop's reward."""
    low, high = facts.spec.reward.low, facts.spec.reward.high
    policy, nothing = facts.policy, unknown_arms(len(state["counts"]))
    released = policy.rounds_by_arm(state) if isinstance(policy, NashPolicy) else None
    names, played = facts.spec.actions, state.get("played", state["counts"]) if released is None else released
    found = policy.arm_intervals(state) if isinstance(policy, NashPolicy) else nothing
    learned, decided = rounds_of_arms(facts, state, round)
    who = policy.answers(state) if isinstance(policy, NashPolicy) and facts.missing == "public" else None
    rows = []
    for arm, numbers in enumerate(found):
        scaled = _scaled(facts, numbers) or (None, None, None)
        row: dict[str, Any] = {"action": arm, "action_id": None if names is None else names[arm]}
        counted = {"rounds": int(played[arm]), "decided": int(decided[arm]), "learned": int(learned[arm])}
        rows.append(
            {**row, **dict(zip(("mean", "low", "high"), scaled)), **counted, **who_answered(who, arm, low, high)}
        )
    return rows


def _scaled(facts: Facts, numbers: Any) -> list[float] | None:
    """Mean, low and high of an arm in the units of the loop's reward; None while nothing is known of it."""
    low, high = facts.spec.reward.low, facts.spec.reward.high
    return None if np.isnan(numbers[0]) else [float(low + (high - low) * value) for value in numbers]


def _plain(array: Any) -> Any:
    values = np.asarray(array)
    if values.dtype.kind == "f":
        values = np.where(np.isfinite(values), values.astype(object), np.array(None))  # JSON knows no other numbers
    return values.tolist()


def budget_table(loop: Loop) -> dict[str, Any]:
    """What the ledger of a loop holds, spent and left, in words and in numbers."""
    name, ledger = loop.facts.spec.budget.ledger or loop.name, loop.ledger
    table = ledger_table(name, ledger, loop.facts.guarantee)
    if loop.facts.spec.budget.ledger is None:
        left = "nothing" if ledger.remaining.units == 0 else table["remaining"]
        table["words"] = f"learning is paid in full; {left} is kept for reports"
    state = learning(loop.facts, loop.status())["state"]
    return {**table, "left": reports_left(loop), "state": state, "accounts": accounts(ledger)}


def release_tables(loop: Loop) -> list[dict[str, Any]]:
    rows = loop.store.read(
        "SELECT id, kind, first, stop, settings, block, value, created FROM releases WHERE loop = ? "
        "ORDER BY created, id",
        (loop.facts.id,),
    )
    return [
        {
            "id": id,
            "kind": kind,
            "first": first,
            "stop": stop,
            "settings": json.loads(settings),
            "block": block,
            "value": json.loads(value),
            "created": in_words(created),
        }
        for id, kind, first, stop, settings, block, value, created in rows
    ]


# How published numbers came about -------------------------------------------------------------------------------------


POINTS = 60
"""Releases that a series shows at most: spread over all, the first and the last among them."""


def history(loop: Loop) -> list[dict[str, Any]]:
    """Of releases in their order: after how many rounds, when, what was then known of every arm, and its share of
    the rounds in them.

    Empty for policies without arms, and for a loop that started from another one: its releases alone say too little.
    """
    policy, spec = loop.facts.policy, loop.facts.spec
    if not isinstance(policy, NashPolicy) or spec.start_from is not None:
        return []
    version = loop.status().version
    if loop.history is not None and loop.history[0] == version:
        return loop.history[1]
    query = (
        "SELECT epoch, name, released_at FROM blocks WHERE loop = ? AND status = 'released' ORDER BY released_at, first"
    )
    rows = loop.store.read(query, (loop.facts.id,))
    values = [without_page(loop.ledger.value(block_name(loop.facts, epoch, name))) for epoch, name, _ in rows]
    releases = [(name, value) for (_, name, _), value in zip(rows, values, strict=True)]
    made: list[dict[str, Any]] = []
    for place in sorted({round(one) for one in np.linspace(0, len(rows) - 1, POINTS)} if rows else ()):
        then = policy.restored(releases[: place + 1])
        found, given = policy.arm_intervals(then), policy.rounds_by_arm(then)
        arms = [_scaled(loop.facts, numbers) for numbers in found]
        rounds = max(int(value[HEADER][-1]) for value in values[: place + 1])
        shares = None if given is None or not given.sum() else (given / given.sum()).tolist()
        made.append({"rounds": rounds, "time": in_words(rows[place][2]), "arms": arms, "shares": shares})
    loop.history = version, made
    return made
