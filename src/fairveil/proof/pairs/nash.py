"""Neighbouring worlds of this family's policies, for audits through the methods that serve people.

User 0's reward is 0 (or missing, where arrivals are private) or far above 1, which counts as 1; the others have the
same reward in both worlds. What is looked at includes the log-likelihood ratio of everything published. Policies are
driven by `open`, `decide`, `learn`, `draw`, `adopt` and `release`, with the noise of the audit; coins are public and
fixed. The sums of a block are drawn for many trials side by side (`RunningSum.many`), which changes nothing else.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from fairveil.arrays import Floats
from fairveil.bandits.environments.arms import UNIT
from fairveil.bandits.feedback import Lateness, Outstanding, Treat, hand_over
from fairveil.bandits.nash.episodes import EpisodePolicy
from fairveil.bandits.nash.private_nash import PrivateNash
from fairveil.bandits.nash.two_phases import TwoPhasePolicy
from fairveil.bandits.protocol import HEADER, Feedback, Round
from fairveil.privacy.noise import Noise
from fairveil.proof import AuditPair
from fairveil.proof.pairs import each
from fairveil.randomness import Generator, generator
from fairveil.registry import register
from fairveil.state import State

BLOCKS = 3
"""Blocks that are looked at: the one with user 0, and later ones, which must not know of them."""
DECISIONS = 24
TESTS = 5
"""Tests of a threshold that are looked at."""
HIGH = 12
"""Rewards of 1 that lie well above a threshold of 1."""
SEATED = 40.0
"""Decisions that rewards take where they join the pool that is open when they come."""
FAR = 7.0
"""A reward outside its range: served code clips it to 1."""


@register("audit-pair", "policy:adap-ucb")
@register("audit-pair", "policy:private-nash")
def episodes_pair(policy: EpisodePolicy) -> AuditPair:
    """User 0 is the first person of the first block; where arrivals are private, the reward may be missing."""
    hidden = policy.hides_arrivals
    if policy.clock == "arrived":
        return seats_pair(policy, "private" if hidden else "public")

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        coins = generator(0, "coins")
        side_by_side = copy.copy(policy)
        side_by_side.__dict__["sum"] = policy.sum.many(trials)
        state, columns, likelihood = side_by_side.start(), [], np.zeros(trials)
        changed = (None if hidden else 0.0) if world else FAR
        for _ in range(BLOCKS):
            state = play_block(side_by_side, state, changed, coins)
            block, value = side_by_side.block(state), side_by_side.draw(state, noise)
            total, count = value["total"] / UNIT, np.broadcast_to(value["count"], trials)
            likelihood += evidence(total, scale)
            if hidden:
                likelihood += evidence(count - (block.stop - block.first - 1 if block else 0), scale)
            columns += [total, count]
            state = side_by_side.adopt(state, block.name if block else "", one_path(value))
        return np.stack([*columns, likelihood], axis=1)

    scale = policy.sum.sigma / UNIT
    worlds = f"user 0's reward is {FAR:g} (clipped to 1) or {'missing' if hidden else '0'}"
    return AuditPair(run, worlds, "published sums, counts and log-likelihood ratio", policy.epsilon)


def one_path(value: State) -> State:
    """One of the values drawn side by side: it leads to the next block."""
    return {name: array if name == HEADER else array[:1] for name, array in value.items()}


def play_block(policy: EpisodePolicy, state: State, first_reward: float | None, coins: Generator) -> State:
    """Open the next block and hand over its rounds: rewards of 0, but for round 0, which differs."""
    index = int(state["ahead"][0])
    state = policy.open(state, index, coins)
    block = policy.block(state)
    stop = index + 1 if block is None else block.stop
    arms = [policy.decide(state, Round(place), coins).arm for place in range(index, stop)]
    rewards = [first_reward if place == 0 else 0.0 for place in range(index, stop)]
    return policy.learn_all(state, [Feedback(index + i, arms[i], rewards[i]) for i in range(stop - index)])


def evidence(value: Floats, scale: float) -> Floats:
    """Log-likelihood ratio of Laplace releases whose exact value is 1 or 0."""
    return (np.abs(value) - np.abs(value - 1.0)) / scale


def late_pair(policy: EpisodePolicy, lateness: Lateness, made: type[Outstanding] = Outstanding) -> AuditPair:
    """The driver of late rewards: user 0's reward is 1 or 0 and, where arrivals are hidden, comes at once or never.

    An observer sees of every block when it was released, where it stops, its noisy sum and its number of rewards.
    """

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        coins, columns = generator(0, "coins"), list[Floats]()
        watched = _watched(policy, trials, lambda value: columns.append(_seen(value, trials, outstanding.now)))
        state, outstanding = watched.start(), made(watched, lateness)
        while len(columns) < BLOCKS:
            index = outstanding.now
            state = watched.open(state, index, coins)
            shown = Round(index)
            outstanding.decided(watched.decide(state, shown, coins).arm, shown)
            for late in range(index + 1):
                if not (late == 0 and world and lateness.hidden) and index - late == (
                    0 if late == 0 else _wait(lateness)
                ):
                    arm = outstanding.arm(late)
                    if arm is not None:
                        outstanding.arrive(Feedback(late, arm, float(not (late == 0 and world)), Round(late)))
            state = hand_over(watched, state, outstanding, noise)
        return np.concatenate(columns[:BLOCKS], axis=1)

    hidden = "user 0's reward comes at once or never" if lateness.hidden else "user 0's reward is 1 or 0"
    return AuditPair(run, hidden, "round of release, end, noisy sum and count of blocks", policy.epsilon)


def _wait(lateness: Lateness) -> int:
    """All others answer as late as they can, or at once where the window hides when they do."""
    return 0 if lateness.hidden else lateness.window


def _watched(policy: EpisodePolicy, trials: int, see: Callable[[State], None]) -> EpisodePolicy:
    """The same policy with sums for many trials side by side, whose drawn numbers are also shown to the audit."""

    def draw(self: Any, state: State, noise: Noise) -> State:
        value = type(policy).draw(self, state, noise)
        see(value)
        return value

    twin = copy.copy(policy)
    object.__setattr__(twin, "__class__", type(type(policy).__name__, (type(policy),), {"draw": draw}))
    twin.__dict__["sum"] = policy.sum.many(trials)
    return twin


def _seen(value: State, trials: int, now: int) -> Floats:
    ones = np.ones(trials)
    return np.stack([now * ones, value[HEADER][2] * ones, value["total"] / UNIT, value["count"] * ones], axis=1)


@register("audit-pair", "policy:gdp-ncb")
def uniform_pair(policy: TwoPhasePolicy) -> AuditPair:
    """User 0 is a person of the uniform phase, whose arm 0 is then released again and again.

    The phase goes round the arms and ends with arm 0. Its rewards are folded once; everything that is released is drawn
    afresh, and looked at while arm 0 wins and shows no deficit: half of the trials end with each release.
    """

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        start, window = policy.start(), min(policy.horizon, int(policy.start()["open"][2]))
        arms = [(window - 1 - index) % policy.arms for index in range(window)]
        changed = arms.index(0)
        first = 0.0 if world else FAR
        rows = [Feedback(i, arm, first if i == changed else 1.0) for i, arm in enumerate(arms)]
        state = policy.learn_all(start, rows)
        return np.array([_follow(policy, state, noise) for _ in range(trials)])

    worlds = f"a reward of arm 0 is {FAR:g} (clipped to 1) or 0"
    return AuditPair(run, worlds, "deficit, releases without one, likelihood", policy.epsilon, trials=8_000)


def _follow(policy: TwoPhasePolicy, state: State, noise: Noise) -> tuple[float, float, float]:
    """Arm 0's first noisy deficit, in how many releases in a row it showed none, and their log-likelihood ratio."""
    state, scale = policy.release(state, noise), policy.scale / UNIT
    first = _deficit(state)
    seen, clean, likelihood = first, 0, _ratio(first, scale)
    while seen >= 0 and clean < DECISIONS:
        clean += 1
        while state["exploring"][0]:
            state = policy.release(state, noise)
        arm, now, stop = (int(entry) for entry in state["open"])
        if arm != 0 or stop > policy.horizon:
            break
        state = policy.learn_all(state, [Feedback(index, 0, 1.0) for index in range(now, stop)])
        state = policy.release(state, noise)
        seen = _deficit(state)
        likelihood += _ratio(seen, scale)
    return first, float(clean), likelihood


def _deficit(state: State) -> float:
    return float(state["sums"][0] / UNIT - state["counts"][0])


def _ratio(deficit: float, scale: float) -> float:
    """Log-likelihood ratio of one Laplace release whose exact deficit is 0 or -1."""
    return (abs(deficit + 1.0) - abs(deficit)) / scale


@register("audit-pair", "policy:gdp-ncb/block")
def block_pair(policy: TwoPhasePolicy) -> AuditPair:
    """User 0 is the first person of the first block after the uniform phase; all others earn nothing."""

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        state, window = policy.start(), min(policy.horizon, int(policy.start()["open"][2]))
        rows = [Feedback(index, index % policy.arms, 0.0) for index in range(window)]
        folded = policy.learn_all(state, rows)
        return np.array([_two_blocks(policy, folded, 0.0 if world else FAR, noise) for _ in range(trials)])

    worlds = f"the reward of the first block's first user is {FAR:g} (clipped to 1) or 0"
    return AuditPair(run, worlds, "two released blocks and their log-likelihood ratio", policy.epsilon, trials=8_000)


def _two_blocks(policy: TwoPhasePolicy, state: State, reward: float, noise: Noise) -> tuple[float, float, float]:
    while state["exploring"][0]:
        state = policy.release(state, noise)
    seen, rewards = [], [reward]
    for _ in range(2):
        arm, first, stop = (int(entry) for entry in state["open"])
        rewards += [0.0] * (stop - first - len(rewards))
        feedbacks = [Feedback(first + place, arm, rewards[place]) for place in range(stop - first)]
        before = state["sums"][arm] if policy.keep else state["base_sums"][arm]
        state, rewards = policy.release(policy.learn_all(state, feedbacks), noise), []
        seen.append(float(state["sums"][arm] - before) / UNIT)
    scale = policy.scale / UNIT
    return seen[0], seen[1], float(evidence(np.array(seen), scale).sum())


@register("audit-pair", "policy:gdp-ncb/threshold")
def threshold_pair(policy: TwoPhasePolicy) -> AuditPair:
    """The end of a uniform phase that a noisy threshold ends: one reward raises every later test by one.

    Half of the budget pays for the test. The first reward is 1 or 0 and all that follow are 0, on the threshold or one
    below it: every test that is not passed points to the lower one, and only the noise of the threshold, drawn once for
    all of them, keeps these hints from adding up.
    """
    made, states = _tested(policy, TESTS + 1, 1)

    def passed(world: int, noise: Noise, rng: Generator) -> int:
        state = states[world]
        for test in range(TESTS):
            state = made.release(state, noise)
            if not state["exploring"][0]:
                return test
            state = made.learn(state, Feedback(test + 1, 0, 0.0))
        return TESTS

    words = "the first reward is 0 or 1, and with it every test lies below the threshold or on it"
    return AuditPair(each(passed), words, "tests until the phase ends", made.epsilon / 2, trials=10_000)


def _tested(policy: Any, horizon: int, count: int) -> tuple[Any, list[State]]:
    """A policy whose uniform phase ends by a threshold of one, and its states after so many rewards.

    They are 1, but for the first one, which is 0 in the first state.
    """
    made = replace(policy, arms=1, horizon=horizon, epsilon=2.0, phase1="threshold", tau=1.0, phase_rounds=None)
    rewards = [[first, *[1.0] * (count - 1)] for first in (0.0, 1.0)]
    rows = [[Feedback(index, 0, reward) for index, reward in enumerate(given)] for given in rewards]
    return made, [made.learn_all(made.start(), given) for given in rows]


@register("audit-pair", "policy:gdp-ncb/after-threshold")
def after_threshold_pair(policy: TwoPhasePolicy) -> AuditPair:
    """The noisy sum that follows the threshold: it has the other half of the budget.

    All rewards after the first ones are 0, so that the sum is the same whenever the test was passed.
    """
    made, states = _tested(policy, TESTS + HIGH, HIGH)

    def noisy_sum(world: int, noise: Noise, rng: Generator) -> float:
        state, following = states[world], HIGH
        while state["exploring"][0]:
            state = made.release(state, noise)
            if state["exploring"][0] and following < made.horizon - 1:
                state, following = made.learn(state, Feedback(following, 0, 0.0)), following + 1
        return float(state["sums"][0])

    words = "the first reward of a uniform phase is 0 or 1"
    return AuditPair(each(noisy_sum), words, "the noisy sum after the threshold", made.epsilon / 2, trials=10_000)


@register("audit-pair", "policy:ldp-ncb")
@register("audit-pair", "policy:ldp-ucb")
@register("audit-pair", "policy:local-nash")
def report_pair(policy: Any) -> AuditPair:
    """What one user sends, for a reward of 0 or far above 1 (the device clips it)."""

    def sent(world: int, noise: Noise, rng: Generator) -> float:
        return float(policy.report(Feedback(0, 0, FAR if world else 0.0), noise).value)

    return AuditPair(each(sent), "the user's reward is 0 or 7 (clipped to 1)", "the report", policy.epsilon)


@register("audit-pair", "policy:private-nash/arrivals")
def private_nash_arrivals(policy: PrivateNash) -> AuditPair:
    """A reward of the first block is 1 or missing, and both its sum and its count are noised."""
    return episodes_pair(replace(policy, arrivals="private"))


@register("audit-pair", "policy:private-nash/late")
def late_private_nash_pair(policy: PrivateNash) -> AuditPair:
    """Rewards come seven decisions late; arrivals are hidden where the policy hides them, and replaced otherwise."""
    treat: Treat = "private" if policy.hides_arrivals else "default"
    return late_pair(policy, Lateness(numbers=(7.0,), window=7, treat=treat))


@register("audit-pair", "policy:private-nash/seats")
@register("audit-pair", "policy:adap-ucb/seats")
def seated_pair(policy: EpisodePolicy) -> AuditPair:
    """Releases by arrival: all others come late, user 0 at once, with a reward of 1 or 0."""
    return seats_pair(policy, "public")


@register("audit-pair", "policy:private-nash/hidden-seats")
def hidden_seats_pair(policy: PrivateNash) -> AuditPair:
    """Releases by arrival where arrivals are hidden: user 0's reward comes at once or never."""
    return seats_pair(policy, "private" if policy.hides_arrivals else "default")


def seats_pair(policy: Any, treat: Treat) -> AuditPair:
    """The same policy, releasing by arrival.

    The window is so long that the first three pools are decided before the first one is released: what is looked at
    side by side then does not follow the noise of one trial.
    """
    return late_pair(
        replace(policy, released_by="arrivals"), Lateness(numbers=(SEATED,), window=int(SEATED), treat=treat)
    )
