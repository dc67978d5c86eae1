"""What anybody may know of a loop: configuration, published numbers, releases and the state of its ledger.

A `PublicView` is plain data without a way back to the store. Everything in it is public by declaration or made of
releases, so it may be shown for ever and costs nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from fairveil.bandits.nash.base import NashPolicy, unknown_arms
from fairveil.configuration import describe
from fairveil.errors import FairveilError
from fairveil.loop.batch import Status
from fairveil.loop.clock import in_words
from fairveil.loop.facts import Facts
from fairveil.loop.play import ArmsPlay
from fairveil.loop.spelled import spec_table
from fairveil.privacy.charges import DELTA_UNITS, UNITS, Currency
from fairveil.privacy.conversions import gdp_epsilon, zcdp_epsilon
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.ledger import Ledger
from fairveil.state import State

if TYPE_CHECKING:
    from fairveil.loop.loop import Loop
    from fairveil.loop.store import Store


@dataclass(frozen=True)
class PublicView:
    """Public tables by loop. Handlers of public routes get this and nothing else."""

    loops: dict[str, dict[str, Any]] = field(default_factory=dict)
    budgets: dict[str, dict[str, Any]] = field(default_factory=dict)
    releases: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


def public_view(store: Store, name: str | None = None) -> PublicView:
    """The view of one loop, or of all without budgets and releases."""
    if name is None:
        return PublicView({loop.name: loop_table(loop) for loop in store.loops()})
    loop = store.loop(name)
    return PublicView({name: loop_table(loop)}, {name: budget_table(loop)}, {name: release_tables(loop)})


def loop_table(loop: Loop) -> dict[str, Any]:
    facts, status = loop.facts, loop.status()
    spec, policy = facts.spec, facts.policy
    declared = spec_table(spec, describe(policy))
    guarantee = policy.guarantee()
    return {
        "name": spec.name,
        "policy": declared["policy"],
        "guarantee": None if guarantee is None else guarantee.to_dict(),
        "person_guarantee": person_guarantee(facts, status.epoch),
        "mode": status.mode,
        "learning": learning(facts, status),
        "rounds": status.round,
        "settled": status.settled,
        "version": status.version,
        "epoch": status.epoch,
        "open_blocks": [{"first": block.first, "stop": block.stop} for block in policy.open_blocks(status.state)],
        "published": published(facts, status.state),
        "reward": {**declared["reward"], "missing": facts.missing},
        "explore": spec.explore,
        "actions": spec.actions,
        "groups": spec.groups,
        "features": declared["features"],
        "person": declared["person"],
        "max_candidates": spec.max_candidates,
        "retention": declared["retention"],
        "ledger": spec.budget.ledger or spec.name,
        "created": in_words(facts.created),
        "closed": None if status.closed is None else in_words(status.closed),
        "simulated": spec.simulated,
    }


def learning(facts: Facts, status: Status) -> dict[str, Any]:
    """Whether rounds are learned now, and why not."""
    reason = status.stopped
    if status.mode in ("shadow", "frozen"):
        reason = "mode"
    elif facts.horizon is not None and status.round >= facts.horizon:
        reason = "horizon"
    return {"state": "open" if reason is None else "frozen", "reason": reason}


def person_guarantee(facts: Facts, epoch: int) -> dict[str, Any] | None:
    """What the policy's promise is worth to one person: max_events units, once more for each restored copy."""
    guarantee, most = facts.policy.guarantee(), facts.spec.person.max_events
    if guarantee is None or most is None:
        return None
    try:
        made: Guarantee = guarantee.for_units(most * (epoch + 1))
    except FairveilError:
        return None
    table = made.to_dict()
    if epoch:
        table["notes"].append(
            f"the store was restored {epoch} time(s): a person may have been learned once more each time"
        )
    return table


def published(facts: Facts, state: State) -> dict[str, Any]:
    """Released numbers: arm means with intervals that include the noise, or the released arrays of the policy."""
    if isinstance(facts.play, ArmsPlay) and {"sums", "counts"} <= set(state):
        return {"arms": _arms(facts, state)}
    names = [name for name in facts.policy.released if name in state]
    return {name: _plain(state[name]) for name in names}


def _arms(facts: Facts, state: State) -> list[dict[str, Any]]:
    """Estimates of the policy itself (`fairveil.bandits.nash.intervals`), in the units of the loop's reward."""
    low, high = facts.spec.reward.low, facts.spec.reward.high
    names, played = facts.spec.actions, state.get("played", state["counts"])
    policy, nothing = facts.policy, unknown_arms(len(state["counts"]))
    found = policy.arm_intervals(state) if isinstance(policy, NashPolicy) else nothing
    rows = []
    for arm, numbers in enumerate(found):
        scaled = [None] * 3 if np.isnan(numbers[0]) else [float(low + (high - low) * value) for value in numbers]
        row: dict[str, Any] = {"action": arm, "action_id": None if names is None else names[arm]}
        rows.append({**row, **dict(zip(("mean", "low", "high"), scaled)), "rounds": int(played[arm])})
    return rows


def _plain(array: Any) -> Any:
    values = np.asarray(array)
    if values.dtype.kind == "f":
        values = np.where(np.isfinite(values), values.astype(object), np.array(None))  # JSON knows no other numbers
    return values.tolist()


def budget_table(loop: Loop) -> dict[str, Any]:
    """What the ledger of a loop holds, spent and left, in words and in numbers."""
    name, ledger = loop.facts.spec.budget.ledger or loop.name, loop.ledger
    table = ledger_table(name, ledger, loop.facts.policy.guarantee())
    return {**table, "state": learning(loop.facts, loop.status())["state"], "accounts": accounts(ledger)}


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


def release_tables(loop: Loop) -> list[dict[str, Any]]:
    with loop.store.reading() as tx:
        rows = tx.execute(
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
