"""What a loop would cost and promise, before it exists: nothing is charged and nothing is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairveil.bandits.protocol import Policy
from fairveil.bandits.quotes import spread_in_words
from fairveil.configuration import describe
from fairveil.errors import SpecError
from fairveil.loop.accept import missing_of, policy_of
from fairveil.loop.asked import check_declared, scheduled_events
from fairveil.loop.clock import seconds_of
from fairveil.loop.config import LoopSpec, new_spec
from fairveil.loop.facts import Facts
from fairveil.loop.lives import Lives, units_before
from fairveil.loop.paying import limit_of
from fairveil.loop.public import composed, person_guarantee, person_reason, total_guarantee
from fairveil.loop.waiting import TIME_TELLS, planned, read_plan
from fairveil.privacy.charges import FREE, Charge
from fairveil.privacy.events import NothingEvent
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.limits import Limit

if TYPE_CHECKING:
    from fairveil.loop.store import Store

SHOWN = 12
"""Releases of a fixed schedule that a quote names."""


def quote(table: dict[str, Any], store: Store | None = None) -> dict[str, Any]:
    """Cost, guarantees, noise, when releases come, and what to think about; with ``plan``, what waiting does to it.

    ``store``: where it would be made; one that starts from another loop is quoted nowhere else.
    """
    spec = new_spec({key: value for key, value in table.items() if key != "plan"})
    policy = policy_of(spec, new=True)
    facts = Facts(0, spec, policy, 0)
    event, guarantee = policy.event(), facts.guarantee
    check_declared(facts)
    noise, useful = _noise(policy)
    lives = Lives(before=_units_before(store, spec))
    total = _planned_total(facts, event)
    person = person_guarantee(facts, lives, total)
    return {
        **_costs(facts, event),
        "guarantee": None if guarantee is None else guarantee.to_dict(),
        "total_guarantee": total_guarantee(total, lives),
        "person_guarantee": person,
        "person_reason": person_reason(facts, lives, person),
        "noise": noise,
        "releases_at": policy.releases_at(SHOWN),
        "rounds_to_useful": useful,
        "waiting": planned(facts, read_plan(table.get("plan"))),
        "warnings": _warnings(spec, policy),
    }


def _units_before(store: Store | None, spec: LoopSpec) -> int | None:
    if spec.start_from is None:
        return 0
    if store is None:
        raise SpecError(
            "what a loop starts from is known where it is", path="start_from", fix="quote it at its service"
        )
    return units_before(store, spec)


def _costs(facts: Facts, event: Any) -> dict[str, Any]:
    """What is paid when the loop is made, for learning and for scheduled reports, and what its own ledger keeps."""
    scheduled = list(scheduled_events(facts).values())
    if isinstance(event, NothingEvent):
        return {"cost": "nothing: the person's own report is protected", "parts": None}
    limit = Limit.covering(event, *scheduled)
    words, paid = limit.words, [limit.charge(one) for one in (event, *scheduled)]
    own = limit_of(facts.spec, event, scheduled) if facts.spec.budget.ledger is None else None
    kept = Charge(0) if own is None else Charge(own.units - limit.units)
    parts = {"learning": words(paid[0]), "reports": words(sum(paid[1:], FREE)), "kept": words(kept)}
    return {"cost": words(sum(paid, FREE)), "parts": parts}


def _planned_total(facts: Facts, event: Any) -> Guarantee | None:
    """The promise for one event over learning and scheduled reports; None where learning is all."""
    scheduled = list(scheduled_events(facts).values())
    if facts.guarantee is None or not scheduled:
        return None
    limit = Limit.covering(event, *scheduled)
    return composed(facts.guarantee, limit.currency, [limit.charge(one) for one in (event, *scheduled)])


def _noise(policy: Policy) -> tuple[dict[str, Any], int | None]:
    """The noise of what is released first, and the rounds until it is below the sampling error, in every arm."""
    found = policy.noises()
    if not found:
        return {}, None
    one = found[0]
    rounds = None if one.rounds is None else one.rounds * (policy.arms or 1)
    return {"on": one.on, "law": one.law, "deviation": one.std}, rounds


STANDS_IN = (
    "a reward over its person's limit, or of somebody who keeps an arm or excludes one, is not read: what is published "
    "of its arm stands there and counts as an answer; with a tenth of such rewards 95 % intervals covered .99 and "
    "regret was as before, with three tenths .94 and up to 1.3 times (measured; no proof of intervals holds then)"
)


def _warnings(spec: LoopSpec, policy: Policy) -> list[str]:
    found = []
    half, std = (spec.reward.high - spec.reward.low) / 2, describe(policy).get("reward_std")
    if std is not None and std < half:
        found.append(f"{spread_in_words(std)}; {half:g}, half the range of an outcome, is enough for any")
    guarantee = policy.guarantee()
    if guarantee is not None and guarantee.delta and guarantee.delta > 1e-4:
        found.append(
            f"delta {guarantee.delta:g} is above one over ten thousand people: keep it below one over the people"
        )
    if not policy.horizon_free:
        found.append(f"learning ends after {policy.horizon} rounds; decisions go on")
    if missing_of(spec, policy) == "public" and not policy.local:
        found.append(TIME_TELLS)
    if policy.arms is not None and not policy.local and (spec.person.max_events is not None or spec.person.sticky):
        found.append(STANDS_IN)
    if spec.person.max_events is None:
        found.append("events per person are not limited: the guarantee is for one event, not for one person")
    raw = spec.retention.raw
    if raw is not None and seconds_of(raw, "retention.raw") < 2 * spec.reward.seconds:
        found.append("raw rows may be erased before their block is released; they then count as missing")
    if spec.simulated:
        found.append("simulated: seeded noise protects nobody")
    return found
