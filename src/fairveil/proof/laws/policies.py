"""Laws every policy keeps, built in or plugged in. `check_policy` runs them all and names the one that is broken.

>>> from fairveil import registry
>>> len(check_policy(registry.build("policy", {"name": "ucb", "arms": 3}, "policy"))) >= 8
True
"""

from __future__ import annotations

import dataclasses
import inspect
import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fairveil import registry
from fairveil.bandits.environments.base import Environment
from fairveil.bandits.feedback import Lateness
from fairveil.bandits.protocol import Feedback, Policy, Report, settle
from fairveil.bandits.task import BanditTask
from fairveil.configuration import describe, field_names, required
from fairveil.privacy.events import NothingEvent, event_from_dict
from fairveil.privacy.guarantee import REFUSED
from fairveil.privacy.noise import SeededNoise
from fairveil.proof.laws import check_laws, must
from fairveil.proof.laws.playing import ROUNDS, WORLDS, Silent, placed, play, turns
from fairveil.proof.laws.propensities import propensities_are_frequencies, replies_are_frequencies
from fairveil.proof.laws.releases import (
    adopting_is_releasing,
    any_noise,
    audited,
    blocks_are_forgotten,
    content_is_invisible,
    estimates_read_releases_only,
    lost_releases,
    nothing_exact_is_published,
    reports,
    rows_enter_by_themselves,
    under_a_ledger,
)
from fairveil.proof.laws.simulations import simulations_are_served
from fairveil.proof.laws.sums import SLACK
from fairveil.proof.mutants import bandits as bandits  # its rules apply to every policy
from fairveil.randomness import generator
from fairveil.state import copy_state, load_state, same_state, save_state

Law = Callable[[Policy, Environment], None]
FEW_FORMS = 2
"""Configurations that the law prices; a test prices all."""


def table_round_trip(policy: Policy, world: Environment) -> None:
    """The complete table of its public configuration builds it again."""
    table = describe(policy)
    again = describe(registry.build("policy", table, "policy"))
    must(table == again, "describe and build are not inverse")


def cost_before_data(policy: Policy, world: Environment) -> None:
    """It says what it costs and promises before any data; a curator's established promise is paid for."""
    event, promise = policy.event(), policy.guarantee()
    must(event_from_dict(event.to_dict()) == event, "the event does not survive being written down")
    in_words = promise is not None and promise.model.value == "local"
    must(policy.local == in_words, "its class and its guarantee differ about who randomises", "local = True, or not")
    if promise is not None and promise.established:
        must(promise.epsilon is not None and promise.epsilon > 0, "an established guarantee has an epsilon")
        if promise.model.value != "local":
            must(not isinstance(event, NothingEvent), "a guarantee in this model is paid for by an event")


def documented(policy: Policy, world: Environment) -> None:
    """Its docstring says what is guaranteed and what it costs, with an example that runs; each field what it is."""
    fields = (field for field in dataclasses.fields(policy) if field.init)  # type: ignore[arg-type]
    bare = [field.name for field in fields if not field.metadata.get("description")]
    must(not bare, f"no description: {', '.join(bare)}", 'field: Count = described("what it is")')
    doc = inspect.getdoc(type(policy)) or ""
    for word in ("Guarantee", "Cost", ">>>"):
        must(word in doc, f"the docstring lacks {word!r}")


def pure_decide(policy: Policy, world: Environment) -> None:
    """Decide changes nothing but seals, repeats itself for the same generator, and works before any reward."""
    rng, noise = generator(1, "world"), SeededNoise(3)
    place, state = world.prepare(rng), policy.start()
    for index in range(20):
        state = policy.open(state, index, generator(2, "open", index))
        shown = place.show(index, rng)
        before = copy_state(state)
        first = policy.decide(state, shown, generator(2, "explore", index))
        second = policy.decide(state, shown, generator(2, "explore", index))
        must(first.arm == second.arm and first.propensity == second.propensity, "two equal calls decide differently")
        for name in policy.seals:
            before[name] = state[name]
        must(same_state(state, before), "decide changed the state")
        reward = place.reward(shown, first.arm, rng)
        state = policy.learn(state, policy.report(Feedback(index, first.arm, reward, shown), noise))
        state = settle(policy, state, index + 1, noise)


def same_seed_same_run(policy: Policy, world: Environment) -> None:
    """The same seeds give the same decisions, and probabilities are probabilities."""
    first, second = play(policy, world, SeededNoise(3)), play(policy, world, SeededNoise(3))
    must([s.decision.arm for s in first] == [s.decision.arm for s in second], "the same seed gave another run")
    for step in first:
        law = step.decision.probabilities
        must(0 < step.decision.propensity <= 1 + 1e-9, "a propensity is not a probability")
        if law is not None:
            must(law.min() >= 0 and abs(law.sum() - 1) < 1e-9, "probabilities do not sum to one")
            must(abs(law[step.decision.arm] - step.decision.propensity) < 1e-9, "the propensity is not the law's")


def state_is_a_value(policy: Policy, world: Environment) -> None:
    """State is plain arrays, survives saving at every round, and is never changed in place."""
    noise, arms = SeededNoise(3), []
    for turn in turns(policy, world, 60, noise):
        state = turn.state
        must(all(isinstance(v, np.ndarray) and v.dtype != object for v in state.values()), "state is not plain arrays")
        state = load_state(save_state(state))
        arms.append(turn.decision.arm)
        before = copy_state(state)
        after = policy.learn(state, turn.answer)
        must(same_state(state, before), "learn changed the given state", "copy_state first")
        state = after
        while policy.due(state, turn.index + 1) is not None:
            before = copy_state(state)
            after = policy.release(state, noise)
            must(same_state(state, before), "release changed the given state", "copy_state first")
            state = after
        turn.state = state
    walked = [step.decision.arm for step in play(policy, world, SeededNoise(3), rounds=60)]
    must(arms == walked, "saving and loading changed the run")


def bounded_memory(policy: Policy, world: Environment) -> None:
    """The state does not grow with rounds, unless the algorithm keeps the history by definition (keeps_history)."""
    if policy.keeps_history:
        return
    sizes = [
        sum(value.nbytes for value in step.state.values()) for step in play(policy, world, SeededNoise(3), rounds=300)
    ]
    must(sizes[-1] <= 2 * sizes[20] + 4096, "the state grows with the rounds")


def late_and_missing_rewards(policy: Policy, world: Environment) -> None:
    """Rewards may come late, out of order, or never."""
    late = Lateness("uniform", (0.0, 20.0), 20, missing=0.2)
    must(len(play(policy, world, SeededNoise(3), late)) == ROUNDS, "late rewards stop it")
    must(len(play(policy, world, SeededNoise(3), Silent(window=7))) == ROUNDS, "missing rewards stop it")


def order_of_arrival(policy: Policy, world: Environment) -> None:
    """Settled clock: where arrivals are hidden, any order inside the windows gives the same run."""
    if policy.clock == "decided" or policy.local:
        return
    late = Lateness("uniform", (0.0, 15.0), 15, treat="default")
    first, second = (play(policy, world, SeededNoise(3), late, arrivals=seed) for seed in (1, 2))
    must([s.decision.arm for s in first] == [s.decision.arm for s in second], "the order of arrival changed the run")
    must(same_state(first[-1].state, second[-1].state), "the order of arrival changed the state")


def too_late_changes_nothing(policy: Policy, world: Environment) -> None:
    """Settled clock: a delivery for a round of a released block, or a second one, changes nothing."""
    if policy.clock != "settled":
        return
    noise, seen = SeededNoise(3), []
    for turn in turns(policy, world, 40, noise):
        seen.append(turn.answer)
        turn.state = policy.learn(turn.state, turn.answer)
        for old in (seen[0], turn.answer):
            must(same_state(policy.learn(turn.state, old), turn.state), "a delivery counted twice", "one watermark")
        turn.state = settle(policy, turn.state, turn.index + 1, noise)


def blocks_reach_as_far_as_said(policy: Policy, world: Environment) -> None:
    """Settled clock: where blocks are opened one after the other, `reach` is behind them all and never falls."""
    if policy.clock != "settled" or policy.block(policy.start()) is not None:
        return
    noise, furthest = SeededNoise(3), 0
    for turn in turns(policy, world, 40, noise):
        furthest = max([furthest, *(block.stop for block in policy.open_blocks(turn.state))])
        must(policy.reach(turn.state) == furthest, "reach is not behind the blocks that were opened", "define reach")
        turn.state = settle(policy, policy.learn(turn.state, turn.answer), turn.index + 1, noise)
        must(policy.reach(turn.state) == furthest, "reach falls when a block is released")


def learn_all_is_a_fold(policy: Policy, world: Environment) -> None:
    """Many feedbacks at once are learned as one after the other."""
    noise, before = SeededNoise(3), policy.start()
    answers: list[Feedback | Report] = []
    for turn in turns(policy, world, 30, noise):
        if not answers:
            before = turn.state
        answer = turn.answer
        if isinstance(answer, Feedback):  # rewards of every size: a bound that is read off them would differ
            answer = replace(answer, reward=(1 + turn.index * 7 % 10) / 10)
        answers.append(answer)
        turn.state = policy.learn(turn.state, answer)
        if policy.due(turn.state, turn.index + 1) is not None or len(answers) == 8:
            one_by_one = before
            for answer in answers:
                one_by_one = policy.learn(one_by_one, answer)
            must(same_state(policy.learn_all(before, iter(answers)), one_by_one), "learn_all differs from learn")
            answers = []
        turn.state = settle(policy, turn.state, turn.index + 1, noise)


ARMS = {"name": "bernoulli", "means": [0.2, 0.5, 0.8]}


@registry.register("laws", "policy")
def check_policy(policy: Policy, environment: Environment | None = None) -> list[str]:
    """Run every law; returns their names, raises ContractError at the first that is broken.

    Without an environment a policy that lacks public facts (features, groups, a scale) is completed first.
    """
    policy, world = (policy, environment) if environment is not None else placed(policy)
    return check_laws(LAWS, policy, world)


def fitting(name: str) -> tuple[Policy, Environment]:
    """A registered policy and a world of its family, completed against each other as a spec would be."""
    target = registry.get("policy", name)
    table = WORLDS[target.family] if target.family not in ("", "nash") else ARMS
    world: Environment = registry.build("environment", table, "environment")
    example = describe(target.example())
    own = {key: example[key] for key in required(target) if key not in world.facts(1000)}
    spec = {"task": "bandit", "rounds": 1000, "policy": {"name": name, **own}, "environment": table}
    full = BanditTask().complete(spec)
    return registry.build("policy", full["policy"], "policy"), registry.build(
        "environment", full["environment"], "environment"
    )


def refusals_are_noted(policy: Policy, world: Environment) -> None:
    """A policy that refuses values says so: that one was refused depends on the value."""
    if policy.guarantee() is None or "strict" not in field_names(type(policy)):
        return
    for strict in (False, True):
        promise = replace(policy, strict=strict).guarantee()  # type: ignore[type-var]
        noted = promise is not None and REFUSED in promise.notes
        must(noted == strict, "a refusal that depends on a value is in no note")


def exact_cost(policy: Policy, world: Environment) -> None:
    """No answer of a round costs the whole run more than is promised: rewards, silence, candidates."""
    from fairveil.proof.laws.runs import can_be_priced, policy_costs

    if not can_be_priced(policy):
        return
    for words, cost, claim in itertools.islice(policy_costs(policy), FEW_FORMS):
        must(cost <= claim * (1 + SLACK), f"the worst answer costs more than is promised ({words or 'as it comes'})")


LAWS: dict[str, Law] = {
    law.__name__: law
    for law in (
        table_round_trip,
        cost_before_data,
        refusals_are_noted,
        documented,
        pure_decide,
        same_seed_same_run,
        state_is_a_value,
        late_and_missing_rewards,
        order_of_arrival,
        too_late_changes_nothing,
        blocks_reach_as_far_as_said,
        learn_all_is_a_fold,
        adopting_is_releasing,
        reports,
        any_noise,
        content_is_invisible,
        rows_enter_by_themselves,
        blocks_are_forgotten,
        nothing_exact_is_published,
        lost_releases,
        under_a_ledger,
        estimates_read_releases_only,
        bounded_memory,
        propensities_are_frequencies,
        replies_are_frequencies,
        exact_cost,
        audited,
        simulations_are_served,
    )
}
