"""GDP-NCB's two phases in the step API: uniform exploration, then doubling blocks of one arm, on the decided clock.

Blocks close on the number of decisions; a reward that comes after its block has closed is never used, because putting
it into a later one would choose its block after the fact. Where rewards come late, use `private-nash`.

The uniform phase of GDP-NCB in compiled code: timed, with a sound noisy threshold, or with fresh printed tests.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from fairveil.arrays import Ints
from fairveil.bandits.environments.arms import BERNOULLI, UNIT, below, draw
from fairveil.bandits.feedback import AT_ONCE
from fairveil.bandits.nash.base import NashPolicy, check_arm, check_horizon, laplace_scale, world_of
from fairveil.bandits.nash.blocks import (
    Known,
    Shape,
    block_length,
    candidates,
    empty_known,
    new_scratch,
    nothing_pending,
    nth,
    open_block,
    place_of,
    publish,
    simulate,
    sources_of,
)
from fairveil.bandits.nash.late import compiled_lateness
from fairveil.bandits.nash.rounds import STILL
from fairveil.bandits.nash.tally import Stretch
from fairveil.bandits.protocol import Decision, Feedback, Report, Round, drawn_evenly, raw_feedback
from fairveil.bandits.simulate import Case, Simulator, Streams
from fairveil.compiling import njit
from fairveil.configuration import configuration, unless
from fairveil.fields import Count, Epsilon, NonNegative, described
from fairveil.privacy.events import Event, ParallelEvent, PureEvent
from fairveil.privacy.grid import clip_unit, to_units
from fairveil.privacy.noise import Noise, compiled_laplace, laplace_parameter
from fairveil.randomness import Generator
from fairveil.state import State, copy_state

TIMED, ABOVE, FRESH = range(3)
PHASE_IN_WORDS = "rounds of the uniform phase; the paper's number when left out"


class Exploration(NamedTuple):
    """How the phase ends: after ``limit`` rounds, or when a noisy sum reaches ``tau`` (grid steps) before that.

    ``scale``: of the noise on a test and on the threshold, in grid steps, and ``success`` the same as the parameter of
    compiled draws; both 0 where nothing is tested.
    """

    kind: int
    limit: int
    tau: int = 0
    scale: float = 0.0
    success: float = 0.0


class Finish(NamedTuple):
    """What is released when the phase ends: noise on every arm's sum (parameter 0: raw sums stay the base of all later
    releases, as printed), on its count too, and whether every noisy test was published on the way.
    """

    success: float
    noisy_counts: bool
    publish_tests: bool


class Gathered(NamedTuple):
    """Raw sums (grid units) and numbers of rewards of every arm in the uniform phase."""

    sums: Ints
    counts: Ints


@njit(cache=True, nogil=True)
def explore_uniformly(rule, finish, known, raw, laws, sources, rounds):
    """Play the phase for at most ``rounds`` rounds; returns rounds, tests made, and whether the phase is over."""
    explore, world, noise = sources.explore, sources.world, sources.noise
    kind, chance, low, high, rows, _ = laws
    sums, counts, shown_sums, shown_counts = raw.sums, raw.counts, known.sums, known.counts  # once: rounds read them
    arms = counts.size
    threshold, drawn, tests = 0, False, 0
    now, over = 0, False
    limit = min(rounds, rule.limit)
    while now < limit and not over:
        arm = below(explore, arms)
        if kind[arm] == BERNOULLI:
            sums[arm] += UNIT if world.random() < chance[arm] else 0
        else:
            sums[arm] += np.int64(draw(kind, chance, low, high, rows, arm, now, world) * UNIT)
        counts[arm] += 1
        now += 1
        if rule.kind == TIMED:
            continue
        if rule.kind == ABOVE and not drawn:
            threshold = compiled_laplace(noise, rule.success)
            drawn = True
        query = sums[arm] + compiled_laplace(noise, rule.success)
        tests += 1
        if finish.publish_tests:
            shown_sums[arm], shown_counts[arm] = query, counts[arm]
            over = query > rule.tau
        else:
            over = query >= rule.tau + threshold
    over = over or now >= rule.limit
    if not over:
        return now, tests, False
    for arm in range(arms):
        if finish.success > 0:
            shown_sums[arm] = sums[arm] + compiled_laplace(noise, finish.success)
            shown_counts[arm] = counts[arm]
            if finish.noisy_counts:
                shown_counts[arm] += compiled_laplace(noise, finish.success) / UNIT
            known.base_sums[arm], known.base_counts[arm] = shown_sums[arm], shown_counts[arm]
        else:
            shown_counts[arm] = counts[arm]
            known.base_sums[arm], known.base_counts[arm] = sums[arm], counts[arm]
        known.played[arm] = shown_counts[arm] > 0
    return now, tests, True


ARM, FIRST, STOP = range(3)
"""Entries of ``open``."""
SUM, ANSWERED = range(2)
"""Entries of ``block``: raw sum and number of the rewards of the open block."""


@configuration
class TwoPhasePolicy(NashPolicy):
    """Base of GDP-NCB and its variants; subclasses give numbers, the end of the uniform phase, and what it releases.

    State: one entry an arm as in `fairveil.bandits.nash.blocks.Known`; the open block [arm, first, stop], which during
    the uniform phase has no arm (-1); raw sums and counts of the uniform phase; the pull that is to be tested [arm,
    round + 1]; the noisy threshold [value, drawn or not]; raw sum and number of the open block.
    """

    horizon_free: ClassVar[bool] = False
    released: ClassVar[tuple[str, ...]] = (*Known._fields, "open", "exploring", "released")
    arrivals = unless("public")

    arms: Count = described("number of treatments", example=3)
    horizon: Count = described("number of rounds it is built for", example=1000)
    epsilon: Epsilon = described("budget of one reward", example=1.0)
    c: NonNegative = described("weight of the confidence width", default=3.0)
    alpha: NonNegative = described("how cautious the index is; larger explores more", default=3.1)

    def exploration(self) -> Exploration:
        """How the uniform phase ends."""
        raise NotImplementedError

    def finish(self) -> Finish:
        """What is released when the uniform phase ends."""
        raise NotImplementedError

    @property
    def log_horizon(self) -> float:
        """ln T, at least ln 2: a horizon of one round has one release."""
        return math.log(max(2, self.horizon))

    @property
    def keep(self) -> bool:
        """Noisy sums of all blocks of an arm add up; otherwise the last one stands beside the uniform phase."""
        return False

    @property
    def release_epsilon(self) -> float:
        """What the noise on the sum of one block costs."""
        raise NotImplementedError

    def cost(self, closed: int, uniform_pulls: int, releases: int) -> float:
        """Epsilon of the person who paid most."""
        return float(self.epsilon) if releases > 0 else 0.0

    @property
    def hides_arrivals(self) -> bool:
        return bool(self.arrivals == "private")

    @cached_property
    def scale(self) -> float:
        """Scale of the noise on the sum of a block, in grid steps."""
        return laplace_scale(1, self.release_epsilon)

    @cached_property
    def _rule(self) -> Exploration:
        return self.exploration()

    def shape(self) -> Shape:
        success = laplace_parameter(self.scale)
        return Shape(success, private_counts=self.hides_arrivals, keep=self.keep, pace=STILL)

    def event(self) -> Event:
        return ParallelEvent(PureEvent(self.epsilon))

    # State and decisions ----------------------------------------------------------------------------------------------

    def start(self) -> State:
        known = self._blank()
        return {
            **known._asdict(),
            "open": np.array([-1, 0, self._rule.limit], np.int64),
            "exploring": np.ones(1, np.bool_),
            "raw_sums": np.zeros(self.arms, np.int64),
            "raw_counts": np.zeros(self.arms, np.int64),
            "tested": np.zeros(2, np.int64),
            "threshold": np.zeros(2, np.int64),
            "block": np.zeros(2, np.int64),
            "released": np.zeros(1, np.int64),
        }

    def _blank(self) -> Known:
        known = empty_known(self.arms)
        known.lengths[:] = 1  # the doubling counter: a first block has two rounds
        return known

    def decide(self, state: State, round: Round, rng: Generator) -> Decision:
        check_horizon(round, self.horizon)
        if state["exploring"][0]:
            return drawn_evenly(self.arms, rng)
        return Decision(int(state["open"][ARM]))  # also past the block's end, where its release was refused

    def learn(self, state: State, feedback: Feedback | Report) -> State:
        return self.learn_all(state, (feedback,))

    def learn_all(self, state: State, feedbacks: Iterable[Feedback | Report]) -> State:
        after, exploring = copy_state(state), bool(state["exploring"][0])
        arm, first, stop = (int(entry) for entry in state["open"])
        arms, rewards = list[int](), list[float]()
        for feedback in feedbacks:
            check_arm(feedback, self.arms)
            reward = raw_feedback(feedback).reward
            # outside the uniform phase only rewards of the open block: others have closed, or are of another arm
            if reward is not None and (exploring or (first <= feedback.index < stop and arm == feedback.arm)):
                arms.append(feedback.arm)
                rewards.append(reward)
                after["tested"][:] = (feedback.arm, feedback.index + 1) if exploring else 0
        values = to_units(clip_unit(np.array(rewards, np.float64), strict=self.strict))
        if exploring:
            np.add.at(after["raw_sums"], arms, values)
            np.add.at(after["raw_counts"], arms, 1)
        else:
            after["block"] += (int(values.sum()), len(values))
        return after

    # Releases ---------------------------------------------------------------------------------------------------------

    def due(self, state: State, settled: int) -> str | None:
        number = int(state["released"][0])
        if settled >= state["open"][STOP]:
            return f"uniform-{number}" if state["exploring"][0] else f"block-{number}"
        tested = state["exploring"][0] and self._rule.kind != TIMED and state["tested"][1] > 0
        return f"test-{number}" if tested else None

    def release(self, state: State, noise: Noise) -> State:
        after = copy_state(state)
        if not state["exploring"][0]:
            self._release_block(after, noise)
            return self._next(after)
        arm, latest = (int(entry) for entry in after["tested"])
        if self._rule.kind != TIMED and latest > 0:
            after["tested"][:] = 0
            if not self.test(after, arm, noise):
                after["released"] += 1
                return after
            after["open"][STOP] = latest
        self.publish_uniform(after, noise)
        return self._next(after)

    def test(self, after: State, arm: int, noise: Noise) -> bool:
        """One noisy query of the uniform phase, in place: is the phase over?"""
        raise NotImplementedError

    def publish_uniform(self, after: State, noise: Noise) -> None:
        """Release what the uniform phase has gathered, in place."""
        raise NotImplementedError

    def _release_block(self, after: State, noise: Noise) -> None:
        total = int(after["block"][SUM]) + int(noise.laplace(self.scale)[0])
        count = float(after["block"][ANSWERED])
        if self.hides_arrivals:
            count += int(noise.laplace(self.scale)[0]) / UNIT
        publish(self.keep, known_of(after), int(after["open"][ARM]), total, count, 2 if self.hides_arrivals else 1)

    def _next(self, after: State) -> State:
        """Open the next block; ties go to the lowest arm."""
        known, now, scratch = known_of(after), int(after["open"][STOP]), new_scratch(self.arms)
        if after["exploring"][0]:
            known.played[:] = known.counts > 0  # an arm that the uniform phase has missed comes first
        candidates(self._numbers, STILL, known, nothing_pending(self.arms), scratch, now)
        arm = int(nth(scratch.marked, 0))
        stop = now + int(block_length(1, 0.0, known.played[arm], known.lengths[arm]))
        open_block(known, arm, stop - now)
        after["open"][:] = (arm, now, stop)
        after["exploring"][0] = False
        after["block"][:] = 0
        after["released"] += 1
        return after

    def lost(self, state: State, block: str) -> State:
        """A lost test forgets the query; a lost uniform phase starts the blocks without it."""
        after = copy_state(state)
        after["tested"][:] = 0
        if block.startswith("test"):
            after["released"] += 1
            self.forget_test(after)
            return after
        if state["exploring"][0]:
            after["raw_sums"][:], after["raw_counts"][:] = 0, 0
        else:
            after["closed"][int(state["open"][ARM])] += 1
        return self._next(after)

    def forget_test(self, after: State) -> None:
        """What a lost test takes with it, in place."""

    # Simulation -------------------------------------------------------------------------------------------------------

    def coarse(self, case: Case) -> bool:
        return case.spec["noise"] == "seeded" and case.lateness == AT_ONCE

    def simulator(self, case: Case, streams: Streams) -> TwoPhaseSimulator | None:
        known = self.coarse(case) and streams.noise.stream is not None
        return TwoPhaseSimulator(self, case, streams) if known else None


class TwoPhaseSimulator(Simulator[Stretch]):
    """A whole run: the uniform phase round by round, then blocks."""

    def __init__(self, policy: TwoPhasePolicy, case: Case, streams: Streams) -> None:
        self.policy, self.world, self.arms = policy, case.environment, world_of(case)
        self.sources = sources_of(streams, True)
        self.known: Known = policy._blank()

    def advance(self, stop: int) -> Stretch:
        policy, laws = self.policy, self.arms.laws
        known, uniform = self.known, np.int32(policy.arms)
        raw = Gathered(np.zeros(policy.arms, np.int64), np.zeros(policy.arms, np.int64))
        now, tests, over = explore_uniformly(policy._rule, policy.finish(), known, raw, laws, self.sources, stop)
        pulls, self.releases = raw.counts.copy(), tests
        ends, codes = np.array([now]), np.array([uniform])
        if over:
            place, late = place_of(laws, self.arms.true_means), compiled_lateness(AT_ONCE)
            more = simulate(policy._numbers, policy.shape(), known, place, late, self.sources, now, stop)
            ends, codes = np.append(now, more[0]), np.append(uniform, more[1])
            pulls, self.releases = pulls + more[2], tests + len(more[3].at) + (policy.finish().success > 0)
        self.spent = policy.cost(int(known.closed.max()), int(raw.counts.max()), self.releases)
        return Stretch(codes.astype(np.int32), pulls, now, ends)

    def published(self) -> State:
        return self.known._asdict()


def known_of(state: State) -> Known:
    """The public arrays of a state, as compiled code takes them."""
    return Known(*(state[name] for name in Known._fields))
