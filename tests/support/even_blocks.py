"""A policy for tests of the loop, the way a plug-in would write it: short blocks of one arm, several open at a time."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fairveil.bandits.nash.base import check_arm, global_guarantee
from fairveil.bandits.protocol import HEADER, Block, Clock, Decision, Feedback, Policy, check_header, raw_feedback
from fairveil.configuration import configuration
from fairveil.fields import Count, Epsilon, described
from fairveil.privacy.events import ParallelEvent, PureEvent
from fairveil.proof.pairs import AuditPair
from fairveil.registry import register
from fairveil.state import copy_state

UNIT = 2**20


@register("policy", "even-blocks")
@configuration
class EvenBlocks(Policy):
    """Blocks of equal length; the arm with the best published mean, arms without one first.

    Guarantee: epsilon-DP (pure, global) for one reward, which enters one noisy sum. Cost: one parallel event.

    >>> EvenBlocks(arms=2, epsilon=1.0).start()["sums"].tolist()
    [0, 0]
    """

    family: ClassVar[str] = "nash"
    clock: ClassVar[Clock] = "settled"
    released: ClassVar[tuple[str, ...]] = ("sums", "counts", "open", "ahead", "number")

    arms: Count = described("number of arms", example=3)
    epsilon: Epsilon = described("budget of one reward", example=1.0)
    length: Count = described("rounds of a block", default=5)

    def event(self):
        return ParallelEvent(PureEvent(self.epsilon))

    def guarantee(self):
        return global_guarantee(self.epsilon)

    def start(self):
        return {
            "sums": np.zeros(self.arms, np.int64),
            "counts": np.zeros(self.arms),
            "open": np.zeros((0, 4), np.int64),
            "ahead": np.zeros(1, np.int64),
            "number": np.zeros((), np.int64),
            "raw": np.zeros(3, np.int64),
        }

    def open(self, state, now, rng):
        opened = state["open"]
        if len(opened) and now < opened[-1][2]:
            return state
        pending = np.bincount(opened[:, 0], minlength=self.arms)
        means = np.where(state["counts"] > 0, state["sums"] / np.maximum(state["counts"], 1), np.inf)
        arm = int(np.argmax(means - pending * UNIT * 0.01))
        return self.reopen(state, Block("", now, now + self.length, arm))

    def reach(self, state):
        return int(state["ahead"][0])

    def reopen(self, state, block):
        row = [[block.arm, block.first, block.stop, 0]]
        return {**state, "open": np.vstack([state["open"], row]), "ahead": np.array([block.stop])}

    def decide(self, state, round, rng):
        for arm, first, stop, _ in state["open"]:
            if first <= round.index < stop:
                return Decision(int(arm))
        raise AssertionError("no block holds this round")

    def block(self, state):
        if not len(state["open"]):
            return None
        arm, first, stop, _ = (int(value) for value in state["open"][0])
        return Block(f"block-{int(state['number'])}", first, stop, arm)

    def open_blocks(self, state):
        number = int(state["number"])
        rows = enumerate(state["open"].tolist())
        return [Block(f"block-{number + place}", first, stop, arm) for place, (arm, first, stop, _) in rows]

    def learn(self, state, feedback):
        feedback = raw_feedback(feedback)
        check_arm(feedback, self.arms)
        block = self.block(state)
        if block is None or not max(block.first, state["raw"][2]) <= feedback.index < block.stop:
            return state
        after = copy_state(state)
        after["raw"][2] = feedback.index + 1
        if feedback.reward is not None:
            after["raw"][0] += round(min(max(feedback.reward, 0.0), 1.0) * UNIT)
            after["raw"][1] += 1
        return after

    def draw(self, state, noise):
        block = self.block(state)
        total = int(state["raw"][0]) + int(noise.laplace(UNIT / self.epsilon)[0])
        return {HEADER: block.header, "sum": np.array(total), "count": np.array(float(state["raw"][1]))}

    def adopt(self, state, name, value):
        block = check_header(self.block(state), name, value)
        after = self._next(state, block)
        after["sums"][block.arm] += int(value["sum"])
        after["counts"][block.arm] += float(value["count"])
        return after

    def release(self, state, noise):
        return self.adopt(state, self.block(state).name, self.draw(state, noise))

    def lost(self, state, name):
        return self._next(state, self.block(state))

    def _next(self, state, block):
        after = copy_state(state)
        after["open"] = state["open"][1:].copy()
        after["number"] = np.array(int(state["number"]) + 1)
        after["raw"] = np.array([0, 0, block.stop], np.int64)
        return after


@register("audit-pair", "policy:even-blocks")
def first_block(policy):
    """User 0's reward is 7 (clipped to 1) or 0."""

    def run(world, trials, noise, rng):
        state = policy.open(policy.start(), 0, rng)
        state = policy.learn(state, Feedback(0, int(state["open"][0][0]), 7.0 * world))
        return [float(policy.draw(state, noise)["sum"]) for _ in range(trials)]

    return AuditPair(run, "user 0's reward is 7 (clipped to 1) or 0", "the released sum", policy.epsilon)
