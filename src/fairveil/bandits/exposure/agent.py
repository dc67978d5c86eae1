"""One agent of a private federation: its own rows, its own statistics, its own ledger.

Everything that leaves an agent is a `Message`; everything it learns about others comes as one. The arithmetic is the
policy's, so a federation of agents decides exactly as the policy's step interface and the compiled simulator do.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairveil.bandits.exposure.private import PrivatePolicy
from fairveil.bandits.protocol import Candidate, Decision, Feedback, Round
from fairveil.configuration import describe
from fairveil.errors import HorizonError, InputError, PrivacyError
from fairveil.federated import Form, Inbox, Message, Party, Receipt, release_once
from fairveil.federated.schedules import NEVER
from fairveil.privacy.guarantee import Neighbours
from fairveil.privacy.ledger import Ledger
from fairveil.privacy.noise import Noise
from fairveil.randomness import Generator
from fairveil.state import State, copy_state, load_state, save_state

Floats = NDArray[np.float64]
STATE, ROWS, LETTER = "state/", "rows/", "letter/"


@dataclass(frozen=True)
class Kept:
    """A decision that is not learned yet: what was chosen, and its reward once it is there or can come no more."""

    features: Floats
    reward: float | None = None
    settled: bool = False


class Agent(Party):
    """An agent that decides, keeps its rows, privatises before it sends, and believes checked messages only.

    Guarantee: the policy's. The first message charges the whole event to the agent's ledger, on an account of this
    policy and agent; every message is drawn once and stored there, so sending again repeats it and spends nothing.
    A row is in one message at most: where a message comes from the ledger and not from a draw (a retry, a restart), or
    is lost, the rows at hand up to its round are dropped. Refused messages change and spend nothing.
    A policy that uses own raw rows protects less; name its ``neighbours`` to say that this is meant.
    Cost: two durable commits a message; memory O(agents d^2) and the chosen features of rounds not learned yet.

    >>> import tempfile
    >>> from fairveil.bandits.exposure import BatchedPrivFairx
    >>> from fairveil.privacy.ledger import Ledger, Limit
    >>> policy = BatchedPrivFairx(agents=2, dimension=2, horizon=50, epsilon=1.0, delta=1e-5)
    >>> folder = tempfile.TemporaryDirectory()
    >>> with Ledger.open(folder.name + "/ledger.db", limit=Limit.covering(policy.event())) as ledger:
    ...     agent = Agent(policy, 0, ledger)
    ...     decision = agent.act(np.eye(2), np.random.default_rng(1))
    ...     agent.observe(0.5)
    ...     agent.due()
    False
    >>> folder.cleanup()
    """

    def __init__(
        self, policy: PrivatePolicy, index: int, ledger: Ledger, *, neighbours: Neighbours | str | None = None
    ) -> None:
        check_promise(policy, neighbours)
        if not 0 <= index < policy.agents:
            raise InputError("this agent is unknown", path="index", given=index, allowed=f"0..{policy.agents - 1}")
        self.policy, self.index, self.ledger = policy, index, ledger
        self.account = f"agent-{index}-{fingerprint(policy)}"
        self.state: State = policy.start()
        self.played = 0
        self.inbox = Inbox(index, policy.agents)
        self._form = form_of(policy)
        self._kept: dict[int, Kept] = {}
        self._learned = 0  # all rounds below are in the state, or will never be

    @property
    def syncs(self) -> int:
        """Synchronisations that are complete."""
        return int(self.state["syncs"])

    @property
    def refused(self) -> list[str]:
        """Why messages were refused, oldest first."""
        return self.inbox.refused

    @property
    def settled(self) -> int:
        """All rounds below are settled: their rewards are in, or can come no more."""
        waiting = [index for index, kept in self._kept.items() if not kept.settled]
        return min(waiting, default=self.played)

    # Rounds -------------------------------------------------------------------------------------------------------

    def act(self, contexts: ArrayLike, rng: Generator) -> Decision:
        """Choose among the actions shown. The round's number is `played` before the call."""
        try:
            rows = np.asarray(contexts, np.float64)
        except (TypeError, ValueError):
            raise InputError(
                "contexts are not numbers", path="contexts", allowed="a row of numbers per action"
            ) from None
        shown = Round(self.played, tuple(Candidate(0, row) for row in rows), self.index)
        decision = self.policy.decide(self.state, shown, rng)
        self._kept[self.played] = Kept(rows[decision.arm].copy())
        self.played += 1
        return decision

    def observe(self, reward: float | None, round: int | None = None) -> None:
        """The reward of a round (by default the last one), in any order; None: it will never come."""
        index = self.played - 1 if round is None else round
        kept = self._kept.get(index)
        if kept is None or kept.settled:
            raise InputError(
                "there is no open decision", path="round", given=index, allowed="a round without a reward, once"
            )
        if reward is not None:
            self.policy.check_reward(reward)
        self._kept[index] = replace(kept, reward=reward, settled=True)
        self._learn()

    def _learn(self) -> None:
        """Take settled rounds in, in their order: those of the block that is open, never of one behind it."""
        if self.inbox.own(self.syncs) is not None:
            return  # this block is sent: later rounds wait for the next one
        stop = int(self.state["next"]) if self.state["next"] != NEVER else self.played
        while self._learned < min(self.settled, stop):
            kept = self._kept.pop(self._learned, None)
            if kept is not None and kept.reward is not None:
                shown = Round(self._learned, (Candidate(0, kept.features),), self.index)
                self.state = self.policy.learn(self.state, Feedback(self._learned, 0, kept.reward, shown))
            self._learned += 1

    # Messages -----------------------------------------------------------------------------------------------------

    def due(self, now: int | None = None) -> bool:
        """Is a synchronisation due after ``now`` settled rounds (by default those of this agent)?"""
        time = int(self.state["next"])
        return time != NEVER and (self.settled if now is None else now) >= time and self.syncs < self.policy.syncs

    def send(self, noise: Noise | None = None) -> Message:
        """The message of the synchronisation that is due. Charged and stored before anybody sees it; drawn once.

        The agent may go on while others have not sent theirs: its rows from now on are for the next message.
        """
        sync, time = self.syncs, int(self.state["next"])
        if time == NEVER or sync >= self.policy.syncs:
            raise HorizonError(
                "no synchronisation is left",
                path="policy.schedule",
                given=sync + 1,
                allowed=f"at most {self.policy.syncs}",
                fix="give the schedule more room and start again",
            )
        known = self.inbox.own(sync)
        if known is not None:
            return known
        policy, after = self.policy, copy_state(self.state)

        def draw(source: Noise) -> dict[str, Any]:
            policy.privatise(after, self.index, source)
            return {**policy.sum_of(after, self.index), "stop": np.asarray(self._learned)}

        answer = release_once(self.ledger, self.account, policy.event(), f"sync-{sync}", draw, noise)
        if answer.fate != "drawn":  # the rows at hand may be in that message already: none may enter another one
            after = copy_state(self.state)
            policy.forget(after, self.index)
            self._learned = max(self._learned, time)
        if answer.fate == "stored":
            stored = dict(answer.value)
            self._learned = max(self._learned, int(stored.pop("stop")))
            policy.put_sum(after, self.index, stored)
        self._kept = {index: kept for index, kept in self._kept.items() if index >= self._learned}
        self.state = after
        message = self._message(sync, time, answer.fate == "lost")
        self.inbox.put(message)
        self._complete()
        return message

    def _message(self, sync: int, time: int, lost: bool) -> Message:
        matrix, d = self.policy.sent(self.state, self.index), self.policy.dimension
        payload = {"gram": matrix[:d, :d], "moment": matrix[:d, d]}
        return Message(self.index, sync, time, payload, self._form.guarantee, lost)

    def receive(self, message: Any) -> Receipt:
        receipt = self.inbox.take(message, self._form, self.syncs, self._time_of(message), self.policy.syncs)
        if receipt.accepted:
            self._complete()
        return receipt

    def _time_of(self, message: Any) -> int | None:
        """The round that a message must name; a later one may depend on releases that are not made yet."""
        sync = getattr(message, "sync", None)
        times = self.policy.times
        if times is not None and isinstance(sync, int) and 0 <= sync < len(times):
            return times[sync]
        return int(self.state["next"]) if sync == self.syncs else None

    def _complete(self) -> None:
        """Once everybody's message is here, take them all in."""
        here = self.inbox.complete(self.syncs)
        if here is None:
            return
        after = copy_state(self.state)
        batches = np.array([matrix_of(message) for message in here])
        self.policy.publish(after, batches.sum(axis=0), batches)
        self.state = after
        self._learn()

    # Restarts -----------------------------------------------------------------------------------------------------

    def save(self) -> bytes:
        rounds = sorted(self._kept)
        kept = [self._kept[index] for index in rounds]
        arrays: State = {STATE + name: array for name, array in self.state.items()}
        arrays |= {
            ROWS + "index": np.array(rounds, np.int64),
            ROWS + "features": np.array([one.features for one in kept]).reshape(len(kept), self.policy.dimension),
            ROWS + "reward": np.array([np.nan if one.reward is None else one.reward for one in kept], np.float64),
            ROWS + "settled": np.array([one.settled for one in kept], bool),
            "counts": np.array([self.played, self._learned], np.int64),
            "account": np.frombuffer(self.account.encode(), np.uint8),
        }
        for place, message in enumerate(self.inbox.messages()):
            arrays[f"{LETTER}{place:06d}"] = np.frombuffer(message.to_bytes(), np.uint8)
        return save_state(arrays)

    def load(self, data: bytes) -> None:
        arrays = load_state(data)
        if arrays.get("account", np.empty(0, np.uint8)).tobytes().decode(errors="replace") != self.account:
            raise InputError(
                "this was saved by another agent or under another policy", path="data", fix="build the agent it was"
            )
        self.state = {name.removeprefix(STATE): array for name, array in arrays.items() if name.startswith(STATE)}
        self.played, self._learned = (int(count) for count in arrays["counts"])
        columns = (arrays[ROWS + name] for name in ("index", "features", "reward", "settled"))
        self._kept = {
            int(index): Kept(features, None if np.isnan(reward) else float(reward), bool(settled))
            for index, features, reward, settled in zip(*columns)
        }
        self.inbox = Inbox(self.index, self.policy.agents)
        for name in sorted(name for name in arrays if name.startswith(LETTER)):
            self.inbox.put(Message.from_bytes(arrays[name].tobytes()))


def check_promise(policy: PrivatePolicy, neighbours: Neighbours | str | None) -> None:
    """Refuse a policy without an established guarantee, or with weaker neighbours than the caller knows of."""
    guarantee = policy.guarantee()
    if guarantee is None or not guarantee.established:
        raise PrivacyError(
            "agents send nothing without an established guarantee",
            path="policy",
            given=policy.name,
            fix="use a sound variant",
        )
    if guarantee.neighbours is Neighbours.REPLACE_INTERACTION_ROWS_FIXED and neighbours != guarantee.neighbours:
        raise PrivacyError(
            "this policy uses own raw rows: a real interaction changes later rows, which its promise takes as fixed",
            path="neighbours",
            given=neighbours,
            allowed=guarantee.neighbours.value,
            fix="use the frozen policy, or name these weaker neighbours",
        )


def fingerprint(policy: PrivatePolicy) -> str:
    """A short name of the policy's complete public table: another policy has another account in a ledger."""
    table = json.dumps(describe(policy), sort_keys=True, default=str)
    return hashlib.sha256(table.encode()).hexdigest()[:16]


def form_of(policy: PrivatePolicy) -> Form:
    """What the messages of a policy's agents look like: sums in scaled rows [x/L, w y/B]."""
    d, guarantee = policy.dimension, policy.guarantee()
    assert guarantee is not None
    largest = {"gram": policy.largest_number, "moment": policy.largest_number}
    return Form(policy.agents, {"gram": (d, d), "moment": (d,)}, largest, guarantee.to_dict(), symmetric=("gram",))


def matrix_of(message: Message) -> Floats:
    """The sums of a message as one matrix over [x, y]; the y y entry is not sent and is zero."""
    gram, moment = message.payload["gram"], message.payload["moment"]
    full = np.zeros((len(moment) + 1, len(moment) + 1))
    full[:-1, :-1] = gram
    full[:-1, -1] = full[-1, :-1] = moment
    return full
