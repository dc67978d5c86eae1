"""Which policies may serve people in a loop, and how a loop's public facts complete them."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from fairveil import registry
from fairveil.bandits.nash.closing import SHUT
from fairveil.bandits.protocol import Policy
from fairveil.configuration import describe, field_names
from fairveil.errors import FairveilError, SpecError
from fairveil.loop.config import MAX_ACTIONS, LoopSpec
from fairveil.loop.play import ByArrival
from fairveil.loop.problems import UnsoundPolicy
from fairveil.privacy.guarantee import Model
from fairveil.state import State

if TYPE_CHECKING:
    from fairveil.loop.facts import Facts

INSTEAD = {"nash": "private-nash", "meritocratic": "batched-private-fair-greedy", "exposure": "batched-priv-fairx"}


def policy_of(spec: LoopSpec, new: bool = False) -> Policy:
    """The policy of a loop, complete, or a refusal that names one to use instead.

    ``new``: of a new loop, which releases by arrival and takes outcomes to vary by half their range unless it says
    otherwise; what is stored without a word is of an earlier version, releases blocks and has the policy's default.
    """
    table = dict(spec.policy)
    target = registry.target_of("policy", table, "policy")
    names = field_names(target)
    if target.family == "meritocratic" and "scaling" in names:
        table = {**_meritocratic(spec), **table}
    if target.family == "exposure" and "dimension" in names:
        table = {**_exposure(spec), **table}
        if new and "reward_std" in names:
            table.setdefault("reward_std", (spec.reward.high - spec.reward.low) / 2)
    if "release" in names and new:
        table.setdefault("release", "arrivals")
    if "arms" in names and "arms" not in table and spec.actions is not None:
        table["arms"] = len(spec.actions)
    policy: Policy = registry.build("policy", table, "policy")
    _check(policy, spec)
    if new and spec.person.max_events is not None and policy.totals == "public":
        raise SpecError(
            "the candidates of an event over somebody's limit are in no total", path="policy.totals", given="public",
            allowed="noisy, as it is when left out, where person.max_events limits candidates",
        )  # fmt: skip
    return policy


def _meritocratic(spec: LoopSpec) -> dict[str, Any]:
    features, groups = _declared(spec)
    centre = [(f.low + f.high) / 2 if f.centre is None else f.centre for f in features]
    spread = [(f.high - f.low) / math.sqrt(12) if f.spread is None else f.spread for f in features]
    middle, half = (spec.reward.low + spec.reward.high) / 2, (spec.reward.high - spec.reward.low) / 2
    scaling = {
        "columns": list(range(len(features))),
        "centre": centre,
        "spread": spread,
        "norm": math.sqrt(len(features)),
        "reward_centre": middle,
        "reward_bound": half,
    }
    return {"groups": len(groups), "features": len(features), "scaling": scaling}


def _exposure(spec: LoopSpec) -> dict[str, Any]:
    features, _ = _declared(spec)
    largest = [max(abs(f.low), abs(f.high)) for f in features]
    bound = max(abs(spec.reward.low), abs(spec.reward.high))
    return {
        "agents": 1,
        "dimension": len(features),
        "context_bound": math.sqrt(sum(value * value for value in largest)) or 1.0,
        "reward_bound": bound or 1.0,
    }


def _declared(spec: LoopSpec) -> tuple[list[Any], list[str]]:
    if spec.features is None:
        raise SpecError("this policy reads features", path="features", allowed="[{name, low, high}, ...], all public")
    return list(spec.features), list(spec.groups or ["all"])


def _check(policy: Policy, spec: LoopSpec) -> None:
    if not spec.simulated:
        _check_sound(policy)
    elif policy.clock == "decided":
        raise _refused(policy, "it does not wait for late rewards")
    if policy.agents != 1:
        raise SpecError("a loop is one agent", path="policy.agents", given=policy.agents, allowed="1")
    arms = policy.arms
    if arms is not None and arms > MAX_ACTIONS:
        raise SpecError("there are too many arms", path="policy.arms", given=arms, allowed=f"at most {MAX_ACTIONS}")
    if spec.actions is not None and arms is not None and len(spec.actions) != arms:
        raise SpecError("there is not one name per arm", path="actions", given=len(spec.actions), allowed=f"{arms}")
    if spec.reports is not None and spec.reports.groups == "private" and arms is None and spec.person.max_events:
        raise SpecError(
            "a round over somebody's limit keeps its place, and its candidates with it", path="reports.groups",
            given="private", allowed="public where person.max_events limits candidates",
        )  # fmt: skip
    if spec.person.sticky and arms is None:
        raise SpecError("only arms can be kept by a person", path="person.sticky", given=True, allowed="false")
    most = spec.max_candidates if arms is None else 1
    if spec.person.candidates > most:
        words = "a person stands at more places than a request has"
        raise SpecError(words, path="person.candidates", given=spec.person.candidates, allowed=f"at most {most}")
    missing = missing_of(spec, policy)
    if missing == "private" and not policy.hides_arrivals:
        raise SpecError(
            "this policy releases counts without noise",
            path="reward.missing",
            given="private",
            allowed="default or public",
            fix='use missing = "default", or arrivals = "private" in a policy that has it',
        )
    if policy.local and missing != "public":
        raise SpecError(
            "a local policy sees who sends a report",
            path="reward.missing",
            given=missing,
            allowed="public",
            fix="the report itself is protected on the person's side",
        )


def check_kin(facts: Facts, other: Facts, closed: list[str]) -> None:
    """Whether a new loop can read what another one published: the same policy and ranges, other arms at most."""
    differs = [
        path
        for path, mine, theirs in (
            ("policy", _but_arms(facts.policy), _but_arms(other.policy)),
            ("reward.low", facts.spec.reward.low, other.spec.reward.low),
            ("reward.high", facts.spec.reward.high, other.spec.reward.high),
            ("features", facts.spec.features, other.spec.features),
        )
        if mine != theirs
    ]
    if differs:
        raise SpecError(
            "the other loop cannot be read by this one", path=differs[0], given=other.spec.name,
            allowed="the same policy, reward range and features; arms may differ", fix="leave start_from out",
        )  # fmt: skip
    if again := sorted(set(facts.arm_names) & set(closed)):
        raise SpecError(
            "this arm was closed, for ever", path="actions", given=again[0], fix="give a new arm a name of its own"
        )


def closed_actions(facts: Facts, state: State) -> list[str]:
    """Ids of arms that were closed: they are never served again."""
    return [name for name, shut in zip(facts.arm_names, state.get(SHUT, ())) if shut]


def _but_arms(policy: Policy) -> dict[str, Any]:
    """A policy as its published numbers need it: how many arms there are matters to those that cannot close one."""
    return {key: value for key, value in describe(policy).items() if key != "arms" or not policy.closes_arms}


def missing_of(spec: LoopSpec, policy: Policy) -> str:
    """What becomes of a missing reward: as declared, else protected, except where a local policy sees arrivals."""
    return spec.reward.missing or ("public" if policy.local else "default")


def _check_sound(policy: Policy) -> None:
    guarantee = policy.guarantee()
    if guarantee is None:
        raise _refused(policy, "it protects nobody")
    if not guarantee.established:
        raise _refused(policy, "its guarantee is not established")
    if policy.local != (guarantee.model is Model.LOCAL):
        raise _refused(policy, "its class and its guarantee differ about who randomises")
    if policy.clock == "decided" or (policy.clock == "arrived" and not isinstance(policy, ByArrival)):
        raise _refused(policy, "it does not wait for late rewards")
    if policy.keeps_history or not policy.released:
        raise _refused(policy, "its decisions read raw history")
    if policy.uses_local:
        raise _refused(policy, "its decisions read raw rows")
    if policy.name not in SERVED:
        _check_contract(policy)


SERVED = ("private-nash", "adap-ucb", "local-nash", "batched-private-fair-greedy", "batched-priv-fairx")


def _check_contract(policy: Policy) -> None:
    """A plug-in keeps the laws of all policies, or is not served; looked at once in a process."""
    key = type(policy), json.dumps(describe(policy), sort_keys=True)
    if key in _kept:
        return
    try:
        check_policy = registry.get("laws", "policy")
    except registry.LeftOut as problem:
        raise _refused(policy, f"nobody can check it here, {problem.problem}") from problem
    try:
        check_policy(policy)
    except FairveilError as problem:
        raise _refused(policy, f"it breaks a law of policies: {problem.problem}") from problem
    _kept.add(key)


_kept: set[tuple[type, str]] = set()


def _refused(policy: Policy, reason: str) -> UnsoundPolicy:
    return UnsoundPolicy(
        f"this policy cannot serve people: {reason}",
        path="policy.name",
        given=policy.name,
        allowed=", ".join(SERVED),
        fix=f"use {INSTEAD.get(policy.family, 'private-nash')}",
    )
