"""Policies that decide once an episode: the step API.

An episode is a block of rounds with one arm. Its rounds are fixed when it opens, from published values alone; the
rewards that have arrived when it closes enter one noisy sum and are forgotten; later ones are dropped. Hence every
reward enters exactly one release, and the whole run costs what one release costs (parallel composition).
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fairveil.bandits.environments.arms import ArmEnvironment
from fairveil.bandits.environments.laws import UNIT
from fairveil.bandits.nash.base import NashPolicy, check_arm, laplace_scale, unit_reward
from fairveil.bandits.nash.blocks import Published, Recipe, candidates, close, episode_length, nth, publish, simulate
from fairveil.bandits.nash.runs import Intervals, Summary
from fairveil.bandits.protocol import Decision, Feedback, Report, Round, raw_feedback
from fairveil.bandits.simulate import Streams
from fairveil.errors import PrivacyError
from fairveil.privacy.events import Event, ParallelEvent, PureEvent
from fairveil.privacy.grid import to_units
from fairveil.privacy.noise import Noise
from fairveil.randomness import Generator
from fairveil.state import State, copy_state

ARM, OPENED, CLOSES, COIN = range(4)
SUM, ARRIVED, CLIPPED = range(3)
ARRIVALS_IN_WORDS = {
    "public": "whether and when a reward arrived is public",
    "private": "whether a reward arrived is protected together with its value",
}


class EpisodePolicy(NashPolicy):
    """Base of episodic policies with a trusted curator; subclasses give the recipe.

    With a random first order, round 0 is an episode of its own whose arm is drawn in `decide`: the state does not know
    that arm (``open[0] = -1``), so its reward is not used. Later arms are drawn when the episode before them closes.

    Sensitivity: a reward is clipped to [0, 1] and put on the grid, so one user moves an episode's sum by at most one
    unit (2^20 grid steps). With ``arrivals="private"`` an absent reward counts 0 in the sum and in the number of
    rewards; both are released with half of epsilon each.
    """

    episodic: ClassVar[bool] = True
    released: ClassVar[tuple[str, ...]] = (
        "sums",
        "counts",
        "draws",
        "lengths",
        "played",
        "episodes",
        "base_sums",
        "base_counts",
        "open",
        "released",
    )
    epsilon: Any
    strict: Any
    arrivals: Any

    def recipe(self) -> Recipe:
        """Public numbers for compiled code."""
        raise NotImplementedError

    @cached_property
    def plan(self) -> Recipe:
        """The recipe, made once."""
        return self.recipe()

    @property
    def release_epsilon(self) -> float:
        """What the noise on one sum costs: all of epsilon, or half of it when the count is noised too."""
        return self.epsilon / 2.0 if self.arrivals == "private" else self.epsilon

    @cached_property
    def scale(self) -> float:
        """Scale of the discrete Laplace noise on a sum, in grid steps."""
        return laplace_scale(1, self.release_epsilon)

    @property
    def success(self) -> float:
        """The same noise as the parameter of two geometric draws."""
        return -math.expm1(-1.0 / self.scale)

    def event(self) -> Event:
        return ParallelEvent(PureEvent(self.epsilon))

    def start(self) -> State:
        opened = np.array([0, 0, 1, 0], np.int64)
        if self.plan.shuffle:
            opened[ARM], opened[COIN] = -1, 1
        return {
            "sums": np.zeros(self.arms, np.int64),
            "counts": np.zeros(self.arms),
            "draws": np.zeros(self.arms, np.int64),
            "lengths": np.zeros(self.arms, np.int64),
            "played": np.zeros(self.arms, np.int64),
            "episodes": np.zeros(self.arms, np.int64),
            "base_sums": np.zeros(self.arms, np.int64),
            "base_counts": np.zeros(self.arms),
            "open": opened,
            "block": np.zeros(3, np.int64),
            "released": np.zeros(1, np.int64),
        }

    def decide(self, state: State, round: Round, rng: Generator) -> Decision:
        arm, opened, closes, coin = (int(value) for value in state["open"])
        if not opened <= round.index < closes:
            raise PrivacyError(
                "the round is not part of the open episode",
                path="round",
                given=round.index,
                allowed=f"rounds {opened} to {closes - 1}",
                fix="call release while due names a block",
            )
        uniform = np.full(self.arms, 1.0 / self.arms) if coin else None
        if arm < 0:
            arm = int(rng.integers(0, self.arms))
        return Decision(arm, 1.0 / self.arms if coin else 1.0, uniform, symmetric=bool(coin))

    def learn(self, state: State, feedback: Feedback | Report) -> State:
        feedback = raw_feedback(feedback)
        check_arm(feedback, self.arms)
        if feedback.reward is None:
            return state
        value = unit_reward(feedback.reward, self.strict)
        arm, opened, closes, _ = (int(entry) for entry in state["open"])
        if not opened <= feedback.index < closes or arm != feedback.arm:
            return state  # its episode has closed: using it now would put it into a block chosen after the fact
        after = copy_state(state)
        after["block"][SUM] += int(to_units(value))
        after["block"][ARRIVED] += 1
        after["block"][CLIPPED] += value != feedback.reward
        return after

    def due(self, state: State, now: int) -> str | None:
        return f"episode-{state['released'][0]}" if now >= state["open"][CLOSES] else None

    def release(self, state: State, noise: Noise) -> State:
        after = copy_state(state)
        arm = int(after["open"][ARM])
        if arm >= 0:
            self._publish(after, arm, noise)
        return self._next(after, noise)

    def lost(self, state: State, block: str) -> State:
        """The episode's sum is gone: its arm keeps what was published before, its rounds still count as played."""
        after = copy_state(state)
        arm = int(after["open"][ARM])
        if arm >= 0:
            close(published(after), arm, episode_rounds(after))
        return self._next(after, None)

    def _publish(self, after: State, arm: int, noise: Noise) -> None:
        """Draw the noise of the episode that closes, and publish its sum."""
        recipe = self.plan
        silent = recipe.raw_first and after["episodes"][arm] == 0
        total = int(after["block"][SUM]) + (0 if silent else int(noise.laplace(self.scale)[0]))
        count, draws = float(after["block"][ARRIVED]), 1
        if recipe.private_counts:
            count, draws = count + int(noise.laplace(self.scale)[0]) / UNIT, 2
        publish(recipe, published(after), arm, total, count, draws, episode_rounds(after))

    def _next(self, after: State, noise: Noise | None) -> State:
        """Open the next episode; without a noise source ties go to the lowest arm."""
        recipe, known, now = self.plan, published(after), int(after["open"][CLOSES])
        marked = np.zeros(self.arms, np.bool_)
        found = candidates(recipe, known, now, np.empty(self.arms), np.full(self.arms, -1, np.int64), marked)
        pick = int(noise.uniform_integers(found)[0]) if noise is not None and recipe.shuffle and found > 1 else 0
        arm = nth(marked, pick)
        coin = recipe.shuffle and known.played[arm] == 0
        after["open"][:] = (arm, now, now + episode_length(recipe, known, arm), coin)
        after["block"][:] = 0
        after["released"] += 1
        return after

    def intervals(self, world: ArmEnvironment, rounds: int, streams: Streams) -> Intervals:
        noise = streams.noise.stream  # type: ignore[attr-defined]
        ends, codes, pulls, releases = simulate(
            self.plan,
            published(self.start()),
            world.laws,
            world.true_means,
            streams.explore,
            streams.world,
            noise,
            0,
            rounds,
        )
        return Intervals(ends, codes, Summary(pulls, 0, releases, self.spent(releases)))

    def spent(self, releases: int) -> float:
        """Epsilon that one person has paid after so many releases; NaN where no finite number is established."""
        return self.epsilon if releases > 0 else 0.0


def published(state: State) -> Published:
    """The public arrays of a state, as compiled code takes them."""
    return Published(*(state[name] for name in Published._fields))


def episode_rounds(state: State) -> int:
    opened: NDArray[np.int64] = state["open"]
    return int(opened[CLOSES] - opened[OPENED])
