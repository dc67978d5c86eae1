"""Laws of policies that release: what is drawn, adopted, lost, forgotten, estimated, and what a ledger holds."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from itertools import combinations
from typing import Any, cast

import numpy as np

from fairveil.bandits.environments.base import Environment
from fairveil.bandits.ledgered import drive
from fairveil.bandits.protocol import HEADER, Feedback, Policy, Report, settle
from fairveil.errors import InputError, PrivacyError
from fairveil.ledger import Ledger
from fairveil.privacy.events import NothingEvent
from fairveil.privacy.guarantee import Neighbours
from fairveil.privacy.limits import Limit
from fairveil.privacy.noise import SecureNoise, SeededNoise, ZeroNoise
from fairveil.proof.engine.everything import check_audited
from fairveil.proof.laws import established, must, refused
from fairveil.proof.laws.playing import FEW_BLOCKS, LONG, play, turns
from fairveil.proof.mutants import Weakened
from fairveil.randomness import Generator, generator
from fairveil.state import State, copy_state, same_state

WIDER = (1.0, 1.0, 4.0, 4.0, 16.0, 16.0, 16.0, 16.0, 16.0)
"""How much wider noise is drawn where a law asks whether a number depends on it."""
FAR = 40.0
"""A reward beyond every bound."""
SOURCES = 12
"""Sources of noise whose releases must all differ before a number that stays the same is called a reused draw."""


def adopting_is_releasing(policy: Policy, world: Environment) -> None:
    """Stored numbers are put in as if just released; what was opened since stays as it is."""
    if policy.clock == "decided":
        return  # it may keep raw rows for later releases; adopting is for recovery, where they are gone
    noise, rng = SeededNoise(3), generator(9, "open")
    for turn in turns(policy, world, 60, noise):
        state = policy.learn(turn.state, turn.answer)
        while (block := policy.due(state, turn.index + 1)) is not None:
            after, value = policy.release(state, SeededNoise(turn.index)), policy.draw(state, SeededNoise(turn.index))
            must(same_state(policy.adopt(state, block, value), after), "adopting differs from releasing", "see adopt")
            _adopted_later(policy, state, block, value, turn.index + 1, rng)
            state = after
        turn.state = state


def _adopted_later(policy: Policy, state: State, block: str, value: State, now: int, rng: Generator) -> None:
    later = state
    for index in range(now, now + 12):
        later = policy.open(later, index, rng)
    kept = copy_state(later)
    after = policy.adopt(later, block, value)
    must(same_state(later, kept), "adopt changed the given state", "copy_state first")
    if policy.clock == "settled":  # by arrival turns that were opened since hold no rewards, and pools have no order
        _others_stay(policy, later, after, block)
    if HEADER in value:
        with refused("a release of other rounds was adopted", PrivacyError, fix="check_header"):
            policy.adopt(later, block, {**value, HEADER: value[HEADER] + 1})


def _others_stay(policy: Policy, later: State, after: State, block: str) -> None:
    """Blocks that were opened since are what they were, whatever became of the oldest one."""
    oldest = policy.block(later)
    following = policy.block(after)
    must(oldest is not None and oldest.name == block, "due is not the oldest open block")
    if following is not None and oldest is not None:
        must(following.first == oldest.stop, "adopting a block moved one that was opened since")
    opened = policy.open_blocks(later)
    must(opened[:1] == [oldest], "open_blocks does not begin with the oldest one")
    for rest in (policy.open_blocks(after), policy.open_blocks(policy.lost(later, block))):
        must(opened[1:] == rest[: len(opened) - 1], "a release changed blocks that were open", "name those that stay")


def reports(policy: Policy, world: Environment) -> None:
    """A local policy learns what `report` made and refuses a raw reward; the others hand feedback on as it is."""
    for turn in turns(policy, world, 3, SeededNoise(3)):
        if not policy.local:
            must(isinstance(turn.answer, Feedback), "report changed the kind of feedback")
        else:
            must(isinstance(turn.answer, Report), "report does not return a Report")
            raw = Feedback(turn.index, turn.decision.arm, 1.0, turn.answer.round)
            with refused("learn took a raw reward", InputError, fix="take a Report only"):
                policy.learn(turn.state, raw)
        turn.state = settle(policy, policy.learn(turn.state, turn.answer), turn.index + 1, SeededNoise(4))


def any_noise(policy: Policy, world: Environment) -> None:
    """Zero and secure noise run through the same code."""
    for noise in (ZeroNoise(), SecureNoise()):
        must(len(play(policy, world, noise, rounds=40)) == 40, f"{type(noise).__name__} stops it")


def in_other_worlds(policy: Policy, answer: Feedback) -> list[Feedback]:
    """The answer of one round in neighbouring worlds: other rewards, none where that is hidden, other candidates.

    Candidates keep their group, which is public; their features turn round, or go far beyond any bound, the chosen
    one's and those of one who was not chosen. The first two differ in the reward alone: 0 and 1.
    """
    found = [replace(answer, reward=0.0), replace(answer, reward=1.0)]
    if policy.hides_arrivals:
        found.append(replace(answer, reward=None))
    shown = answer.round
    if shown is None or not shown.candidates:
        return found
    for place in {answer.arm, (answer.arm + 1) % len(shown.candidates)}:
        for change in (lambda features: -features, lambda features: 40.0 * features + 7.0):
            people = list(shown.candidates)
            people[place] = replace(people[place], features=change(people[place].features))
            found.append(replace(answer, reward=1.0, round=replace(shown, candidates=tuple(people))))
    return found


def promised_for_fixed_rows(policy: Policy) -> bool:
    """Is the promise about what is sent, while an agent decides by its own raw rows?"""
    promise = policy.guarantee()
    return promise is not None and promise.neighbours is Neighbours.REPLACE_INTERACTION_ROWS_FIXED


def content_is_invisible(policy: Policy, world: Environment) -> None:
    """A row inside an open block changes nothing public before its release: no array, no due block, no decision."""
    if not established(policy.guarantee()) or policy.local or policy.keeps_history:
        return
    noise = SeededNoise(3)
    for turn in turns(policy, world, 60, noise):
        index, shown, answer = turn.index, turn.answer.round, cast(Feedback, turn.answer)
        low, high, *others = (policy.learn(turn.state, other) for other in in_other_worlds(policy, answer))
        for other in (high, *others):
            for name in policy.released:
                must(np.array_equal(low[name], other[name]), "an unreleased row changes a public array")
            for settled in (index, index + 1, index + 2):
                must(policy.due(low, settled) == policy.due(other, settled), "an unreleased row changes what is due")
        # With other rows fixed an agent's own decisions are not covered.
        if not promised_for_fixed_rows(policy) and policy.due(low, index + 1) is None and shown is not None:
            asked = replace(shown, index=index + 1)
            arms = {
                policy.decide(policy.open(one, index + 1, generator(5, "open")), asked, generator(5, "decide")).arm
                for one in (low, high, *others)
            }
            must(len(arms) == 1, "an unreleased row changes a decision")
        turn.state = settle(policy, high, index + 1, noise)


def rows_enter_by_themselves(policy: Policy, world: Environment) -> None:
    """What a row adds to a state is the same whatever the row before it was, far beyond every bound too.

    A bound that follows the data breaks this, and shows all rows in the size of each. Ordinary rows are tried first, so
    that a largest value that is remembered anywhere shows when it jumps.
    """
    if not established(policy.guarantee()) or policy.local:
        return
    noise, earlier = SeededNoise(3), None
    for turn in turns(policy, world, LONG // 2, noise):
        index, answer = turn.index, cast(Feedback, turn.answer)
        if earlier is not None and _goes_on(policy, earlier[0], policy.learn(*earlier), index):
            before, last = earlier
            adds = list[State]()
            for other in (*in_other_worlds(policy, last), replace(last, reward=FAR), replace(last, reward=-FAR)):
                state = policy.learn(before, other)
                adds.append(_added(policy, state, policy.learn(state, replace(answer, reward=1.0))))
            alike = all(_close(adds[0], other) for other in adds)
            must(alike, "what a row counts for depends on the row before it", "clip to a public bound")
        earlier = (turn.state, answer)
        turn.state = settle(policy, policy.learn(turn.state, answer), index + 1, noise)


def _goes_on(policy: Policy, before: State, state: State, index: int) -> bool:
    """Was the row before this round learned, and is this round in the block that is open?"""
    opened = policy.open(state, index, generator(5, "open"))
    return policy.due(state, index) is None and same_state(state, opened) and not same_state(before, state)


def _added(policy: Policy, before: State, after: State) -> State:
    """What changed in the raw arrays that wait for a release; of arrays that grow, what is new."""
    found = {}
    # What an agent knows itself, beside its rows, is no sum of them and stays after a release.
    kept = policy.release(after, ZeroNoise()) if promised_for_fixed_rows(policy) else {}
    for name, array in _raw(policy, after).items():
        if array.dtype.kind in "if" and not np.any(kept.get(name, 0)):
            same = array.shape == before[name].shape
            found[name] = array - before[name] if same else array[len(before[name]) :]
    return found


def _close(first: State, second: State) -> bool:
    return all(
        np.shape(array) == np.shape(second[name]) and np.allclose(array, second[name], rtol=1e-9, atol=1e-9)
        for name, array in first.items()
    )


def blocks_are_forgotten(policy: Policy, world: Environment) -> None:
    """Settled clock: when a block is released, adopted or lost, nothing in the state remembers one of its rows."""
    if policy.clock == "decided" or policy.local or not policy.released:
        return
    noise, checked = SeededNoise(3), 0
    for turn in turns(policy, world, LONG, noise):
        answers = in_other_worlds(policy, cast(Feedback, turn.answer))
        low, high, *others = (policy.learn(turn.state, answer) for answer in answers)
        block = policy.due(high, turn.index + 1)
        if block is not None and policy.due(low, turn.index + 1) == block:
            checked += 1
            value = policy.draw(high, SeededNoise(turn.index))
            lost, adopted = policy.lost(low, block), policy.adopt(low, block, value)
            for other in (high, *others):
                must(same_state(lost, policy.lost(other, block)), "a lost block leaves a row behind", "see lost")
                after = policy.adopt(other, block, value)
                must(same_state(adopted, after), "a released block leaves a row behind", "empty the block in adopt")
            if checked == FEW_BLOCKS:
                return
        turn.state = settle(policy, high, turn.index + 1, noise)


def nothing_exact_is_published(policy: Policy, world: Environment) -> None:
    """A published number that depends on a row, or on all rewards of a block, also depends on the noise of its release.

    No exact sum, count or bound goes out, and nothing that was decided by one. Whether a number depends on the noise is
    seen with far more of it, since what a choice between arms says may survive a little.
    """
    if not established(policy.guarantee()) or policy.local or policy.keeps_history or not policy.released:
        return
    checked, held = 0, list[State]([{}, {}])
    for turn in turns(policy, world, LONG, SeededNoise(3)):
        answer = cast(Feedback, turn.answer)
        given = [policy.learn(turn.state, other) for other in in_other_worlds(policy, answer)]
        whole = [
            policy.learn(turn.state | raw, replace(answer, reward=reward))
            for raw, reward in zip(held, (0.0, 1.0), strict=True)
        ]
        due = policy.due(given[0], turn.index + 1)
        if due is not None:
            checked += 1
            _check_exact(policy, [*given, *whole])
            if checked == FEW_BLOCKS:
                return
        held = [{}, {}] if due is not None else [_raw(policy, state) for state in whole]
        turn.state = settle(policy, given[1], turn.index + 1, SeededNoise(3, turn.index))


def _raw(policy: Policy, state: State) -> State:
    return {name: array for name, array in state.items() if name not in policy.released}


def _check_exact(policy: Policy, states: list[State]) -> None:
    """What is published of states that differ in rows, with the same noise, against one of them with other noises."""
    of_worlds = [policy.release(state, SeededNoise(0)) for state in states]
    noises = [SeededNoise(0), *(Weakened(SeededNoise(seed), factor) for seed, factor in enumerate(WIDER, 1))]
    of_noises, source = [policy.release(states[0], noise) for noise in noises], SeededNoise(11)
    of_sources = [policy.release(states[0], SeededNoise(seed)) for seed in range(SOURCES)]
    of_one = [policy.release(states[0], source) for _ in range(FEW_BLOCKS)]
    for name in policy.released:
        told, hidden = (differs([after[name] for after in all]) for all in (of_worlds, of_noises))
        must(not np.any(told & ~hidden), f"{name} shows a row without noise", "draw noise for it")
        fresh, moves = (
            never_repeats([after[name] for after in of_sources]),
            differs([after[name] for after in of_one]),
        )
        must(not np.any(fresh & ~moves), f"{name} has the same noise in two releases", "draw noise for every release")


def differs(arrays: list[Any]) -> Any:
    """Where some array differs from the first."""
    return np.any([_unlike(arrays[0], other) for other in arrays[1:]], axis=0)


def never_repeats(arrays: list[Any]) -> Any:
    """Where no two arrays agree."""
    return np.all([_unlike(first, second) for first, second in combinations(arrays, 2)], axis=0)


def _unlike(first: Any, second: Any) -> Any:
    """Where two arrays differ; everywhere, if even their shapes do."""
    same = np.shape(first) == np.shape(second)
    return ~np.isclose(first, second, rtol=0.0, atol=0.0, equal_nan=True) if same else np.ones(np.shape(first), bool)


def audited(policy: Policy, world: Environment) -> None:
    """What promises privacy has pairs of worlds that call its served methods, and mutants that they notice."""
    if established(policy.guarantee()):
        check_audited("policy", policy)


def lost_releases(policy: Policy, world: Environment) -> None:
    """A release that was charged and lost is survived; block ids never repeat."""
    noise, blocks = SeededNoise(3), list[str]()
    for turn in turns(policy, world, 80, noise):
        turn.state = policy.learn(turn.state, turn.answer)
        while (block := policy.due(turn.state, turn.index + 1)) is not None:
            blocks.append(block)
            turn.state = policy.lost(turn.state, block) if len(blocks) % 2 else policy.release(turn.state, noise)
    must(len(blocks) == len(set(blocks)), "a block id came twice")


def under_a_ledger(policy: Policy, world: Environment) -> None:
    """A curator's private policy runs under a ledger: charged once, and after a crash the stored value comes back."""
    promise = policy.guarantee()
    if promise is None or not promise.established or isinstance(policy.event(), NothingEvent):
        return
    if policy.keeps_history:
        return  # decisions read the raw history: no part of such a state may be stored, and `drive` refuses it
    must(policy.released, "it does not say which state arrays hold released values only", "released = (...)")
    noise = SeededNoise(3)
    named = promise.neighbours
    with tempfile.TemporaryDirectory() as folder:
        limit = Limit.covering(policy.event())
        with Ledger.create(f"{folder}/ledger.db", limit=limit, simulated=True) as ledger:
            for turn in turns(policy, world, 40, noise):
                state = policy.learn(turn.state, turn.answer)
                after = drive(policy, state, turn.index + 1, ledger, noise=noise, neighbours=named)
                # as after a crash before the state was saved
                again = drive(policy, state, turn.index + 1, ledger, noise=noise, resume=True, neighbours=named)
                for name in policy.released:
                    must(np.array_equal(after[name], again[name]), "a crash gave another value", "see released")
                turn.state = after


def estimates_read_releases_only(policy: Policy, world: Environment) -> None:
    """A private policy gives estimates from the first moment on, and from arrays it names in `released` alone."""
    if not established(policy.guarantee()) or policy.keeps_history:
        return
    rng = np.random.default_rng(7)
    for state in (policy.start(), play(policy, world, SeededNoise(3), rounds=300)[-1].state):
        before, found = copy_state(state), json.dumps(policy.estimates(state).to_dict(), allow_nan=False)
        must(same_state(state, before), "estimates changed the state")
        for name in set(state) - set(policy.released):
            state[name] = (
                rng.permutation(3 * state[name].ravel() + 7).reshape(state[name].shape).astype(state[name].dtype)
            )
        again = json.dumps(policy.estimates(state).to_dict())
        must(found == again, "estimates read what is not released", "read arrays named in released only")
