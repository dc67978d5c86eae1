"""Policies that decide once a block of rounds: the step API, on the settled clock.

A block is a stretch of rounds with one arm. Its rounds are fixed when it opens, from published values and public coins
alone; it waits until all of them are settled, however many later blocks are open by then; its rewards enter one noisy
sum and are forgotten. Hence every reward enters exactly one release, and the whole run costs what one release costs
(adaptive parallel composition).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from fairveil.arrays import Bools, Floats, Ints
from fairveil.bandits.environments.arms import RECORDED, UNIT
from fairveil.bandits.feedback import ARRIVALS_IN_WORDS as ARRIVALS_IN_WORDS
from fairveil.bandits.nash.base import NashPolicy, check_arm, unit_reward, world_of
from fairveil.bandits.nash.blocks import (
    Known,
    Pending,
    Place,
    ReleaseLog,
    Shape,
    block_length,
    candidates,
    empty_known,
    new_scratch,
    nth,
    open_block,
    place_of,
    publish,
    simulate,
    sources_of,
)
from fairveil.bandits.nash.closing import SHUT, left_of, narrowed
from fairveil.bandits.nash.late import compiled_lateness, regular
from fairveil.bandits.nash.optimism import Evidence, block_looks
from fairveil.bandits.nash.tally import Stretch
from fairveil.bandits.protocol import (
    HEADER,
    Block,
    Clock,
    Decision,
    Feedback,
    Report,
    Round,
    check_header,
    raw_feedback,
)
from fairveil.bandits.quotes import Noisy, laplace_noise
from fairveil.bandits.simulate import Case, Simulator, Streams
from fairveil.errors import InputError, PrivacyError
from fairveil.privacy.calibration import noise_level
from fairveil.privacy.events import Event, ParallelEvent, PureEvent
from fairveil.privacy.noise import GRID_BITS, Noise, ZeroNoise, laplace_parameter
from fairveil.privacy.sums.batch import BatchSum
from fairveil.randomness import Generator
from fairveil.state import State, copy_state, nest, nested

ARM, FIRST, STOP, TIES, SYMMETRIC = range(5)
"""Columns of ``open``: a block's arm and rounds, among how many arms a coin chose it, and whether every arm was equally
likely to stand there."""
_KNOWN = ("sums", "counts", "draws", "lengths", "played", "closed")


class EpisodePolicy(NashPolicy):
    """Base of policies whose blocks are released once; subclasses give their numbers and the shape of their blocks.

    Sensitivity: a reward is clipped to [0, 1] and put on the grid, so one user moves a block's sum by at most one unit
    (2^20 grid steps). With ``arrivals="private"`` an absent reward counts 0 in the sum and in the number of rewards;
    both are released with half of epsilon each.

    State, all of it public but ``sum/open`` and ``answered``: one entry an arm (sum, rewards it covers, noise draws,
    rounds of the last and of all blocks opened, blocks closed), the open blocks, the next round that no block holds
    (``ahead``), the watermark of what was handed over (``handed``), and the number of releases.
    """

    closes_arms: ClassVar[bool] = True
    epsilon: Any
    strict: Any
    arrivals: Any

    def shape(self) -> Shape:
        """How blocks are cut, noised and added up."""
        raise NotImplementedError

    @cached_property
    def _shape(self) -> Shape:
        return self.shape()

    @property
    def clock(self) -> Clock:
        return "settled"

    @property
    def released(self) -> tuple[str, ...]:
        return (*_KNOWN, "open", "ahead", "released")

    @property
    def hides_arrivals(self) -> bool:
        return bool(self.arrivals == "private")

    @cached_property
    def release_epsilon(self) -> float:
        """What the noise on one sum costs: all of epsilon, or half of it when the count is noised too."""
        epsilon: float = self.epsilon
        return epsilon / 2.0 if self.hides_arrivals else epsilon

    @cached_property
    def sum(self) -> BatchSum:
        """The noisy sum of a block: each reward in exactly one release."""
        return BatchSum(epsilon=self.release_epsilon, bits=GRID_BITS)

    @property
    def success(self) -> float:
        """The noise of one release as the parameter of compiled draws."""
        return laplace_parameter(noise_level(UNIT, self.release_epsilon))

    def event(self) -> Event:
        return ParallelEvent(PureEvent(self.epsilon))

    def restored(self, releases: Iterable[tuple[str, State | None]]) -> State:
        """Blocks carry their arm and rounds; the coins that chose them are not needed again."""
        state = self.start()
        for _, value in releases:
            if value is not None:
                if len(value[HEADER]) != 3:
                    raise InputError(
                        "these releases were made by arrival",
                        path="release",
                        given=self.name,
                        fix='build the policy with release = "arrivals", as its run was',
                    )
                arm, first, stop = (int(number) for number in value[HEADER])
                open_block(known_of(state), arm, stop - first)
                total, count = int(value["total"][0]), float(value["count"][0])
                publish(self._shape.keep, known_of(state), arm, total, count, self._shape.draws)
                state["released"] += 1
        return state

    def noises(self) -> tuple[Noisy, ...]:
        return (laplace_noise("the sum of a block of one arm", self.release_epsilon, max(self._shape.draws, 1)),)

    def rounds_by_arm(self, state: State) -> Ints:
        rounds: Ints = state["played"].copy()
        np.subtract.at(rounds, state["open"][:, ARM], state["open"][:, STOP] - state["open"][:, FIRST])
        return rounds

    def evidence(self, state: State) -> Evidence:
        count = state["counts"]
        mean = state["sums"] / UNIT / np.where(count > 0, count, 1.0)
        return Evidence(mean, count, state["draws"], self.release_epsilon, block_looks(state["closed"]))

    # State and decisions ----------------------------------------------------------------------------------------------

    def start(self) -> State:
        known = empty_known(self.arms)
        return {
            **{name: getattr(known, name) for name in _KNOWN},
            "open": np.zeros((0, 5), np.int64),
            "ahead": np.zeros(1, np.int64),
            "handed": np.zeros(1, np.int64),
            "released": np.zeros(1, np.int64),
            "answered": np.zeros(1, np.int64),
            **nest("sum", self.sum.start()),
        }

    def open(self, state: State, now: int, rng: Generator) -> State:
        first = self.reach(state)
        if now < first:
            return state
        if now > first:
            raise InputError("rounds are opened one after the other", path="now", given=now, allowed=str(first))
        shape, known, left = self._shape, known_of(state), left_of(state)
        scratch = new_scratch(self.arms if left is None else left.size)
        pending = narrowed(self._pending(state), left)
        found = candidates(self._numbers, shape.pace, narrowed(known, left), pending, scratch, now)
        coin = shape.shuffle and found > 1
        pick = int(nth(scratch.marked, int(rng.integers(0, found)) if coin else 0))
        arm = pick if left is None else int(left[pick])
        symmetric = shape.shuffle and bool(known.played[arm] == 0 or state["released"][0] == 0)
        stop = now + int(block_length(shape.first, shape.growth, known.played[arm], known.lengths[arm]))
        return self._with_block(state, [arm, now, stop, found if coin else 1, symmetric])

    def reopen(self, state: State, block: Block) -> State:
        return self._with_block(state, [block.arm, block.first, block.stop, 1, 0])

    def reach(self, state: State) -> int:
        return int(state["ahead"][0])

    def _with_block(self, state: State, row: list[int]) -> State:
        after = copy_state(state)
        open_block(known_of(after), row[ARM], row[STOP] - row[FIRST])
        after["open"] = np.concatenate([after["open"], np.array([row], np.int64)])
        after["ahead"][0] = row[STOP]
        return after

    def open_for(self, state: State, arm: int, rounds: int) -> State:
        """A block of rounds that somebody else has decided for one arm: history, which is public but for its rewards.

        It follows all blocks that are open, and its rewards enter one release as those of any block.
        """
        first = self.reach(state)
        return self._with_block(state, [arm, first, first + rounds, 1, 0])

    def _pending(self, state: State) -> Pending:
        rows: Ints = state["open"]
        rounds = np.zeros(self.arms, np.int64)
        np.add.at(rounds, rows[:, ARM], rows[:, STOP] - rows[:, FIRST])
        return Pending(rounds, np.bincount(rows[:, ARM], minlength=self.arms) * self._shape.draws)

    def decide(self, state: State, round: Round, rng: Generator) -> Decision:
        rows = state["open"]
        place = int(np.searchsorted(rows[:, STOP], round.index, side="right"))
        if place == len(rows) or round.index < rows[place, FIRST]:
            raise PrivacyError(
                "the round is not part of an open block",
                path="round",
                given=round.index,
                allowed="rounds of open blocks",
                fix="call open before decide, one round after the other",
            )
        arm, _, _, ties, symmetric = (int(value) for value in rows[place])
        law = None if ties == 1 else self._coin(state, place)
        return Decision(arm, 1.0 / ties, law, symmetric=bool(symmetric))

    def _coin(self, state: State, place: int) -> Floats | None:
        """The law of the coin that chose a block's arm, where it chose among all arms that had had no block.

        Those are its own arm, the arms of blocks opened since, and the arms that have no block yet.
        """
        rows = state["open"][place:]
        among: Bools = state["played"] == 0
        if SHUT in state:
            among &= ~state[SHUT]
        among[rows[:, ARM]] = True
        ties = int(rows[0, TIES])
        return among / ties if np.count_nonzero(among) == ties else None

    # Learning and releases --------------------------------------------------------------------------------------------

    def learn(self, state: State, feedback: Feedback | Report) -> State:
        return self.learn_all(state, (feedback,))

    def learn_all(self, state: State, feedbacks: Iterable[Feedback | Report]) -> State:
        """Rounds of the oldest open block in rising order; what was handed over before is ignored."""
        oldest, handed = self.block(state), int(state["handed"][0])
        rewards: list[float] = []
        for feedback in feedbacks:
            check_arm(feedback, self.arms)
            reward = self._reward(feedback)
            if feedback.index < handed:
                continue
            _check_place(oldest, feedback)
            handed = feedback.index + 1
            if reward is not None:
                rewards.append(reward)
        if handed == state["handed"][0]:
            return state
        after = copy_state(state)
        after["handed"][0] = handed
        if rewards:
            after["answered"] += len(rewards)
            after |= nest("sum", self.sum.add(nested(after, "sum"), rewards))
        return after

    def _reward(self, feedback: Feedback | Report) -> float | None:
        """What a delivery adds to the sum of its block, None where nobody answered."""
        reward = raw_feedback(feedback).reward
        return None if reward is None else unit_reward(reward, self.strict)

    def block(self, state: State) -> Block | None:
        blocks = self._blocks(state, 1)
        return blocks[0] if blocks else None

    def open_blocks(self, state: State) -> list[Block]:
        return self._blocks(state, len(state["open"]))

    def _blocks(self, state: State, most: int) -> list[Block]:
        number, rows = int(state["released"][0]), state["open"][:most].tolist()
        return [Block(f"block-{number + i}", first, stop, arm) for i, (arm, first, stop, _, _) in enumerate(rows)]

    def draw(self, state: State, noise: Noise) -> State:
        """The noisy sum of the oldest block and the number of rewards in it (noisy too where arrivals are private)."""
        block = self._oldest(state)
        silent = self._shape.raw_first and state["closed"][block.arm] == 0
        total, _ = self.sum.release(nested(state, "sum"), ZeroNoise() if silent else noise)
        count = state["answered"].astype(np.float64)
        if self.hides_arrivals:
            count = count + noise.laplace(self.sum.sigma, self.sum.grid.width) / UNIT
        return {HEADER: block.header, "total": total["last"], "count": count}

    def adopt(self, state: State, block: str, value: State) -> State:
        found = check_header(self.block(state), block, value)
        after = self._closed(state)
        total, count = int(value["total"][0]), float(value["count"][0])
        publish(self._shape.keep, known_of(after), found.arm, total, count, self._shape.draws)
        return after

    def release(self, state: State, noise: Noise) -> State:
        return self.adopt(state, self._oldest(state).name, self.draw(state, noise))

    def lost(self, state: State, block: str) -> State:
        """The block's sum is gone: its arm keeps what was published before, its rounds still count as played."""
        after = self._closed(state)
        after["closed"][self._oldest(state).arm] += 1
        return after

    def _oldest(self, state: State) -> Block:
        block = self.block(state)
        if block is None:
            raise PrivacyError("no block is open", path="state", fix="call release while due names a block")
        return block

    def _closed(self, state: State) -> State:
        """Without the oldest block and its raw content."""
        after = copy_state(state)
        after["handed"][0] = max(int(after["handed"][0]), self._oldest(state).stop)
        after["open"] = after["open"][1:]
        after["answered"][:] = 0
        after["released"] += 1
        return after | nest("sum", self.sum.lost(nested(after, "sum")))

    # Simulation -------------------------------------------------------------------------------------------------------

    def coarse(self, case: Case) -> bool:
        recorded = bool((world_of(case).laws.kind == RECORDED).any())
        drawn = regular(case.lateness) or (case.lateness.even and not recorded)
        return case.spec["noise"] == "seeded" and drawn

    def simulator(self, case: Case, streams: Streams) -> Simulator[Stretch] | None:
        return BlockSimulator(self, case, streams) if self.coarse(case) and streams.noise.stream is not None else None

    def place(self, case: Case) -> Place:
        """The arms as this policy sees them."""
        world = world_of(case)
        return place_of(world.laws, world.true_means)

    def spent(self, releases: int) -> float:
        """Epsilon that one person has paid after so many releases."""
        return float(self.epsilon) if releases > 0 else 0.0


class BlockSimulator(Simulator[Stretch]):
    """A whole run as blocks; ``log`` says what was published when."""

    log: ReleaseLog

    def __init__(self, policy: EpisodePolicy, case: Case, streams: Streams) -> None:
        self.policy, self.world, self.place = policy, case.environment, policy.place(case)
        self.late, self.sources = compiled_lateness(case.lateness), sources_of(streams, regular(case.lateness))
        self.known = empty_known(policy.arms)

    def advance(self, stop: int) -> Stretch:
        policy = self.policy
        ends, codes, pulls, self.log = simulate(
            policy._numbers, policy._shape, self.known, self.place, self.late, self.sources, 0, stop
        )
        self.releases = len(self.log.at)
        self.spent = policy.spent(self.releases)
        return Stretch(codes, pulls, 0, ends)

    def published(self) -> State:
        return self.known._asdict()


def known_of(state: State) -> Known:
    """The public arrays of a state, as compiled code takes them; blocks are added to nothing."""
    nothing = empty_known(len(state["sums"]))
    return nothing._replace(**{name: state[name] for name in _KNOWN})


def _check_place(oldest: Block | None, feedback: Feedback | Report) -> None:
    """Refuse a round that is not of the oldest open block, or another arm than the block's."""
    if oldest is None or feedback.index >= oldest.stop:
        raise InputError(
            "the round is of a later block, or was not decided",
            path="feedback.index",
            given=feedback.index,
            allowed="rounds of the oldest open block" if oldest is None else f"rounds before {oldest.stop}",
            fix="hand rounds over in their order, and release while due names a block",
        )
    if feedback.arm != oldest.arm:
        raise InputError(
            "the feedback is for another arm than the one that was decided",
            path="feedback.arm",
            given=feedback.arm,
            allowed=str(oldest.arm),
        )
