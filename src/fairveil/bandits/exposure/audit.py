"""Neighbouring worlds of private exposure policies, as an observer of the messages sees them.

*messages*: agent 0's first row is one or the other of the two rows that move its sum most; everything else is empty.
The observer projects every message on the difference.

*reaction*: agent 0's first reward is +1 or -1 on action e1; afterwards it is shown e1 and e2 and earns nothing, and
plays as its policy tells it until the first synchronisation. The observer projects the first message on
e1 e1^T - e2 e2^T. A policy that reads its own raw rows plays e1 in one world and e2 in the other, so one interaction
moves as many rows as the interval has; a frozen policy moves one.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from fairveil.bandits.exposure.belief import refresh
from fairveil.bandits.exposure.kernel import add_row, choose_law, draw_arm, make_row, raw_row
from fairveil.bandits.exposure.private import PrivatePolicy
from fairveil.compiling import njit
from fairveil.errors import SpecError
from fairveil.privacy.audit import AuditPair
from fairveil.privacy.noise import Noise
from fairveil.privacy.sums.base import State
from fairveil.randomness import Generator
from fairveil.registry import register

Floats = NDArray[np.float64]
WATCHED = 8
LITERAL_SYNCS = 64
"""Synchronisations after which re-inserted rows are looked at."""
BLOCK = 20_000
"""Trials that are simulated side by side."""


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


def watched(policy: PrivatePolicy, most: int) -> int:
    """Messages that are looked at: up to a power of two, where a tree shows the nodes over the first leaf alone."""
    return min(most, 1 << (policy.room.bit_length() - 1))


def run_messages(policy: PrivatePolicy, again: bool, world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
    """Projected messages. ``again`` inserts the first leaf at every synchronisation, as the literal listing does."""
    rows = worst_interactions(policy)
    difference = np.outer(rows[0], rows[0]) - np.outer(rows[1], rows[1])
    projection = (difference / np.linalg.norm(difference)).reshape(-1)
    parts = []
    for start in range(0, trials, BLOCK):
        copies = min(BLOCK, trials - start)
        wide = policy.sums.many(copies)
        state = wide.start()
        seen = np.empty((copies, watched(policy, LITERAL_SYNCS if again else WATCHED)))
        for release in range(seen.shape[1]):
            if release == 0 or again:
                state = wide.add(state, rows[world])
            state, estimate = wide.release(state, noise)
            seen[:, release] = _shown(policy, wide, state, estimate).reshape(copies, -1) @ projection
        parts.append(seen)
    return np.concatenate(parts)


def _shown(policy: PrivatePolicy, wide: object, state: State, estimate: Floats) -> Floats:
    """What the policy publishes out of its sum, for many streams side by side."""
    last = getattr(wide, "last_batch", None)
    return last(state) if last is not None else estimate


@njit(cache=True, nogil=True)
def _play_interval(rng, first_reward, rounds, rules, prior, target, centre, root, leaves):
    """Leaves of many trials: a first row e1 with this reward, then choices between e1 and e2 that earn nothing."""
    dimension = len(centre)
    contexts = np.zeros((2, dimension))
    contexts[0, 0] = 1.0
    contexts[1, 1] = 1.0
    base, means, law, slopes = np.empty(2), np.empty(2), np.empty(2), np.empty((2, dimension))
    work, factors = np.empty((6, max(2, 2 * dimension))), np.empty((2, dimension, dimension))
    row = np.empty(dimension + 1)
    middle, factor, local = centre.copy(), root.copy(), np.empty((dimension + 1, dimension + 1))
    for trial in range(len(leaves)):
        middle[:] = centre
        factor[:] = root
        local[:] = 0.0
        for step in range(rounds):
            choose_law(
                contexts, middle, factor, rules.kinds[0], rules.numbers[0], rules.tables[0],
                base, slopes, means, law, work,
            )  # fmt: skip
            arm = 0 if step == 0 else draw_arm(law, rng.random())
            reward = first_reward if step == 0 else 0.0
            make_row(contexts[arm], reward, rules.rows, row)
            add_row(row, leaves[trial])
            if rules.local:
                raw_row(contexts[arm], reward, rules.rows, row)
                add_row(row, local)
                refresh(prior, target, local, rules.scales, rules.rule[0], step + 1.0, middle, factor, factors)


def run_reaction(policy: PrivatePolicy, world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
    """The first message of agent 0 along e1 e1^T - e2 e2^T, with the policy's own reaction to its first reward."""
    state = policy.start()
    rounds, width = int(state["next"]), policy.dimension + 1
    projection = np.zeros((width, width))
    projection[0, 0], projection[1, 1] = 1.0, -1.0
    first, second = policy.sums.grid.upper
    parts = []
    for start in range(0, trials, BLOCK):
        copies = min(BLOCK, trials - start)
        leaves = np.zeros((copies, width, width))
        reward = policy.reward_bound if world == 0 else -policy.reward_bound
        _play_interval(
            rng, reward, rounds, policy.rules(state), state["prior"][0], state["target"][0],
            state["centre"][0], state["root"][0], leaves,
        )  # fmt: skip
        units = np.rint(np.ldexp(leaves[:, first, second], policy.sums.grid.sum_bits)).astype(np.int64)
        wide = policy.sums.many(copies)
        _, estimate = wide.release({**wide.start(), "open": units.reshape(-1)}, noise)
        parts.append(estimate.reshape(copies, -1) @ projection.reshape(-1))
    return np.concatenate(parts)


def messages_pair(policy: PrivatePolicy) -> AuditPair:
    """All messages of one agent when its first interaction is replaced."""
    return AuditPair(
        partial(run_messages, policy, False),
        "the first interaction of agent 0 is exchanged for the one that moves its sum most",
        "messages along the difference",
        policy.epsilon,
        policy.delta,
    )


def reaction_pair(policy: PrivatePolicy) -> AuditPair:
    """The first message of one agent when its first reward is flipped and the agent reacts to it."""
    if policy.dimension < 2:
        raise SpecError("this pair needs two directions", path="target.dimension", given=policy.dimension, allowed="2")
    return AuditPair(
        partial(run_reaction, policy),
        "the first reward of agent 0 is +1 or -1; its later choices react to it as the policy does",
        "first message along e1 e1^T - e2 e2^T",
        policy.epsilon,
        policy.delta,
    )


def literal_listing(policy: PrivatePolicy) -> AuditPair:
    """Broken twin: the published listing taken literally, where rows are inserted at every sync again."""
    return AuditPair(
        partial(run_messages, policy, True),
        "the first interaction of agent 0 is exchanged, and inserted again at every synchronisation",
        "messages along the difference",
        policy.epsilon,
        policy.delta,
    )


for _name in ("priv-fairx", "batched-priv-fairx"):
    register("audit-pair", f"policy:{_name}")(messages_pair)
    register("audit-pair", f"policy:{_name}/reaction")(reaction_pair)
