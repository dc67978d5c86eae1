"""What a loop would cost and be worth, before it exists: nothing is charged and nothing is made."""

from __future__ import annotations

from typing import Any

from fairveil.bandits.protocol import Policy
from fairveil.loop.accept import missing_of, policy_of
from fairveil.loop.clock import seconds_of
from fairveil.loop.config import LoopSpec, read_spec
from fairveil.loop.facts import Facts
from fairveil.loop.public import person_guarantee
from fairveil.privacy.events import NothingEvent
from fairveil.privacy.limits import Limit

SHOWN = 12


def quote(table: dict[str, Any]) -> dict[str, Any]:
    """Cost, guarantees, noise, when releases come, and what to think about."""
    spec = read_spec(table)
    policy = policy_of(spec)
    facts = Facts(0, spec, policy, 0)
    event, guarantee = policy.event(), policy.guarantee()
    free = isinstance(event, NothingEvent)
    limit = None if free else Limit.covering(event)
    noise, useful = _noise(policy)
    return {
        "cost": "nothing: the person's own report is protected" if limit is None else limit.words(limit.total),
        "guarantee": None if guarantee is None else guarantee.to_dict(),
        "person_guarantee": person_guarantee(facts, 0),
        "noise": noise,
        "releases_at": _releases_at(policy),
        "rounds_to_useful": useful,
        "warnings": _warnings(spec, policy),
    }


def _noise(policy: Policy) -> tuple[dict[str, Any], int | None]:
    """The noise of what is released first, and the rounds until it is below the sampling error, in every arm."""
    found = policy.noises()
    if not found:
        return {}, None
    one = found[0]
    rounds = None if one.rounds is None else one.rounds * int(getattr(policy, "arms", 1))
    return {"on": one.on, "law": one.law, "deviation": one.std}, rounds


def _releases_at(policy: Any) -> list[int]:
    """The rounds at which releases fall, where the schedule is fixed in advance."""
    length = getattr(policy, "batch_length", None)
    if callable(length):
        made, at = [], 0
        for number in range(SHOWN):
            at += int(length(number))
            made.append(at)
        return made
    times = getattr(policy, "times", None)
    return [int(time) for time in list(times)[:SHOWN]] if times is not None else []


def _warnings(spec: LoopSpec, policy: Any) -> list[str]:
    found = []
    guarantee = policy.guarantee()
    if guarantee is not None and guarantee.delta and guarantee.delta > 1e-4:
        found.append(
            f"delta {guarantee.delta:g} is above one over ten thousand people: keep it below one over the people"
        )
    if not policy.horizon_free:
        found.append(f"learning ends after {policy.horizon} rounds; decisions go on")
    if missing_of(spec, policy) == "public" and not policy.local:
        found.append("whether and when a reward came is public")
    if spec.person.max_events is None:
        found.append("events per person are not limited: the guarantee is for one event, not for one person")
    raw = spec.retention.raw
    if raw is not None and seconds_of(raw, "retention.raw") < 2 * spec.reward.seconds:
        found.append("raw rows may be erased before their block is released; they then count as missing")
    if spec.simulated:
        found.append("simulated: seeded noise protects nobody")
    return found
