"""Neighbouring worlds of private exposure policies, as an observer of the messages sees them.

Everything is driven through the methods that serve people: `decide`, `learn` and `release`, with the noise that the
audit is given; what is read are the messages that a release publishes.

*messages*: agent 0's first row is one or the other of the two rows that move its sum most; everything else is empty.
The observer projects every message on the difference, which is the likelihood ratio of Gaussian noise.

*reaction*: agent 0's first reward is +1 or -1 on action e1; afterwards it is shown e1 and e2 and earns nothing, and
plays as its policy tells it until the first synchronisation. The observer projects the messages on
e1 e1^T - e2 e2^T. A policy that reads its own raw rows plays e1 in one world and e2 in the other, so one interaction
moves as many rows as the interval has; a frozen policy moves one.

*late*: the driver of late rewards. Agent 0's first interaction is one or the other as above, its reward the largest or
the smallest; where arrivals are hidden it comes at once or never. The observer also sees when messages were published
and how many rows they hold.

*secure*: sums of shares. The observer is the coordinator with one colluding agent: it has the sum of a block, has taken
off everything but agent 0's numbers and the shares of the honest agents, and projects it on the difference.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from fairveil.arrays import Floats
from fairveil.bandits.exposure.batched_priv_fairx import BatchedPrivFairx
from fairveil.bandits.exposure.private import PrivatePolicy
from fairveil.bandits.feedback import Lateness, Outstanding, Treat, hand_over
from fairveil.bandits.protocol import Candidate, Feedback, Round
from fairveil.configuration import describe
from fairveil.errors import ContractError, SpecError
from fairveil.privacy.guarantee import Neighbours
from fairveil.privacy.noise import Noise
from fairveil.proof import AuditPair
from fairveil.proof.pairs import Run, finer_claim
from fairveil.randomness import Generator
from fairveil.registry import register
from fairveil.state import State

WATCHED = 8
"""Messages that are looked at: a tree shows four nodes over the first leaf by then."""
REACTION = 64
"""Rounds in which an agent may react before its first message."""
FEW_REACTIONS = 1_200
"""Trials of the reaction, which plays round by round: raw rows shift the message by many standard deviations."""
EXCESS = 16.0
"""Contexts come this much longer than their bound, and rewards by its square."""
CROWD, LATE_MESSAGES, LATE_ROUNDS = 40, 3, 2
"""Trials that share one federation of the late pair, messages looked at, and rounds a reward may be late."""
LATE_TRIALS = 4_000
"""Trials of the late pair, which is driven decision by decision: they show half of the noise missing."""
GROWTH = 1.0 + 1e-9
"""Growth of a schedule that synchronises after every round from its first on."""


def worst_interactions(policy: PrivatePolicy) -> tuple[Floats, Floats]:
    """Two scaled rows [x/L, w y/B] that are orthogonal and as long as rows can be: their exchange moves a sum most."""
    weight = min(policy.reward_weight, 1.0)
    first, second = np.zeros(policy.dimension + 1), np.zeros(policy.dimension + 1)
    first[0] = 1.0
    second[0] = -(weight**2)
    if policy.dimension > 1:
        second[1] = np.sqrt(1.0 - weight**4)
    first[-1] = second[-1] = weight
    return first, second


def worst_direction(policy: PrivatePolicy) -> Floats:
    """The exchange of these rows, as a direction of length one in which messages are read."""
    first, second = worst_interactions(policy)
    difference = np.outer(first, first) - np.outer(second, second)
    return np.asarray(difference / np.linalg.norm(difference))


def side_by_side(policy: PrivatePolicy, copies: int, first: int = 1) -> PrivatePolicy:
    """The same policy with as many agents as trials: each draws its own noise for its own rows, as in a federation.

    Its first synchronisation comes after ``first`` rounds; the sums are sized as they were, whatever the published
    schedule would make of so many agents. Trees may be released at any time.
    """
    table = {**describe(policy), "agents": copies, "merit": policy.merits[0].to_list(), "agent_rounds": None}
    del table["name"]
    if "outstanding" in table:  # batches: every row is in one message, and the noise of one knows nothing of the others
        table |= {"schedule": {"name": "growing", "first": first, "factor": GROWTH}, "outstanding": 0}
    else:
        table |= {"schedule": {"name": "determinant", "max_syncs": policy.room}, "releases": policy.room}
    twin = type(policy)(**table)
    if twin.running != policy.running:
        raise ContractError("the noise depends on the number of agents", path=policy.name)
    return twin


def learned(policy: PrivatePolicy, state: State, number: int, contexts: Floats, arms: Any, reward: float) -> State:
    """The state after one round of all agents, who were shown these contexts and earned this reward."""
    candidates = tuple(Candidate(0, context) for context in contexts)
    first = policy.number_of(number, 0)
    rounds = (Round(first + i, candidates, i) for i in range(policy.agents))
    return policy.learn_all(state, (Feedback(shown.index, int(arms[shown.agent]), reward, shown) for shown in rounds))


def watched(policy: PrivatePolicy) -> int:
    """Messages that are looked at: up to a power of two, where a tree shows the nodes over the first leaf alone."""
    return int(min(WATCHED, 1 << (policy.room.bit_length() - 1)))


def run_messages(policy: PrivatePolicy, world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
    """First messages along the difference of the worlds; the agents of one policy are the trials."""
    rows, projection = worst_interactions(policy), worst_direction(policy)
    # Longer than allowed, unless that is refused or a full reward is not the worst: clipping makes the worst rows.
    excess = 1.0 if policy.strict or policy.reward_weight > 1 else EXCESS
    context = rows[world][None, :-1] * policy.context_bound * excess
    reward = _largest(policy) * excess**2
    twin = side_by_side(policy, trials)
    state = learned(twin, twin.start(), 0, context, np.zeros(trials, np.int64), reward)
    return messages(twin, state, watched(policy), noise, projection)


def messages(twin: PrivatePolicy, state: State, count: int, noise: Noise, projection: Floats) -> Floats:
    """What the agents publish in the next releases, along a projection."""
    seen = np.empty((twin.agents, count))
    for release in range(count):
        state = twin.release(state, noise)
        seen[:, release] = (twin.sent(state, range(twin.agents)) * projection).sum(axis=(1, 2))
    return seen


def run_reaction(policy: PrivatePolicy, world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
    """First messages along e1 e1^T - e2 e2^T, with the policy's own reaction to its first reward."""
    projection = np.zeros((policy.dimension + 1, policy.dimension + 1))
    projection[0, 0], projection[1, 1] = 1.0, -1.0
    choices = np.eye(policy.dimension)[:2] * policy.context_bound
    candidates = tuple(Candidate(0, context) for context in choices)
    rounds = min(REACTION, policy.horizon)
    twin = side_by_side(policy, trials, rounds)
    flipped = policy.reward_bound if world == 0 else -policy.reward_bound
    state = learned(twin, twin.start(), 0, choices, np.zeros(trials, np.int64), flipped)
    for played in range(1, rounds):
        shown = (Round(twin.number_of(played, i), candidates, i) for i in range(trials))
        arms = [twin.decide(state, one, rng).arm for one in shown]
        state = learned(twin, state, played, choices, arms, 0.0)
    return messages(twin, state, watched(policy), noise, projection)


def late_feedback(policy: PrivatePolicy, hidden: bool) -> Lateness:
    """Rewards two rounds late; where arrivals are hidden, a missing one counts as the smallest reward."""
    window, smallest = LATE_ROUNDS * CROWD, -_largest(policy)
    treat: Treat = "default" if hidden else "public"
    return Lateness(numbers=(float(window),), window=window, treat=treat, default=smallest if hidden else 0.0)


def _largest(policy: PrivatePolicy) -> float:
    """The reward of the worst interactions."""
    return float(worst_interactions(policy)[0][-1] / policy.reward_weight * policy.reward_bound)


def run_late(
    policy: BatchedPrivFairx,
    lateness: Lateness,
    made: type[Outstanding],
    world: int,
    trials: int,
    noise: Noise,
    rng: Generator,
) -> Floats:
    """Of the first messages: when they were published, how many rows count, what they say along the difference."""
    twin, projection, sign = side_by_side(policy, CROWD), worst_direction(policy), -1.0 if world else 1.0
    context = sign * worst_interactions(policy)[world][:-1] * policy.context_bound  # a row and its negative are one
    contexts = (Candidate(0, context), Candidate(0, np.zeros(policy.dimension)))
    reward, silent = sign * _largest(policy), bool(world) and lateness.hidden

    def shown(index: int) -> Round:
        return Round(index, (contexts[index >= CROWD],), index % CROWD)

    def federation() -> Floats:
        state, outstanding, seen = twin.start(), made(twin, lateness), list[Floats]()
        while len(seen) < min(LATE_MESSAGES, twin.syncs):
            now = outstanding.now
            outstanding.decided(twin.decide(state, shown(now), rng).arm, shown(now))
            late = now if lateness.hidden else now - lateness.window
            if late >= (CROWD if silent else 0):
                outstanding.arrive(Feedback(late, 0, reward if late < CROWD else 0.0, shown(late)))
            before = int(state["syncs"])
            state = hand_over(twin, state, outstanding, noise)
            if state["syncs"] > before:
                along = (twin.sent(state, range(CROWD)) * projection).sum(axis=(1, 2))
                public = np.tile([now, float(state["counted"][0])], (CROWD, 1))
                seen.append(np.column_stack([public, along]))
        return np.concatenate(seen, axis=1)

    return np.concatenate([federation() for _ in range(-(-trials // CROWD))])[:trials]


def _pair(policy: PrivatePolicy, run: Run, worlds: str, statistic: str, trials: int = 20_000) -> AuditPair:
    return AuditPair(run, worlds, statistic, policy.epsilon, policy.delta, finer_claim(policy.event()), trials)


def messages_pair(policy: PrivatePolicy) -> AuditPair:
    """All messages of one agent when its first interaction is replaced."""
    worlds = "the first interaction of agent 0 is exchanged for the one that moves its sum most"
    return _pair(policy, partial(run_messages, policy), worlds, "messages along the difference")


def reaction_pair(policy: PrivatePolicy) -> AuditPair:
    """The first message of one agent when its first reward is flipped and the agent reacts to it."""
    if policy.dimension < 2:
        raise SpecError("this pair needs two directions", path="target.dimension", given=policy.dimension, allowed="2")
    worlds = "the first reward of agent 0 is +1 or -1; its later choices react to it as the policy does"
    pair = _pair(policy, partial(run_reaction, policy), worlds, "messages along e1 e1^T - e2 e2^T", FEW_REACTIONS)
    return replace(pair, covers=policy.neighbours is not Neighbours.REPLACE_INTERACTION_ROWS_FIXED)


def late_pair(
    policy: BatchedPrivFairx, lateness: Lateness | None = None, made: type[Outstanding] = Outstanding
) -> AuditPair:
    """The driver of late rewards, with arrivals hidden unless told otherwise; ``made``: what holds rounds under way."""
    late = late_feedback(policy, True) if lateness is None else lateness
    comes = "the largest and comes at once, or never comes" if late.hidden else "the largest or the smallest, and late"
    worlds = f"the first interaction of agent 0 is exchanged; its reward is {comes}"
    statistic = "time of messages, rows that count, and messages along the difference"
    return _pair(policy, partial(run_late, policy, late, made), worlds, statistic, LATE_TRIALS)


def seats_pair(policy: BatchedPrivFairx) -> AuditPair:
    """The same where a batch holds the rounds that settle next: hidden arrivals get their seat at the window."""
    return late_pair(replace(policy, released_by="arrivals"))


def run_secure(policy: BatchedPrivFairx, world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
    """The sum of a block without what the colluders know: agent 0's exact numbers under the shares of the others."""
    rows, projection = worst_interactions(policy), worst_direction(policy)
    twin = side_by_side(policy, policy.agents)
    assert isinstance(twin, BatchedPrivFairx)
    context = rows[world][None, :-1] * policy.context_bound
    state = learned(twin, twin.start(), 0, context, np.zeros(twin.agents, np.int64), _largest(policy))
    units = np.tile(twin.exact_units(state, 0), (trials, 1))
    for _ in range(twin.agents - twin.colluding):
        units += twin.share(twin.agents).draws(noise, trials)
    return np.array([(twin.running.grid.publish(one) * projection).sum() for one in units])


def secure_pair(policy: BatchedPrivFairx) -> AuditPair:
    """What the coordinator and all agents that may collude learn of one block of secure sums."""
    agents = max(policy.agents, 3)
    merit = policy.merits[0].to_list()
    shared = replace(policy, agents=agents, merit=merit, sums="secure", colluding=1)
    worlds = "the first interaction of agent 0 is exchanged; all but its own and the honest agents' shares is known"
    return _pair(shared, partial(run_secure, shared), worlds, "the sum of a block along the difference")


register("audit-pair", "policy:batched-priv-fairx/secure")(secure_pair)
register("audit-pair", "policy:batched-priv-fairx/late")(late_pair)
register("audit-pair", "policy:batched-priv-fairx/seats")(seats_pair)
for _name in ("priv-fairx", "batched-priv-fairx"):
    register("audit-pair", f"policy:{_name}")(messages_pair)
    register("audit-pair", f"policy:{_name}/reaction")(reaction_pair)
