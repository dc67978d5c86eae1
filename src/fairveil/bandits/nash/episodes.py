"""Policies that decide once an episode: the step API, and a simulator that draws a whole episode at once.

An episode is a block of rounds with one arm. Its rounds are fixed when it opens, from published values alone; the
rewards that have arrived when it closes enter one noisy sum and are forgotten; later ones are dropped. Hence every
reward enters exactly one release, and the whole run costs what one release costs (parallel composition).
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from fairveil.bandits.environments.arms import ArmEnvironment
from fairveil.bandits.environments.laws import UNIT, Laws, draw_sum
from fairveil.bandits.nash.base import NashPolicy, check_arm, unit_reward
from fairveil.bandits.nash.runs import Intervals, Streams, Summary
from fairveil.bandits.protocol import Decision, Feedback, Round, State, copy_state
from fairveil.errors import PrivacyError
from fairveil.privacy.events import Event, ParallelEvent, PureEvent
from fairveil.privacy.grid import to_units
from fairveil.privacy.noise import Noise
from fairveil.randomness import Generator

ADAP, ADAP_FIGURE = range(2)
ARM, OPENED, CLOSES, COIN = range(4)
SUM, ARRIVED, CLIPPED = range(3)


class Published(NamedTuple):
    """Public arrays, one entry an arm: noisy sum in grid units, rewards it covers, last episode length, episodes."""

    noisy: NDArray[np.int64]
    counts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    episodes: NDArray[np.int64]


class EpisodePolicy(NashPolicy):
    """Base of episodic policies; subclasses give the rule of the index, its parameters and the noise scale."""

    episodic: ClassVar[bool] = True
    epsilon: Any
    strict: Any

    rule: ClassVar[int]

    def numbers(self) -> NDArray[np.float64]:
        """Parameters of the index for compiled code."""
        raise NotImplementedError

    @property
    def scale(self) -> float:
        """Scale of the discrete Laplace noise on an episode's sum, in grid units; sensitivity: one reward, 2^20."""
        return UNIT / self.epsilon

    def event(self) -> Event:
        return ParallelEvent(PureEvent(self.epsilon))

    def start(self) -> State:
        state: State = {
            "noisy": np.zeros(self.arms, np.int64),
            "counts": np.zeros(self.arms, np.int64),
            "lengths": np.zeros(self.arms, np.int64),
            "episodes": np.zeros(self.arms, np.int64),
            "open": np.zeros(4, np.int64),
            "block": np.zeros(3, np.int64),
            "released": np.zeros(1, np.int64),
        }
        state["open"][CLOSES] = 1
        return state

    def decide(self, state: State, round: Round, rng: Generator) -> Decision:
        opened = state["open"]
        if not opened[OPENED] <= round.index < opened[CLOSES]:
            raise PrivacyError(
                "a release is due before this round",
                path="round",
                given=round.index,
                allowed=f"rounds {opened[OPENED]} to {opened[CLOSES] - 1} of the open episode",
                fix="call release while due names a block",
            )
        return Decision(int(opened[ARM]))

    def learn(self, state: State, feedback: Feedback) -> State:
        check_arm(feedback, self.arms)
        value = unit_reward(feedback.reward, self.strict)
        opened = state["open"]
        if not opened[OPENED] <= feedback.index < opened[CLOSES]:
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
        units, arrived = after["block"][SUM], after["block"][ARRIVED]
        published = _published(after)
        arm = int(after["open"][ARM])
        publish(self.rule, published, arm, units + noise.laplace(self.scale)[0], arrived, closed_length(after["open"]))
        return self._next(after, noise)

    def lost(self, state: State, block: str) -> State:
        """The episode's sum is gone: its arm keeps what was published before, its length still counts as played."""
        after = copy_state(state)
        arm = after["open"][ARM]
        after["lengths"][arm] = closed_length(after["open"])
        return self._next(after, None)

    def _next(self, after: State, noise: Noise | None) -> State:
        now = int(after["open"][CLOSES])
        arm, length = next_episode(self.rule, _published(after), now, self.numbers())
        after["open"][:] = (arm, now, now + length, 0)
        after["block"][:] = 0
        after["released"] += 1
        return after

    def intervals(self, world: ArmEnvironment, rounds: int, streams: Streams) -> Intervals:
        state = self.start()
        success = -math.expm1(-1.0 / self.scale)
        noise = streams.noise.generator  # type: ignore[attr-defined]
        ends, codes, pulls, releases = simulate(
            self.rule, self.numbers(), success, _published(state), world.laws, streams.world, noise, rounds
        )
        return Intervals(ends, codes, Summary(pulls, 0, releases, self.epsilon if releases else 0.0))


def _published(state: State) -> Published:
    return Published(state["noisy"], state["counts"], state["lengths"], state["episodes"])


def closed_length(opened: NDArray[np.int64]) -> int:
    return int(opened[CLOSES] - opened[OPENED])


@njit(cache=True, nogil=True)
def episode_index(rule, noisy, count, log_now, par):  # type: ignore[no-untyped-def]
    """The optimistic value of an arm from its published sum; arms without rewards come first."""
    if count == 0:
        return np.inf
    mean = noisy / UNIT / count
    if rule == ADAP:  # par: alpha, epsilon
        return mean + math.sqrt(par[0] * log_now / (2.0 * count)) + par[0] * log_now / (par[1] * count)
    return mean + math.sqrt(par[0] * log_now / count) + 2.0 * par[0] * log_now / count


@njit(cache=True, nogil=True)
def next_episode(rule, published: Published, now, par):  # type: ignore[no-untyped-def]
    """The arm and length of the episode that opens when ``now`` rounds are over: twice the arm's last length."""
    log_now = math.log(now + 1.0)
    arm, best = 0, -np.inf
    for i in range(published.counts.size):
        value = episode_index(rule, published.noisy[i], published.counts[i], log_now, par)
        if value > best:
            arm, best = i, value
    return arm, max(1, 2 * published.lengths[arm])


@njit(cache=True, nogil=True)
def publish(rule, published: Published, arm, noisy, arrived, length):  # type: ignore[no-untyped-def]
    """Replace what is known of an arm by its last episode."""
    published.noisy[arm] = noisy
    published.counts[arm] = arrived
    published.lengths[arm] = length
    published.episodes[arm] += 1


@njit(cache=True, nogil=True)
def simulate(rule, par, success, published: Published, laws: Laws, world, noise, rounds):  # type: ignore[no-untyped-def]
    """A whole run, one draw an episode: ends and arms of the episodes, pulls, number of releases."""
    pulls = np.zeros(published.counts.size, np.int64)
    ends, codes = np.empty(64, np.int64), np.empty(64, np.int32)
    now, used, arm, length, releases = 0, 0, 0, 1, 0
    while now < rounds:
        count = min(length, rounds - now)
        units = draw_sum(laws, arm, now, count, world)
        pulls[arm] += count
        now += count
        if used == ends.size:
            ends, codes = np.append(ends, np.empty(used, np.int64)), np.append(codes, np.empty(used, np.int32))
        ends[used], codes[used] = now, arm
        used += 1
        if count == length:
            units += noise.geometric(success) - noise.geometric(success)
            publish(rule, published, arm, units, count, length)
            releases += 1
            arm, length = next_episode(rule, published, now, par)
    return ends[:used], codes[:used], pulls, releases
