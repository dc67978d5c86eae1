"""Laws every policy keeps, built in or plugged in. `check_policy` runs them all and names the one that is broken.

>>> from fairveil import registry
>>> len(check_policy(registry.build("policy", {"name": "ucb", "arms": 3}, "policy"))) >= 8
True
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from fairveil import registry
from fairveil.bandits import mutants as mutants  # its rules apply to every policy
from fairveil.bandits.environments.base import Environment
from fairveil.bandits.feedback import AT_ONCE, NEVER, Lateness
from fairveil.bandits.ledgered import drive
from fairveil.bandits.protocol import HEADER, Decision, Feedback, Policy, Report, Round, settle
from fairveil.bandits.simulate import Streams
from fairveil.bandits.steps import Step, walk
from fairveil.bandits.task import BanditTask
from fairveil.configuration import describe, required
from fairveil.errors import ContractError, InputError, PrivacyError
from fairveil.privacy.audit.laws import check_audited
from fairveil.privacy.events import NothingEvent, event_from_dict
from fairveil.privacy.guarantee import Neighbours
from fairveil.privacy.ledger import Ledger
from fairveil.privacy.limits import Limit
from fairveil.privacy.noise import Noise, SecureNoise, SeededNoise, ZeroNoise
from fairveil.randomness import Generator, generator
from fairveil.state import State, copy_state, load_state, same_state, save_state

ROUNDS, LONG, FEW_BLOCKS = 120, 400, 3
"""Rounds of a law's run, of one that waits for released blocks, and how many blocks it looks at."""
Law = Callable[[Policy, Environment], None]

#: The world a family's policies are checked in.
WORLDS: dict[str, dict[str, Any]] = {
    "": {"name": "bernoulli"},
    "nash": {"name": "bernoulli"},
    "meritocratic": {"name": "gaussian", "weights": [1.0, 0.5], "means": [[0.0, 0.0], [1.0, 0.5], [0.5, 1.0]]},
    "exposure": {"name": "exposure", "agents": 1, "actions": 4, "dimension": 3},
}
ARMS = {"name": "bernoulli", "means": [0.2, 0.5, 0.8]}


@registry.register("laws", "policy")
def check_policy(policy: Policy, environment: Environment | None = None) -> list[str]:
    """Run every law; returns their names, raises ContractError at the first that is broken."""
    world = environment if environment is not None else world_of(policy)
    for name, law in LAWS.items():
        try:
            law(policy, world)
        except ContractError as problem:
            raise ContractError(f"{name}: {problem.problem}", path=policy.name, fix=problem.fix) from None
    return list(LAWS)


def world_of(policy: Policy) -> Environment:
    """An environment that fits a policy: as many arms, agents or features as it has, where it has a number of them."""
    table, arms = WORLDS[policy.family], getattr(policy, "arms", None)
    if table["name"] == "bernoulli":
        table = {**table, "means": np.linspace(0.2, 0.8, 3 if arms is None else arms).tolist()}
    if table["name"] == "exposure":
        table = {**table, **{name: getattr(policy, name) for name in ("agents", "dimension") if hasattr(policy, name)}}
    made: Environment = registry.build("environment", table, "environment")
    return made


def fitting(name: str) -> tuple[Policy, Environment]:
    """A registered policy and a world of its family, completed against each other as a spec would be."""
    target = registry.get("policy", name)
    table = WORLDS[target.family] if target.family not in ("", "nash") else ARMS
    world: Environment = registry.build("environment", table, "environment")
    example = target.example()
    own = {key: getattr(example, key) for key in required(target) if key not in world.facts(1000)}
    spec = {"task": "bandit", "rounds": 1000, "policy": {"name": name, **own}, "environment": table}
    full = BanditTask().complete(spec)
    return registry.build("policy", full["policy"], "policy"), registry.build(
        "environment", full["environment"], "environment"
    )


def _must(holds: object, problem: str, fix: str = "") -> None:
    if not holds:
        raise ContractError(problem, fix=fix)


class Silent(Lateness):
    """Nobody ever answers."""

    def wait(self, round: Round, arm: int, rng: Generator) -> int:
        return NEVER


def _play(
    policy: Policy,
    world: Environment,
    noise: Noise,
    lateness: Lateness = AT_ONCE,
    rounds: int = ROUNDS,
    arrivals: int = 5,
) -> list[Step]:
    streams = replace(Streams.of(5, 0, noise), coming=lambda: generator(arrivals, "arrivals"))
    return list(walk(policy, world, rounds, streams, lateness))


@dataclass
class Turn:
    """A round of a law that learns and releases itself: the state before learning, and the answer to be learned."""

    index: int
    state: State
    decision: Decision
    answer: Feedback | Report


def _turns(policy: Policy, world: Environment, rounds: int, noise: Noise) -> Iterator[Turn]:
    """Decide one round after the other without delay; the law puts the state it goes on with into the turn."""
    streams, turn = Streams.of(5, 0, noise), Turn(0, policy.start(), Decision(0), Feedback(0, 0, None))
    place = world.prepare(streams.world)
    for index in range(rounds):
        state = policy.open(turn.state, index, streams.explore)
        shown = place.show(index, streams.world)
        decision = policy.decide(state, shown, streams.explore)
        reward = place.reward(shown, decision.arm, streams.world)
        turn = Turn(index, state, decision, policy.report(Feedback(index, decision.arm, reward, shown), noise))
        yield turn


def table_round_trip(policy: Policy, world: Environment) -> None:
    """The complete table of its public configuration builds it again."""
    table = describe(policy)
    again = describe(registry.build("policy", table, "policy"))
    _must(table == again, "describe and build are not inverse")


def cost_before_data(policy: Policy, world: Environment) -> None:
    """It says what it costs and promises before any data; a curator's established promise is paid for."""
    event, promise = policy.event(), policy.guarantee()
    _must(event_from_dict(event.to_dict()) == event, "the event does not survive being written down")
    if promise is not None and promise.established:
        _must(promise.epsilon is not None and promise.epsilon > 0, "an established guarantee has an epsilon")
        if promise.model.value != "local":
            _must(not isinstance(event, NothingEvent), "a guarantee in this model is paid for by an event")


def documented(policy: Policy, world: Environment) -> None:
    """Its docstring says what is guaranteed and what it costs, with an example that runs; each field what it is."""
    fields = (field for field in dataclasses.fields(policy) if field.init)  # type: ignore[arg-type]
    bare = [field.name for field in fields if not field.metadata.get("description")]
    _must(not bare, f"no description: {', '.join(bare)}", 'field: Count = described("what it is")')
    doc = inspect.getdoc(type(policy)) or ""
    for word in ("Guarantee", "Cost", ">>>"):
        _must(word in doc, f"the docstring lacks {word!r}")


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
        _must(first.arm == second.arm and first.propensity == second.propensity, "two equal calls decide differently")
        for name in policy.seals:
            before[name] = state[name]
        _must(same_state(state, before), "decide changed the state")
        reward = place.reward(shown, first.arm, rng)
        state = policy.learn(state, policy.report(Feedback(index, first.arm, reward, shown), noise))
        state = settle(policy, state, index + 1, noise)


def same_seed_same_run(policy: Policy, world: Environment) -> None:
    """The same seeds give the same decisions, and probabilities are probabilities."""
    first, second = _play(policy, world, SeededNoise(3)), _play(policy, world, SeededNoise(3))
    _must([s.decision.arm for s in first] == [s.decision.arm for s in second], "the same seed gave another run")
    for step in first:
        law = step.decision.probabilities
        _must(0 < step.decision.propensity <= 1 + 1e-9, "a propensity is not a probability")
        if law is not None:
            _must(law.min() >= 0 and abs(law.sum() - 1) < 1e-9, "probabilities do not sum to one")
            _must(abs(law[step.decision.arm] - step.decision.propensity) < 1e-9, "the propensity is not the law's")


def state_is_a_value(policy: Policy, world: Environment) -> None:
    """State is plain arrays, survives saving at every round, and is never changed in place."""
    noise, arms = SeededNoise(3), []
    for turn in _turns(policy, world, 60, noise):
        state = turn.state
        _must(all(isinstance(v, np.ndarray) and v.dtype != object for v in state.values()), "state is not plain arrays")
        state = load_state(save_state(state))
        arms.append(turn.decision.arm)
        before = copy_state(state)
        after = policy.learn(state, turn.answer)
        _must(same_state(state, before), "learn changed the given state", "copy_state first")
        state = after
        while policy.due(state, turn.index + 1) is not None:
            before = copy_state(state)
            after = policy.release(state, noise)
            _must(same_state(state, before), "release changed the given state", "copy_state first")
            state = after
        turn.state = state
    walked = [step.decision.arm for step in _play(policy, world, SeededNoise(3), rounds=60)]
    _must(arms == walked, "saving and loading changed the run")


def late_and_missing_rewards(policy: Policy, world: Environment) -> None:
    """Rewards may come late, out of order, or never."""
    late = Lateness("uniform", (0.0, 20.0), 20, missing=0.2)
    _must(len(_play(policy, world, SeededNoise(3), late)) == ROUNDS, "late rewards stop it")
    _must(len(_play(policy, world, SeededNoise(3), Silent(window=7))) == ROUNDS, "missing rewards stop it")


def order_of_arrival(policy: Policy, world: Environment) -> None:
    """Settled clock: where arrivals are hidden, any order inside the windows gives the same run."""
    if policy.clock == "decided" or policy.local:
        return
    late = Lateness("uniform", (0.0, 15.0), 15, treat="default")
    first, second = (_play(policy, world, SeededNoise(3), late, arrivals=seed) for seed in (1, 2))
    _must([s.decision.arm for s in first] == [s.decision.arm for s in second], "the order of arrival changed the run")
    _must(same_state(first[-1].state, second[-1].state), "the order of arrival changed the state")


def too_late_changes_nothing(policy: Policy, world: Environment) -> None:
    """Settled clock: a delivery for a round of a released block, or a second one, changes nothing."""
    if policy.clock == "decided":
        return
    noise, seen = SeededNoise(3), []
    for turn in _turns(policy, world, 40, noise):
        seen.append(turn.answer)
        turn.state = policy.learn(turn.state, turn.answer)
        for old in (seen[0], turn.answer):
            _must(same_state(policy.learn(turn.state, old), turn.state), "a delivery counted twice", "one watermark")
        turn.state = settle(policy, turn.state, turn.index + 1, noise)


def learn_all_is_a_fold(policy: Policy, world: Environment) -> None:
    """Many feedbacks at once are learned as one after the other."""
    noise, before = SeededNoise(3), policy.start()
    answers: list[Feedback | Report] = []
    for turn in _turns(policy, world, 30, noise):
        if not answers:
            before = turn.state
        answers.append(turn.answer)
        turn.state = policy.learn(turn.state, turn.answer)
        if policy.due(turn.state, turn.index + 1) is not None or len(answers) == 8:
            one_by_one = before
            for answer in answers:
                one_by_one = policy.learn(one_by_one, answer)
            _must(same_state(policy.learn_all(before, iter(answers)), one_by_one), "learn_all differs from learn")
            answers = []
        turn.state = settle(policy, turn.state, turn.index + 1, noise)


def adopting_is_releasing(policy: Policy, world: Environment) -> None:
    """Settled clock: stored numbers are put in as if just released; what was opened since stays as it is."""
    if policy.clock == "decided":
        return  # it may keep raw rows for later releases; adopting is for recovery, where they are gone
    noise, rng = SeededNoise(3), generator(9, "open")
    for turn in _turns(policy, world, 60, noise):
        state = policy.learn(turn.state, turn.answer)
        while (block := policy.due(state, turn.index + 1)) is not None:
            after, value = policy.release(state, SeededNoise(turn.index)), policy.draw(state, SeededNoise(turn.index))
            _must(same_state(policy.adopt(state, block, value), after), "adopting differs from releasing", "see adopt")
            _adopted_later(policy, state, block, value, turn.index + 1, rng)
            state = after
        turn.state = state


def _adopted_later(policy: Policy, state: State, block: str, value: State, now: int, rng: Generator) -> None:
    later = state
    for index in range(now, now + 12):
        later = policy.open(later, index, rng)
    kept = copy_state(later)
    after = policy.adopt(later, block, value)
    _must(same_state(later, kept), "adopt changed the given state", "copy_state first")
    oldest = policy.block(later)
    following = policy.block(after)
    _must(oldest is not None and oldest.name == block, "due is not the oldest open block")
    if following is not None and oldest is not None:
        _must(following.first == oldest.stop, "adopting a block moved one that was opened since")
    opened = policy.open_blocks(later)
    _must(opened[:1] == [oldest], "open_blocks does not begin with the oldest one")
    for rest in (policy.open_blocks(after), policy.open_blocks(policy.lost(later, block))):
        _must(opened[1:] == rest[: len(opened) - 1], "a release changed blocks that were open", "name those that stay")
    if HEADER in value:
        try:
            policy.adopt(later, block, {**value, HEADER: value[HEADER] + 1})
        except PrivacyError:
            return
        raise ContractError("a release of other rounds was adopted", fix="check_header")


def reports(policy: Policy, world: Environment) -> None:
    """A local policy learns what `report` made and refuses a raw reward; the others hand feedback on as it is."""
    for turn in _turns(policy, world, 3, SeededNoise(3)):
        if not policy.local:
            _must(isinstance(turn.answer, Feedback), "report changed the kind of feedback")
        else:
            _must(isinstance(turn.answer, Report), "report does not return a Report")
            raw = Feedback(turn.index, turn.decision.arm, 1.0, turn.answer.round)
            try:
                policy.learn(turn.state, raw)
            except InputError:
                pass
            else:
                raise ContractError("learn took a raw reward", fix="take a Report only")
        turn.state = settle(policy, policy.learn(turn.state, turn.answer), turn.index + 1, SeededNoise(4))


def any_noise(policy: Policy, world: Environment) -> None:
    """Zero and secure noise run through the same code."""
    for noise in (ZeroNoise(), SecureNoise()):
        _must(len(_play(policy, world, noise, rounds=40)) == 40, f"{type(noise).__name__} stops it")


def content_is_invisible(policy: Policy, world: Environment) -> None:
    """A reward inside an open block changes nothing public before its release: no array, no due block, no decision."""
    promise = policy.guarantee()
    if promise is None or not promise.established or policy.local or policy.keeps_history:
        return
    noise = SeededNoise(3)
    for turn in _turns(policy, world, 60, noise):
        index, shown, answer = turn.index, turn.answer.round, cast(Feedback, turn.answer)
        low, high = (policy.learn(turn.state, replace(answer, reward=reward)) for reward in (0.0, 1.0))
        for name in policy.released:
            _must(np.array_equal(low[name], high[name]), "an unreleased reward changes a public array")
        for settled in (index, index + 1, index + 2):
            _must(policy.due(low, settled) == policy.due(high, settled), "an unreleased reward changes what is due")
        # With other rows fixed an agent's own decisions are not covered.
        frozen = promise.neighbours is not Neighbours.REPLACE_INTERACTION_ROWS_FIXED
        if frozen and policy.due(low, index + 1) is None and shown is not None:
            asked = replace(shown, index=index + 1)
            arms = [
                policy.decide(policy.open(one, index + 1, generator(5, "open")), asked, generator(5, "decide")).arm
                for one in (low, high)
            ]
            _must(arms[0] == arms[1], "an unreleased reward changes a decision")
        turn.state = settle(policy, high, index + 1, noise)


def blocks_are_forgotten(policy: Policy, world: Environment) -> None:
    """Settled clock: when a block is released, adopted or lost, nothing in the state remembers one of its rewards."""
    if policy.clock == "decided" or policy.local or not policy.released:
        return
    noise, checked = SeededNoise(3), 0
    for turn in _turns(policy, world, LONG, noise):
        low, high = (policy.learn(turn.state, replace(cast(Feedback, turn.answer), reward=reward)) for reward in (0, 1))
        block = policy.due(high, turn.index + 1)
        if block is not None and policy.due(low, turn.index + 1) == block:
            checked += 1
            value = policy.draw(high, SeededNoise(turn.index))
            lost = (policy.lost(one, block) for one in (low, high))
            _must(same_state(*lost), "a lost block leaves a reward behind", "empty the block in lost")
            adopted = (policy.adopt(one, block, value) for one in (low, high))
            _must(same_state(*adopted), "a released block leaves a reward behind", "empty the block in adopt")
            if checked == FEW_BLOCKS:
                return
        turn.state = settle(policy, high, turn.index + 1, noise)


def nothing_exact_is_published(policy: Policy, world: Environment) -> None:
    """A published number that depends on a reward also depends on the noise: no exact sum, count or bound goes out."""
    promise = policy.guarantee()
    if promise is None or not promise.established or policy.local or policy.keeps_history or not policy.released:
        return
    checked = 0
    for turn in _turns(policy, world, LONG, SeededNoise(3)):
        answer, rewards = cast(Feedback, turn.answer), (0.0, 1.0, None) if policy.hides_arrivals else (0.0, 1.0)
        given = [policy.learn(turn.state, replace(answer, reward=reward)) for reward in rewards]
        if policy.due(given[0], turn.index + 1) is not None:
            checked += 1
            drawn = [[policy.release(state, SeededNoise(seed)) for seed in range(8)] for state in given]
            for name in policy.released:
                of_data = [row[0][name] for row in drawn]
                of_noise = [after[name] for after in drawn[0]]
                told = np.any([_unlike(of_data[0], other) for other in of_data[1:]], axis=0)
                hidden = np.any([_unlike(of_noise[0], other) for other in of_noise[1:]], axis=0)
                _must(not np.any(told & ~hidden), f"{name} shows a reward without noise", "draw noise for it")
            if checked == FEW_BLOCKS:
                return
        turn.state = settle(policy, given[1], turn.index + 1, SeededNoise(3, turn.index))


def _unlike(first: Any, second: Any) -> Any:
    """Where two arrays differ; everywhere, if even their shapes do."""
    same = np.shape(first) == np.shape(second)
    return ~np.isclose(first, second, rtol=0.0, atol=0.0, equal_nan=True) if same else np.ones(np.shape(first), bool)


def audited(policy: Policy, world: Environment) -> None:
    """What promises privacy has pairs of worlds that call its served methods, and mutants that they notice."""
    promise = policy.guarantee()
    if promise is not None and promise.established:
        check_audited("policy", policy)


def lost_releases(policy: Policy, world: Environment) -> None:
    """A release that was charged and lost is survived; block ids never repeat."""
    noise, blocks = SeededNoise(3), list[str]()
    for turn in _turns(policy, world, 80, noise):
        turn.state = policy.learn(turn.state, turn.answer)
        while (block := policy.due(turn.state, turn.index + 1)) is not None:
            blocks.append(block)
            turn.state = policy.lost(turn.state, block) if len(blocks) % 2 else policy.release(turn.state, noise)
    _must(len(blocks) == len(set(blocks)), "a block id came twice")


def under_a_ledger(policy: Policy, world: Environment) -> None:
    """A curator's private policy runs under a ledger: charged once, and after a crash the stored value comes back."""
    promise = policy.guarantee()
    if promise is None or not promise.established or isinstance(policy.event(), NothingEvent):
        return
    if policy.keeps_history:
        return  # decisions read the raw history: no part of such a state may be stored, and `drive` refuses it
    _must(policy.released, "it does not say which state arrays hold released values only", "released = (...)")
    noise = SeededNoise(3)
    named = promise.neighbours
    with tempfile.TemporaryDirectory() as folder:
        limit = Limit.covering(policy.event())
        with Ledger.create(f"{folder}/ledger.db", limit=limit, simulated=True) as ledger:
            for turn in _turns(policy, world, 40, noise):
                state = policy.learn(turn.state, turn.answer)
                after = drive(policy, state, turn.index + 1, ledger, noise=noise, neighbours=named)
                # as after a crash before the state was saved
                again = drive(policy, state, turn.index + 1, ledger, noise=noise, resume=True, neighbours=named)
                for name in policy.released:
                    _must(np.array_equal(after[name], again[name]), "a crash gave another value", "see released")
                turn.state = after


def estimates_read_releases_only(policy: Policy, world: Environment) -> None:
    """A private policy gives estimates from the first moment on, and from arrays it names in `released` alone."""
    promise = policy.guarantee()
    if promise is None or not promise.established or policy.keeps_history:
        return
    rng = np.random.default_rng(7)
    for state in (policy.start(), _play(policy, world, SeededNoise(3), rounds=300)[-1].state):
        before, found = copy_state(state), json.dumps(policy.estimates(state).to_dict(), allow_nan=False)
        _must(same_state(state, before), "estimates changed the state")
        for name in set(state) - set(policy.released):
            state[name] = (
                rng.permutation(3 * state[name].ravel() + 7).reshape(state[name].shape).astype(state[name].dtype)
            )
        again = json.dumps(policy.estimates(state).to_dict())
        _must(found == again, "estimates read what is not released", "read arrays named in released only")


def bounded_memory(policy: Policy, world: Environment) -> None:
    """The state does not grow with rounds, unless the algorithm keeps the history by definition (keeps_history)."""
    if policy.keeps_history:
        return
    sizes = [
        sum(value.nbytes for value in step.state.values()) for step in _play(policy, world, SeededNoise(3), rounds=300)
    ]
    _must(sizes[-1] <= 2 * sizes[20] + 4096, "the state grows with the rounds")


LAWS: dict[str, Law] = {
    law.__name__: law
    for law in (
        table_round_trip,
        cost_before_data,
        documented,
        pure_decide,
        same_seed_same_run,
        state_is_a_value,
        late_and_missing_rewards,
        order_of_arrival,
        too_late_changes_nothing,
        learn_all_is_a_fold,
        adopting_is_releasing,
        reports,
        any_noise,
        content_is_invisible,
        blocks_are_forgotten,
        nothing_exact_is_published,
        lost_releases,
        under_a_ledger,
        estimates_read_releases_only,
        bounded_memory,
        audited,
    )
}
