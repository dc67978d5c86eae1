"""The Nash confidence bound with a trusted curator: Algorithm 1 of DP-NCB as printed, as plotted, and corrected."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np

from fairveil.bandits.environments.arms import ArmEnvironment
from fairveil.bandits.environments.laws import UNIT
from fairveil.bandits.nash.base import check_arm, check_horizon, global_guarantee, laplace_scale, unit_reward
from fairveil.bandits.nash.blocks import GDP, Recipe, simulate
from fairveil.bandits.nash.episodes import (
    ARM,
    ARRIVALS_IN_WORDS,
    CLOSES,
    EpisodePolicy,
    published,
)
from fairveil.bandits.nash.indices import parameters
from fairveil.bandits.nash.phase_one import ABOVE, FRESH, TIMED, Exploration, explore_uniformly
from fairveil.bandits.nash.runs import Intervals, Summary
from fairveil.bandits.protocol import Decision, Feedback, Report, Round, raw_feedback
from fairveil.bandits.simulate import Streams
from fairveil.configuration import configuration
from fairveil.errors import SpecError
from fairveil.fields import Count, Epsilon, NonNegative, Positive
from fairveil.privacy.grid import to_units
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.noise import Noise
from fairveil.randomness import Generator
from fairveil.registry import register
from fairveil.state import State, copy_state

EXPLORING = -2
"""Value of the open arm while the uniform phase lasts."""


@register("policy", "gdp-ncb")
@configuration
class GdpNcb(EpisodePolicy):
    """Uniform exploration, then doubling episodes of the arm with the largest Nash confidence bound.

    Guarantee (``variant="sound"``): epsilon-DP (pure, global) for one user's reward. A reward of the uniform phase
    enters one noisy sum of its arm that is kept for ever; a later reward enters one episode's noisy sum. With
    ``phase1="threshold"`` half of epsilon pays for one above-threshold test of the running sums (its threshold is
    noised once, every query afresh; all queries move the same way when one reward changes), half for the sums.
    Cost: one event for the whole run, parallel over blocks. Decide O(1), release O(arms), memory O(arms); simulated in
    O(uniform rounds + arms log T). Needs its horizon T and refuses to run past it.

    ``printed`` is Algorithm 1: a fresh noisy test at every uniform pull and all uniform rewards in every later
    release, with scale ln T / epsilon; its claim is not established and its uniform phase outlasts any horizon a
    machine can run. ``figure`` is how the published curves were made: floor(sqrt T) + 1 uniform rounds, ln of that in
    the index, means that start at 0; its true cost is (releases of one arm) epsilon / ln T.
    ``episodes="keep"`` adds up all noisy episode sums, ``"forget"`` replaces the last one.

    >>> GdpNcb(arms=5, horizon=10_000, epsilon=1.0).guarantee().established
    True
    >>> GdpNcb(arms=5, horizon=10_000, epsilon=1.0, variant="printed").guarantee().established
    False

    Reference: DP-NCB, Algorithm 1 (2026); errata: docs/errata/dp-ncb.md
    """

    horizon_free: ClassVar[bool] = False

    arms: Count
    horizon: Count
    epsilon: Epsilon
    c: NonNegative = 3.0
    alpha: NonNegative = 3.1
    variant: Literal["sound", "printed", "figure"] = "sound"
    phase1: Literal["fixed", "threshold"] = "fixed"
    phase_rounds: Count | None = None
    tau: Positive | None = None
    episodes: Literal["keep", "forget"] = "keep"
    strict: bool = False
    arrivals: Literal["public", "private"] = "public"

    def __post_init__(self) -> None:
        if self.variant == "sound" and self.phase1 == "threshold" and self.tau is None:
            raise SpecError(
                "a threshold needs its tau", path="tau", allowed="a positive sum of rewards", fix='or phase1 = "fixed"'
            )
        if self.arrivals == "private" and (self.variant != "sound" or self.phase1 == "threshold"):
            raise SpecError(
                "arrivals cannot be private here: every arrival is tested, or the variant is not sound",
                path="arrivals",
                given=self.arrivals,
                allowed='"public", or variant = "sound" with phase1 = "fixed"',
            )

    @property
    def sound(self) -> bool:
        return self.variant == "sound"

    @property
    def log_horizon(self) -> float:
        """ln T, at least ln 2: a horizon of one round has one release."""
        return math.log(max(2, self.horizon))

    @property
    def release_epsilon(self) -> float:
        return self.epsilon / self.log_horizon if not self.sound else super().release_epsilon

    @property
    def sum_epsilon(self) -> float:
        """What is left for a noisy sum of the uniform phase after the threshold test and noisy counts."""
        return self.release_epsilon / 2 if self.exploration().kind == ABOVE else self.release_epsilon

    def exploration(self) -> Exploration:
        """How the uniform phase ends, in grid steps."""
        window = self.phase_rounds or math.isqrt(self.horizon) + 1
        if self.variant == "printed":
            tau = self.tau or 1600 * (self.c**2 * self.log_horizon + self.log_horizon**2 / self.epsilon)
            return Exploration(FRESH, self.phase_rounds or self.horizon, round(tau * UNIT), self.success)
        if self.sound and self.phase1 == "threshold" and self.tau is not None:
            success = -math.expm1(-self.epsilon / (4 * UNIT))  # queries of sensitivity 1 at epsilon/2: scale 4/epsilon
            return Exploration(ABOVE, self.horizon, round(self.tau * UNIT), success)
        return Exploration(TIMED, window, 0, 0.0)

    def recipe(self) -> Recipe:
        log_t = self.log_horizon
        if self.variant == "figure":
            log_t = math.log(math.isqrt(self.horizon) + 1)
        nash = 2 * self.c * math.sqrt(2 * log_t)
        if self.sound:
            ratio = 2.0 if self.phase1 == "threshold" else 1.0
            bias = self.alpha * log_t * (ratio + 1.0) / self.release_epsilon
            par = parameters(nash, bias + nash * math.sqrt(bias), 0.0)
        else:
            bias, cross = self.alpha * log_t**2 / self.epsilon, 4 * math.sqrt(2 * self.alpha / self.epsilon)
            if self.variant == "figure":
                par = parameters(nash, bias + cross * log_t**1.5, 0.0)
            else:
                par = parameters(nash, bias, cross * log_t**0.75)
        return Recipe(
            rule=GDP,
            par=par,
            success=self.success,
            raw_first=False,
            private_counts=self.arrivals == "private",
            keep=self.sound and self.episodes == "keep",
            shuffle=False,
            first=1,
            growth=0.0,
        )

    def guarantee(self) -> Guarantee:
        if self.sound:
            return global_guarantee(self.epsilon, ARRIVALS_IN_WORDS[self.arrivals])
        pulls = "every pull of the uniform phase is a release of its own, and " if self.variant == "printed" else ""
        return global_guarantee(
            self.epsilon,
            f"not established: {pulls}a reward of the uniform phase enters every later release of its arm, up to "
            f"log2 T of them, while each costs epsilon / ln T: up to 1.44 epsilon from this alone",
            established=False,
        )

    def start(self) -> State:
        state = super().start()
        state["lengths"][:] = 1  # the doubling counter: a first episode has two rounds
        state["open"][:] = (EXPLORING, 0, self.exploration().limit, 1)
        state["raw"] = np.zeros((2, self.arms), np.int64)
        state["threshold"] = np.zeros(2, np.int64)
        return state

    def decide(self, state: State, round: Round, rng: Generator) -> Decision:
        check_horizon(round, self.horizon)
        if state["open"][ARM] == EXPLORING and round.index < state["open"][CLOSES]:
            law = np.full(self.arms, 1.0 / self.arms)
            return Decision(int(rng.integers(0, self.arms)), 1.0 / self.arms, law, symmetric=True)
        return super().decide(state, round, rng)

    def learn(self, state: State, feedback: Feedback | Report) -> State:
        feedback = raw_feedback(feedback)
        if state["open"][ARM] != EXPLORING:
            return super().learn(state, feedback)
        check_arm(feedback, self.arms)
        if feedback.reward is None:
            return state
        value = unit_reward(feedback.reward, self.strict)
        after = copy_state(state)
        after["raw"][0, feedback.arm] += int(to_units(value))
        after["raw"][1, feedback.arm] += 1
        after["block"][:] = (feedback.arm, feedback.index + 1, after["block"][2] + (value != feedback.reward))
        return after

    def due(self, state: State, now: int) -> str | None:
        if state["open"][ARM] != EXPLORING:
            return super().due(state, now)
        if now >= state["open"][CLOSES]:
            return f"uniform-{state['released'][0]}"
        tested = self.exploration().kind != TIMED and state["block"][1] > 0
        return f"test-{state['released'][0]}" if tested else None

    def release(self, state: State, noise: Noise) -> State:
        if state["open"][ARM] != EXPLORING:
            return super().release(state, noise)
        after, rule = copy_state(state), self.exploration()
        arm, latest = int(after["block"][0]), int(after["block"][1])
        if rule.kind != TIMED and latest > 0:
            over = self._test(after, rule, arm, noise)
            after["block"][1] = 0
            if not over:
                after["released"] += 1
                return after
            after["open"][CLOSES] = latest
        return self._finish_exploration(after, noise)

    def _test(self, after: State, rule: Exploration, arm: int, noise: Noise) -> bool:
        """One noisy query of the uniform phase; the sound threshold is noised once, before the first query."""
        scale = laplace_scale(4, self.epsilon) if rule.kind == ABOVE else self.scale
        if rule.kind == ABOVE and after["threshold"][1] == 0:
            after["threshold"][:] = (int(noise.laplace(scale)[0]), 1)
        query = int(after["raw"][0, arm]) + int(noise.laplace(scale)[0])
        if rule.kind == FRESH:
            after["sums"][arm], after["counts"][arm] = query, after["raw"][1, arm]
            return query > rule.tau
        return query >= rule.tau + int(after["threshold"][0])

    def _finish_exploration(self, after: State, noise: Noise) -> State:
        raw = after["raw"]
        if self.sound:
            scale = laplace_scale(1, self.sum_epsilon)
            for arm in range(self.arms):
                after["sums"][arm] = raw[0, arm] + int(noise.laplace(scale)[0])
                noisy = int(noise.laplace(scale)[0]) / UNIT if self.arrivals == "private" else 0.0
                after["counts"][arm] = raw[1, arm] + noisy
            after["base_sums"][:], after["base_counts"][:] = after["sums"], after["counts"]
            raw[:] = 0
        else:
            after["counts"][:] = after["base_counts"][:] = raw[1]
            after["base_sums"][:] = raw[0]
        return self._next(after, noise)

    def lost(self, state: State, block: str) -> State:
        """A lost test forgets the query; a lost uniform phase starts the episodes without it.

        The noisy threshold of a lost test is gone, and a second one on the same rewards would cost more: the test
        starts again on rewards to come, so that every person is in one test with one threshold.
        """
        if state["open"][ARM] != EXPLORING:
            return super().lost(state, block)
        after = copy_state(state)
        after["block"][1] = 0
        if block.startswith("test"):
            after["released"] += 1
            if self.exploration().kind == ABOVE:
                after["raw"][:], after["threshold"][:] = 0, 0
            return after
        after["raw"][:] = 0
        return self._next(after, None)

    def intervals(self, world: ArmEnvironment, rounds: int, streams: Streams) -> Intervals:
        state, rule, noise = self.start(), self.exploration(), streams.noise.stream  # type: ignore[attr-defined]
        known, pulls = published(state), np.zeros(self.arms, np.int64)
        count_noise = self.arrivals == "private"
        sum_success = -math.expm1(-self.sum_epsilon / UNIT) if self.sound else 0.0
        now, tests, done = explore_uniformly(
            rule,
            known,
            state["raw"],
            world.laws,
            (streams.explore, streams.world, noise),
            (self.variant == "printed", sum_success, count_noise),
            rounds,
            pulls,
        )
        if not done:
            ends, codes, releases = np.array([now]), np.array([self.arms], np.int32), tests
        else:
            ends, codes, more, releases = simulate(
                self.plan, known, world.laws, world.true_means, streams.explore, streams.world, noise, now, rounds
            )
            ends, codes = np.append(now, ends), np.append(np.int32(self.arms), codes)
            pulls, releases = pulls + more, releases + tests + self.sound
        uniform = state["raw"][1] if not self.sound else np.zeros(1)
        spent = self._cost(int(known.episodes.max()), int(uniform.max()), releases)
        return Intervals(ends, codes.astype(np.int32), Summary(pulls, now, releases, spent))

    def _cost(self, episodes: int, uniform_pulls: int, releases: int) -> float:
        """Epsilon of the person who paid most: sound, one block; otherwise every release a reward entered."""
        if self.sound:
            return self.epsilon if releases > 0 else 0.0
        tests = uniform_pulls if self.variant == "printed" else 0
        return (episodes + tests) * self.epsilon / self.log_horizon
