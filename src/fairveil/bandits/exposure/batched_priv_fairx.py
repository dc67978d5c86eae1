"""Batched-Priv-FairX: agents publish disjoint growing batches, each row in exactly one noisy release."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from fairveil.arrays import Floats, Ints
from fairveil.bandits.exposure.belief import Beliefs, Radius
from fairveil.bandits.exposure.private import SUM, PrivatePolicy
from fairveil.bandits.lateness import BATCHES_IN_WORDS, SEATS, Release, seats_named
from fairveil.bandits.protocol import HEADER, Block, Clock, Feedback, Policy, check_header
from fairveil.configuration import configuration
from fairveil.errors import InputError, SpecError
from fairveil.federated.schedules import NEVER, Growing
from fairveil.fields import Count, Natural, Positive, described
from fairveil.privacy.events import Event
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.noise import Noise
from fairveil.privacy.sums.base import RunningSum
from fairveil.privacy.sums.batch import BatchSum
from fairveil.registry import register
from fairveil.state import State, copy_state, nested

LARGEST_SUM = 2.0**62
"""Masked sums are taken modulo 2^64; below this nothing wraps around."""


@register("policy", "batched-priv-fairx")
@configuration
class BatchedPrivFairx(PrivatePolicy):
    """Exposure-fair federated learning from noisy sums of disjoint growing batches.

    Guarantee: (epsilon, delta) federated privacy of one interaction of one agent. A row meets one noise only,
    however many synchronisations there are (parallel composition), and the frozen policy reads nothing but releases.
    ``personal=True``: an agent adds its own raw rows, all of them, to the others' releases, weighted by their
    precision (measured: not worse than alone beyond chance, see fairx/map); the guarantee then holds with the
    agent's other rows fixed. ``local_raw=True``: own raw rows since the last synchronisation only; the same weaker
    neighbours.
    Late rewards: a batch is released when all its decisions are settled. By blocks a row belongs to the batch of its
    decision; by arrival to the batch that is open when it settles (answered, or its window closed), so nobody waits for
    the slowest. The schedule says when releases fall; ``outstanding`` decisions (public; a spec fills in the usual
    delay of its feedback) are under way then, so batches end that much earlier and the releases come in time.
    How batches are weighed: a batch of n rows counts n/(n0 + n), where n0 is the size at which reward noise equals
    privacy noise for rows with ``row_information`` as smallest second moment (by default that of the uniform cube,
    L^2/(12 d)); a wrong guess costs accuracy, never privacy. n is the number of rows that are really there: public
    where arrivals are, the number of rounds where a missing reward counts as a default. ``reward_weight`` = sqrt(1/2)
    minimises the noise of u - G theta when |theta| = 1: (1 + w^2)^2 (1 + 1/w^2) is smallest there.
    ``sums="secure"``: agents show masked sums that add up, each with a share of the noise; ``colluding`` of them may
    pool what they know (docs/guarantees/secure-sums.md). In a simulation the sum is formed in the open.
    Cost: one mu-GDP event per agent for ever. Thirteen synchronisations instead of 20,002 at T = 100,000. Learn O(d^2)
    a row, release O(agents d^2), memory O(agents d^2).

    >>> policy = BatchedPrivFairx(agents=10, dimension=5, horizon=100_000, epsilon=2.0, delta=0.1)
    >>> policy.syncs < 200, policy.guarantee().neighbours.value
    (True, 'replace-interaction')

    Reference: disjoint batches as in docs/guarantees/sums.md; the setting is Solanki, Jain and Gujar's.
    """

    clock: ClassVar[Clock] = "settled"
    counts_rows: ClassVar[bool] = True

    _: KW_ONLY
    schedule: Any = described("when agents synchronise", default=Growing(2.0, 16))
    reward_weight: Positive = described("w, weight of the reward in a row", default=math.sqrt(0.5))
    personal: bool = described("add all own raw rows to the others' releases: weaker neighbours", default=False)
    local_raw: bool = described("use own raw rows since the last synchronisation: weaker neighbours", default=False)
    row_information: Positive | None = described("smallest second moment of a context, for the weights", default=None)
    outstanding: Natural = described("decisions under way when a release falls due", default=0)
    released_by: Release = described(BATCHES_IN_WORDS, default="blocks", key="release", later=True)
    sums: Literal["own", "secure"] = described(
        "who sees the noisy sums of one agent: all, or nobody", default="own", later=True
    )
    colluding: Count = described("t, agents that may pool what they know (secure sums)", default=1, later=True)

    def __post_init__(self) -> None:
        if self.personal and self.local_raw:
            raise SpecError("personal already uses all own rows", path="local_raw", given=True, allowed="false")
        super().__post_init__()
        self.check_raw_trigger(False)
        if self.secure:
            self._check_secure()

    def _check_secure(self) -> None:
        if self.colluding >= self.agents:
            raise SpecError(
                "all agents may collude: nothing is left to hide", path="colluding", given=self.colluding,
                allowed=f"below the number of agents, {self.agents}", fix="use sums = own",
            )  # fmt: skip
        self.event()  # refuses shares that are too small
        largest = self.agents * math.ldexp(self.largest_number, self.running.grid.sum_bits)
        if largest >= LARGEST_SUM:
            raise SpecError(
                "a sum over all agents does not fit 62 bits", path="sums", given="secure",
                allowed="own", fix="fewer agents, a shorter horizon, or a larger epsilon",
            )  # fmt: skip

    @property
    def secure(self) -> bool:
        """Whether agents see the sum of all only, and each adds a share of its noise."""
        return self.sums == "secure"

    def share(self, present: int) -> BatchSum:
        """The sum of one of ``present`` agents: as much noise as the agents that do not collude need together."""
        assert isinstance(self.running, BatchSum)
        return self.running.shared(present - self.colluding)

    def sum_variance(self, present: int) -> float:
        """Noise variance of the sum of so many agents."""
        return self.noise_variance(1) * present / ((present - self.colluding) if self.secure else 1)

    def event(self) -> Event:
        if not self.secure:
            return super().event()
        assert isinstance(self.running, BatchSum)
        return self.running.shared_event(self.agents - self.colluding)

    def _side_by_side(self, count: int) -> RunningSum:
        if not self.secure:
            return super()._side_by_side(count)
        return self.share(self.agents).many(count)

    @property
    def by_seat(self) -> bool:
        """Own raw rows are used when they come, so a policy that does keeps the order of decisions."""
        return self.released_by == "arrivals" and not self.uses_local

    @cached_property
    def uses_local(self) -> bool:
        return self.personal or self.local_raw

    @cached_property
    def keeps_local(self) -> bool:
        return self.personal

    @property
    def released(self) -> tuple[str, ...]:
        return (*super().released, "own") if self.personal and not self.secure else super().released

    @cached_property
    def running(self) -> RunningSum:
        return BatchSum(
            shape="symmetric",
            dimension=self.dimension + 1,
            bound=self.row_bound,
            epsilon=self.epsilon,
            delta=self.delta,
        )

    @cached_property
    def times(self) -> list[int] | None:
        """Ends of the batches: what the schedule says, less the rounds that are under way when a release falls due."""
        times = self.protocol.times(self.horizon, self.agents, self.dimension)
        early = math.ceil(self.outstanding / self.agents)
        return None if times is None else [time - early for time in times if time > early]

    @property
    def room(self) -> int:
        return max(self.syncs, 1)

    def guarantee(self) -> Guarantee:
        return Guarantee.approximate(
            self.epsilon,
            self.delta,
            model="federated",
            unit="one interaction of one agent",
            neighbours=self.neighbours,
            notes=(
                *self.notes(),
                "released Gram matrices are turned into precisions direction by direction after the noise; directions "
                "with an eigenvalue at or below zero carry none, so the result is positive definite",
                "which rounds a batch holds follows from the schedule; that and the number of its rows are public",
                *((SEATS,) if self.by_seat else ()),
                *(self._secure_notes() if self.secure else ()),
            ),
        )

    def _secure_notes(self) -> tuple[str, ...]:
        return (
            "what is seen of a batch is the sum over the agents that take part; the promise holds against everybody "
            f"else and up to {self.colluding} of these agents, who pool all they know, while nobody breaks X25519, "
            "ChaCha20 or Ed25519; each agent adds a share of the noise, and a row meets one sum over one set of agents",
        )

    def start(self) -> State:
        width = self.dimension + 1
        return super().start() | {
            "taken": np.zeros((), np.int64),
            "rows": np.zeros(self.agents, np.int64),
            "own": np.zeros((self.agents if self.personal else 0, width, width)),
            **({"block": np.zeros((self.agents if self.personal else 0, width, width))} if self.secure else {}),
        }

    def take_row(self, state: State, agent: int, context: Floats, reward: float) -> None:
        super().take_row(state, agent, context, reward)
        state["rows"][agent] += 1

    def takes(self, state: State, feedback: Feedback) -> bool:
        """Rounds come in their order, each once; what belongs to a released batch changes nothing."""
        if feedback.index < int(state["taken"]):
            return False
        block = self.block(state)
        if block is not None and feedback.index >= block.stop:
            raise InputError(
                "this round belongs to a later batch",
                path="feedback.index",
                given=feedback.index,
                allowed=f"rounds below {block.stop}",
                fix="release the batch that is open first",
            )
        state["taken"][...] = feedback.index + 1
        return True

    # Releases -----------------------------------------------------------------------------------------------------

    def block(self, state: State) -> Block | None:
        made, stop = int(state["syncs"]), int(state["next"])
        if made >= self.syncs or stop == NEVER:
            return None
        ends = self.decisions_after(int(state["last"])), self.decisions_after(stop)
        return Block(seats_named(*ends) if self.by_seat else f"sync-{made}", *ends)

    def due(self, state: State, settled: int) -> str | None:
        return Policy.due(self, state, settled)

    def draw(self, state: State, noise: Noise) -> State:
        self.check_room(state)
        block, after = self.block(state), copy_state(state)
        assert block is not None
        self.privatise(after, range(self.agents), noise)
        batches = nested(after, SUM)["last"]
        shown = {"total": batches.sum(axis=0)} if self.secure else {"batches": batches}
        return {HEADER: block.header, **shown, "rows": state["rows"].copy()}

    def adopt(self, state: State, block: str, value: State) -> State:
        check_header(self.block(state), block, value)
        after = copy_state(state)
        if self.personal and self.secure:
            after["block"] += state["leaf"]
        self.forget(after, range(self.agents))
        if self.secure:
            self.publish_sum(after, value["total"], range(self.agents), int(value["rows"].sum()))
            return after
        after[f"{SUM}/last"][:] = value["batches"]
        after[f"{SUM}/published"] += value["batches"]
        after["rows"][:] = value["rows"]
        self.publish(after, self.sent(after, range(self.agents)))
        return after

    def release(self, state: State, noise: Noise) -> State:
        self.check_room(state)
        block = self.block(state)
        assert block is not None
        return self.adopt(state, block.name, self.draw(state, noise))

    def forget(self, state: State, agents: Sequence[int]) -> None:
        super().forget(state, agents)
        state["rows"][list(agents)] = 0

    def published_by(self, sums: RunningSum, held: State) -> Floats:
        """What is published of a sum: its last batch."""
        assert isinstance(sums, BatchSum)
        return sums.last_batch(held)

    # Beliefs ------------------------------------------------------------------------------------------------------

    def batch_weights(self, rows: Ints, variance: float | None = None) -> Floats:
        """How much batches of so many rows count: n/(n0 + n), n0 for noise of this variance (that of one agent)."""
        known = self.row_information or self.context_bound**2 / (12 * self.dimension)
        noise = self.noise_variance(1) if variance is None else variance
        even = noise * self.noise_gain() / (self.reward_std**2 * known)
        return rows / (even + rows)

    def publish(self, state: State, messages: Floats, present: Sequence[int] | None = None) -> None:
        """Take in one batch of each of these agents, weighed by the rows that ``state["rows"]`` says it holds."""
        here = self.who(present)
        rows, weights = state["rows"][here], self.batch_weights(state["rows"][here])
        weighed = weights[:, None, None] * messages
        state["released"] += weighed.sum(axis=0)
        state["variance"][here] += self.noise_variance(1) * weights**2
        state["counted"] += np.array([(weights * rows).sum(), (weights**2 * rows).sum()]) / self.agents
        if self.personal:
            state["own"][here] += weighed
        if state["counted"][0] > 0:
            self._believe(state, float(state["counted"][1] / state["counted"][0]))
        self.close(state, present)

    def publish_sum(self, state: State, units: Ints, present: Sequence[int], rows: int) -> None:
        """Take in the sum of one batch of each of these agents (flat integers) over ``rows`` rows in all, in place.

        One weight N/(n0 + N) for the sum, n0 by the variance of its noise. A personal agent takes its own exact rows of
        the batch off again, never what it sent: the rest then carries all of the noise.
        """
        here, variance = self.who(present), self.sum_variance(len(present))
        weight = float(self.batch_weights(np.array([rows]), variance)[0])
        state["released"] += weight * self.running.grid.publish(units)
        state["variance"][here] += variance * weight**2 / len(here)
        state["counted"] += np.array([weight * rows, weight**2 * rows]) / self.agents
        if self.personal:
            state["own"][here] += weight * state["block"][here]
            state["block"][here] = 0.0
        if state["counted"][0] > 0:
            self._believe(state, float(state["counted"][1] / state["counted"][0]))
        self.close(state, present)

    def close(self, state: State, present: Sequence[int] | None = None) -> None:
        stop = self.decisions_after(self.time_of(state))
        state["taken"][...] = max(int(state["taken"]), stop)
        state["rows"][self.who(present)] = 0
        super().close(state, present)

    def _believe(self, state: State, share: float) -> None:
        beliefs, variance = self.beliefs(state), float(state["variance"].sum())
        if not self.personal:
            self.weighted_belief(beliefs, state["released"], variance, share)
            return
        for i in range(self.agents if self.agents > 1 else 0):
            others = variance if self.secure else variance - float(state["variance"][i])
            self.weighted_belief(one_of(beliefs, i), state["released"] - state["own"][i], others, share)

    def mean_gain(self, state: State) -> Floats:
        gram, _ = self.natural(state["released"])
        values, vectors = np.linalg.eigh(gram)
        rows = max(float(state["counted"][0]), 1e-12) * self.agents
        return (vectors * np.maximum(values, 0.0)) @ vectors.T / rows / self.reward_std**2


def one_of(beliefs: Beliefs, agent: int) -> Beliefs:
    """The beliefs of one agent alone: views of the same arrays."""
    who = slice(agent, agent + 1)
    views = {name: array[who] for name, array in beliefs._asdict().items() if name != "radius"}
    return Beliefs(**views, radius=Radius(*(numbers[who] for numbers in beliefs.radius)))
