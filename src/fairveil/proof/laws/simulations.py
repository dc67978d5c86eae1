"""The law of compiled simulators: what a run simulates is what is served.

A simulator draws its noise by public numbers that stand beside the served methods (``Shape.success``, ``Habits``, the
chances of a bit): where one of them is wrong every simulated regret is, and no served value shows it. Simulator and
steps take the same streams, so in a world without chance of its own they must choose the same arms and publish the same
numbers. Bits of devices are drawn with the world's coins: their frequency is compared with the chance that `report`
has, within an exact binomial band of one in a million.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from fairveil import registry
from fairveil.arrays import Ints
from fairveil.bandits.environments.base import Environment
from fairveil.bandits.nash.base import NashPolicy
from fairveil.bandits.protocol import Policy
from fairveil.bandits.random import UniformSimulator
from fairveil.bandits.simulate import Case, Simulator, Streams, start_run
from fairveil.configuration import describe
from fairveil.errors import SpecError
from fairveil.proof.laws import must
from fairveil.proof.laws.local_reports import chance_of_one, sends_bits, told
from fairveil.proof.laws.propensities import COINS, inside
from fairveil.proof.laws.runs import NOISY
from fairveil.state import State

ROUNDS = 200
FORMS: tuple[dict[str, Any], ...] = (
    {}, {"arrivals": "private"}, {"release": "blocks"}, {"phase1": "threshold", "tau": 15.0},
)  # fmt: skip
"""Configurations whose simulators draw differently."""


def simulations_are_served(policy: Policy, world: Environment) -> None:
    """A compiled run chooses and publishes what its steps do with the same streams; bits are as likely as served."""
    for made in _forms(policy):
        if isinstance(made, NashPolicy) and sends_bits(made):
            for reward in (0.0, 1.0):
                _bits(made, _certain(made, world, (reward,)), reward)
        else:
            _equal(made, _certain(made, world, (0.0, 1.0)))


def _forms(policy: Policy) -> Iterator[Policy]:
    table = describe(policy)
    for form in FORMS:
        if not set(form) <= set(table) or any(table[name] == value for name, value in form.items()):
            continue
        try:
            yield registry.build("policy", {**table, **form}, "policy") if form else policy
        except SpecError:  # this policy has no such form
            continue


def _certain(policy: Policy, world: Environment, rewards: tuple[float, ...]) -> Environment:
    """Arms that always pay what they pay; candidates come from one stream in both ways of playing."""
    if policy.arms is None or policy.family not in ("", "nash"):
        return world
    means = [rewards[arm % len(rewards)] for arm in range(policy.arms)]
    made: Environment = registry.build("environment", {"name": "bernoulli", "means": means}, "environment")
    return made


def _equal(policy: Policy, world: Environment) -> None:
    case = Case.of(policy, world, min(ROUNDS, policy.horizon or ROUNDS))
    fast, slow = start_run(case, Streams.of(5, 0)), case.family.stepwise(case, Streams.of(5, 0))
    if not fast.compiled or isinstance(fast, UniformSimulator):
        return
    arms, same = _chosen(fast, case.rounds), _chosen(slow, case.rounds)
    drawn, served = _numbers(fast.published()), _numbers(slow.published())
    fix = "give the simulator the noise and the blocks that draw, report and release have"
    for name in set(drawn) & set(served):
        must(np.array_equal(drawn[name], served[name]), f"a simulated run publishes other {name} than its steps", fix)
    must(np.array_equal(arms, same), "a simulated run chooses other arms than its steps", fix)


def _chosen(played: Simulator[Any], rounds: int) -> Ints:
    """The arms of a run: their pulls, or who was chosen in each round."""
    seen = played.advance(rounds)
    found: Ints = seen.slots if hasattr(seen, "slots") else seen.pulls
    return found


def _numbers(state: State | None) -> State:
    """What a run has published of its noisy sums."""
    return {name: value for name, value in (state or {}).items() if name.rpartition("/")[2] in NOISY}


def _bits(policy: NashPolicy, world: Environment, reward: float) -> None:
    case = Case.of(policy, world, min(COINS, policy.horizon or COINS))
    run = start_run(case, Streams.of(5, 0))
    if not run.compiled:
        return
    run.advance(case.rounds)
    state = run.published()
    shown = None if state is None else policy.evidence(state)
    if shown is None:  # nothing that is published says how many ones came
        return
    ones, size = round(float(shown.mean @ shown.size)), round(float(shown.size.sum()))
    chance = chance_of_one(partial(told, policy, reward))
    must(
        inside(ones, size, chance),
        f"of {size} simulated reports {ones} say 1, where a served one does so with chance {chance:.4g}",
        "give the simulator the chances of the report",
    )
