"""Policies that may release by arrival: the step API around the rule of `fairveil.bandits.nash.arrivals`.

``release = "arrivals"``: turns say who decides, and a reward joins the pool of its arm when it arrives. ``release =
"blocks"``: the rewards of a stretch of decisions are released together, when the slowest is in or can come no more
(`fairveil.bandits.nash.episodes`). A state says by which rule it was begun, and goes on by that one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property, wraps
from typing import Any, Literal, TypeVar, cast

import numpy as np

from fairveil.arrays import Ints
from fairveil.bandits.environments.arms import RECORDED, UNIT
from fairveil.bandits.estimates import CONFIDENCE, Answers, check_confidence
from fairveil.bandits.nash.arrivals import (
    PRIOR,
    Pools,
    Prior,
    Turns,
    candidates,
    expected,
    give_up,
    is_due,
    no_pools,
    no_turns,
    publish,
    turn_length,
)
from fairveil.bandits.nash.arrivals_run import ArrivalSimulator
from fairveil.bandits.nash.base import check_arm, whatever_silence, world_of
from fairveil.bandits.nash.blocks import nth
from fairveil.bandits.nash.closing import among, left_of, narrowed
from fairveil.bandits.nash.episodes import EpisodePolicy
from fairveil.bandits.nash.late import regular
from fairveil.bandits.nash.optimism import Evidence, block_looks
from fairveil.bandits.nash.tally import Stretch
from fairveil.bandits.protocol import HEADER, Block, Clock, Decision, Feedback, Report, Round
from fairveil.bandits.simulate import Case, Simulator, Streams
from fairveil.errors import InputError, PrivacyError
from fairveil.privacy.grid import scalar_units
from fairveil.privacy.noise import Noise
from fairveil.randomness import Generator
from fairveil.state import State, copy_state

Rule = Literal["arrivals", "blocks"]
RULE_IN_WORDS = (
    "which rewards are released together: those that came since the last release of their arm (arrivals), or those of "
    "a stretch of decisions, which waits for its slowest (blocks); runs fill in arrivals"
)
ASSUMED = "arrivals do not depend on rewards that are not released yet, neither on one's own nor on those of others"
FIRST, STOP, ARM, TIES, SYMMETRIC, REACHED = range(6)
"""Entries of ``turn``: its rounds and arm, among how many arms a coin chose it, whether every arm was as likely, and
the number of rounds that were opened for a decision so far."""
PUBLIC = (*Turns._fields, *Pools._fields, "turn", "among", "base", "released")
Method = TypeVar("Method", bound=Callable[..., Any])


def by_arrival(state: State) -> bool:
    """Whether a state was begun with releases by arrival."""
    return "came" in state


def _or_blocks(method: Method) -> Method:
    """A method for states of releases by arrival; those of blocks go to the base."""

    @wraps(method)
    def chosen(self: Any, state: State, *args: Any, **more: Any) -> Any:
        if by_arrival(state):
            return method(self, state, *args, **more)
        return getattr(super(WaitingPolicy, self), method.__name__)(state, *args, **more)

    return cast(Method, chosen)


def silent_rounds(state: State) -> Ints:
    """Rounds of every arm that were decided and have no answer: not yet, or never."""
    silent: Ints = state["given"] - state["came"]
    if "turn" in state and state["turn"][ARM] >= 0:
        silent[state["turn"][ARM]] -= state["turn"][STOP] - state["turn"][REACHED]
    return silent


def _reached(state: State, rounds: int) -> State:
    """The same turn, one round further."""
    turn = state["turn"].copy()
    turn[REACHED] = rounds
    return {**state, "turn": turn}


class WaitingPolicy(EpisodePolicy):
    """Base of policies with both rules; subclasses have a field ``released_by``, called ``release`` in tables.

    State by arrival, all of it public but ``raw`` and ``here``: the arrays of `Turns` and `Pools`, the turn that is
    being decided, the arms among which a coin chose it, where the seats of every arm begin (``base``, above 0 after
    `begun_again`), and the number of releases. ``raw`` and ``here`` are sum and number of the answers in every pool.
    Sensitivity as in `EpisodePolicy`: one user moves one pool's sum by one unit, whatever comes before or after. Who
    restarts from a saved state needs the one that knew the seats of all releases, as a loop does.
    """

    @property
    def clock(self) -> Clock:
        return "arrived" if self.released_by == "arrivals" else super().clock

    @property
    def released(self) -> tuple[str, ...]:
        return PUBLIC if self.released_by == "arrivals" else super().released

    @property
    def assumed(self) -> tuple[str, ...]:
        """What the promise takes for granted beside its neighbours."""
        return (ASSUMED,) if self.released_by == "arrivals" else ()

    @cached_property
    def prior(self) -> Prior:
        """What is expected of a reward of which nothing is known."""
        return Prior(PRIOR, self.release_epsilon)

    def start(self) -> State:
        if self.released_by != "arrivals":
            return super().start()
        turns, pools = no_turns(self.arms), no_pools(self.arms)
        return {
            **turns._asdict(),
            **pools._asdict(),
            "turn": np.array([0, 0, -1, 1, 0, 0], np.int64),
            "among": np.zeros(self.arms, np.bool_),
            "base": np.zeros(self.arms, np.int64),
            "released": np.zeros(1, np.int64),
            "raw": np.zeros(self.arms, np.int64),
            "here": np.zeros(self.arms, np.int64),
        }

    # Turns ------------------------------------------------------------------------------------------------------------

    @_or_blocks
    def reach(self, state: State) -> int:
        return int(state["turn"][STOP])

    @_or_blocks
    def open(self, state: State, now: int, rng: Generator) -> State:
        first = self.reach(state)
        if now < first:
            return state if now < state["turn"][REACHED] else _reached(state, now + 1)
        if now > first:
            raise InputError("rounds are opened one after the other", path="now", given=now, allowed=str(first))
        shape, turns, pools, left = self._shape, turns_of(state), pools_of(state), left_of(state)
        few = np.zeros(self.arms if left is None else left.size, np.bool_)
        found = candidates(self._numbers, shape, self.prior, narrowed(turns, left), narrowed(pools, left), few, now)
        coin, marked = shape.shuffle and found > 1, among(few, left, self.arms)
        arm = int(nth(marked, int(rng.integers(0, found)) if coin else 0))
        fresh = bool(state["released"][0] == 0 and not turns.closed.any())
        symmetric = shape.shuffle and (bool(turns.given[arm] == 0) or fresh)
        length = int(turn_length(shape, pools.seats[arm], pools.last[arm]))
        after = self.open_for(state, arm, length)
        after["turn"][[TIES, SYMMETRIC, REACHED]] = found if coin else 1, symmetric, now + 1
        after["among"] = marked if coin else np.arange(self.arms) == arm
        return after

    @_or_blocks
    def open_for(self, state: State, arm: int, rounds: int) -> State:
        """A turn of rounds that somebody else has decided for one arm: history, public but for its rewards."""
        after, first = {**state, "given": state["given"].copy()}, self.reach(state)
        after["given"][arm] += rounds
        after["turn"] = np.array([first, first + rounds, arm, 1, 0, first + rounds], np.int64)
        after["among"] = np.arange(self.arms) == arm
        return after

    @_or_blocks
    def decide(self, state: State, round: Round, rng: Generator) -> Decision:
        first, stop, arm, ties, symmetric, _ = (int(value) for value in state["turn"])
        if not first <= round.index < stop:
            raise PrivacyError(
                "the round is not part of the turn that is open",
                path="round",
                given=round.index,
                allowed=f"rounds {first} to {stop - 1}",
                fix="call open before decide, one round after the other",
            )
        law = None if ties == 1 else state["among"] / ties
        return Decision(arm, 1.0 / ties, law, symmetric=bool(symmetric))

    # Pools ------------------------------------------------------------------------------------------------------------

    @_or_blocks
    def learn_all(self, state: State, feedbacks: Iterable[Feedback | Report]) -> State:
        """Each round once, in the order of arrival; a round that closed without an answer has no reward."""
        after = copy_state(state)
        for feedback in feedbacks:
            self._seat(after, feedback)
        return after

    def _seat(self, state: State, feedback: Feedback | Report) -> None:
        """The next seat of an arm for what came; none for a round that closed, unless counts are noised."""
        check_arm(feedback, self.arms)
        reward, arm = self._reward(feedback), feedback.arm
        if state["came"][arm] + state["closed"][arm] >= state["given"][arm]:
            raise InputError(
                "more rounds of this arm are handed over than were decided",
                path="feedback.arm",
                given=arm,
                allowed="every decided round, once",
            )
        state["came" if reward is not None or self.hides_arrivals else "closed"][arm] += 1
        if reward is not None:
            self._add(state, arm, reward)

    def _add(self, state: State, arm: int, reward: float) -> None:
        state["here"][arm] += 1
        state["raw"][arm] += scalar_units(reward, self.sum.bound, self.sum.grid.bits)

    @_or_blocks
    def counted(self, state: State, came: Ints, closed: Ints, rounds: int) -> State:
        """The same after so many decided rounds, where seats are counted and rewards kept outside the state."""
        turn = state["turn"].copy()
        turn[REACHED] = max(turn[FIRST], min(rounds, turn[STOP]))
        return {**state, "came": came, "closed": closed, "turn": turn}

    @_or_blocks
    def alone(self, state: State, block: Block) -> State:
        """The same when this pool is due and no other: for rewards that are kept outside (`gather`), before `draw`."""
        came, closed = state["taken"].copy(), state["closed"].copy()
        came[block.arm] = state["base"][block.arm] + block.stop
        closed[block.arm] = state["given"][block.arm] - came[block.arm]
        reach = state["turn"][REACHED] if block.reach is None else block.reach
        return {**self.counted(state, came, closed, 0), "turn": np.append(state["turn"][:REACHED], reach)}

    @_or_blocks
    def released_behind(self, state: State, block: Block, value: State | None) -> State:
        """Adopt (None: give up) the next pool of an arm whose arrivals this older copy of the state has not seen."""
        after, arm = copy_state(state), block.arm
        after["came"][arm] = max(after["came"][arm], after["base"][arm] + block.stop)
        after["given"][arm] = max(after["given"][arm], after["came"][arm] + after["closed"][arm])
        return self.lost(after, block.name) if value is None else self.adopt(after, block.name, value)

    @_or_blocks
    def begun_again(self, state: State, at: int) -> State:
        """What is published stays; what was under way never counts; from round ``at`` on seats begin at 0 again."""
        after, turn = copy_state(state), state["turn"]
        if turn[ARM] >= 0:  # what nobody has decided does not count, unless `released_behind` found it in a release
            after["given"][turn[ARM]] -= turn[STOP] - turn[REACHED]
        after["given"] = np.maximum(after["given"], after["came"] + after["closed"])
        after["closed"], after["turn"] = after["given"] - after["came"], np.array([at, at, -1, 1, 0, at], np.int64)
        after["taken"], after["base"] = after["came"].copy(), after["came"].copy()
        return after

    @_or_blocks
    def gather(self, state: State, feedbacks: Iterable[Feedback | Report]) -> State:
        """The rewards behind seats that are counted already."""
        after = copy_state(state)
        for feedback in feedbacks:
            reward = self._reward(feedback)
            if reward is not None:
                self._add(after, feedback.arm, reward)
        return after

    @_or_blocks
    def open_blocks(self, state: State) -> list[Block]:
        """The pools that are due, by arm: they do not wait for each other."""
        shape, turns, pools = self._shape, turns_of(state), pools_of(state)
        base, reached, due = state["base"], int(state["turn"][REACHED]), []
        for arm in np.flatnonzero(turns.came > pools.taken):
            row = (turns.given, turns.came, turns.closed, pools.taken, pools.seats, pools.last)
            if is_due(shape, *(numbers[arm] for numbers in row)):
                first, stop = pools.taken[arm] - base[arm], turns.came[arm] - base[arm]
                due.append(self._pool(int(arm), int(first), int(stop), reached))
        return due

    @_or_blocks
    def block(self, state: State) -> Block | None:
        return next(iter(self.open_blocks(state)), None)

    @_or_blocks
    def due(self, state: State, settled: int) -> str | None:
        block = self.block(state)
        return None if block is None else block.name

    @staticmethod
    def _pool(arm: int, first: int, stop: int, reach: int) -> Block:
        return Block(f"{arm}-{first}-{stop}", first, stop, arm, reach)

    @_or_blocks
    def draw(self, state: State, noise: Noise) -> State:
        """The noisy sum of the pool that is due and the number of answers in it, noisy too where it is private."""
        block = self._oldest(state)
        raw, here = (state[name][block.arm : block.arm + 1] for name in ("raw", "here"))
        total, count = raw.copy() if self.local else raw + self.sum.draws(noise)[0], here.astype(np.float64)
        if self.hides_arrivals:
            count = count + noise.laplace(self.sum.sigma, self.sum.grid.width) / UNIT
        return {HEADER: block.header, "total": total, "count": count}

    @_or_blocks
    def adopt(self, state: State, block: str, value: State) -> State:
        found = self._next(state, block)
        if not np.array_equal(value.get(HEADER, ())[:3], found.header[:3]):
            raise _another(block)
        after = self._emptied(state, found)
        total, count = int(value["total"][0]), float(value["count"][0])
        publish(self._shape, pools_of(after), found.arm, total, count, self._shape.draws, found.stop - found.first)
        return after

    @_or_blocks
    def lost(self, state: State, block: str) -> State:
        """The seats are gone: the arm keeps what was published before."""
        found = self._next(state, block)
        after = self._emptied(state, found)
        give_up(pools_of(after), found.arm, found.stop - found.first)
        return after

    def _next(self, state: State, block: str) -> Block:
        """The next pool of its arm under a block's name; other arms may be due before or after it."""
        try:
            arm, first, stop = (int(part) for part in block.split("-"))
        except ValueError:
            raise _another(block) from None
        fits = 0 <= arm < self.arms and first < stop
        if not fits or not state["taken"][arm] - first == state["base"][arm] <= state["came"][arm] - stop:
            raise _another(block)
        return self._pool(arm, first, stop, int(state["turn"][REACHED]))

    def _emptied(self, state: State, block: Block) -> State:
        after = copy_state(state)
        after["released"] += 1
        after["raw"][block.arm] = after["here"][block.arm] = 0
        return after

    def restored(self, releases: Iterable[tuple[str, State | None]]) -> State:
        if self.released_by != "arrivals":
            return super().restored(releases)
        state = self.start()
        for _, value in releases:
            if value is not None:
                arm, first, stop = (int(number) for number in value[HEADER][:3])
                state["given"][arm] = state["came"][arm] = stop
                state["taken"][arm] = first
                state = self.adopt(state, f"{arm}-{first}-{stop}", value)
        return state

    @_or_blocks
    def rounds_by_arm(self, state: State) -> Ints:
        rounds: Ints = state["seats"].copy()
        return rounds

    @_or_blocks
    def evidence(self, state: State) -> Evidence:
        count = np.maximum(state["counts"], 0.0)
        mean = state["sums"] / UNIT / np.where(count > 0, count, 1.0)
        return Evidence(mean, count, state["draws"], self.release_epsilon, block_looks(state["looks"]))

    def expected_reward(self, state: State, arm: int) -> float:
        """As in the credit of what is under way: the published mean, shrunk by how little is known of it."""
        found = self.evidence(state)
        size, draws = float(found.size[arm]), int(found.draws[arm])
        if not size > 0:
            return 0.5
        value: float = expected.py_func(self.prior, float(found.mean[arm]), size, draws)
        return min(1.0, max(0.0, (value - found.low) / found.slope))

    def answers(self, state: State, confidence: float = CONFIDENCE, anytime: bool = False) -> list[Answers] | None:
        if self.hides_arrivals or not by_arrival(state):
            return None
        answered, silent = np.maximum(state["counts"], 0.0), silent_rounds(state)
        level, closed = check_confidence(confidence), state["closed"]
        bounds = whatever_silence(self, state, answered + silent, level, anytime)
        rows = zip(answered, silent - closed, closed, *bounds.T, strict=True)
        return [Answers(int(n), int(out), int(never), float(low), float(high)) for n, out, never, low, high in rows]

    # Simulation -------------------------------------------------------------------------------------------------------

    def coarse(self, case: Case) -> bool:
        if self.released_by != "arrivals":
            return super().coarse(case)
        recorded = bool((world_of(case).laws.kind == RECORDED).any())
        return case.spec["noise"] == "seeded" and (not recorded or not case.lateness.hidden or regular(case.lateness))

    def simulator(self, case: Case, streams: Streams) -> Simulator[Stretch] | None:
        if self.released_by != "arrivals":
            return super().simulator(case, streams)
        return ArrivalSimulator(self, case, streams) if self.coarse(case) and streams.noise.stream is not None else None


def turns_of(state: State) -> Turns:
    return Turns(*(state[name] for name in Turns._fields))


def pools_of(state: State) -> Pools:
    return Pools(*(state[name] for name in Pools._fields))


def _another(block: str) -> PrivacyError:
    return PrivacyError(
        "the release belongs to another pool",
        path="block",
        given=block,
        allowed="the next seats of its arm, as far as they were given",
        fix="this state is not the one whose releases the ledger holds: load that one, or use another account",
    )
