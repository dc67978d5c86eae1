"""One agent of a private federation: its own rows, its own statistics, its own ledger.

Everything that leaves an agent is a `Message`; everything it learns about others comes as one. The arithmetic is the
policy's, so a federation of agents decides exactly as the policy's step interface and the compiled simulator do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairveil.bandits.exposure.private import PrivatePolicy
from fairveil.bandits.ledgered import check_promise, fingerprint
from fairveil.bandits.protocol import Candidate, Decision, Feedback, Round
from fairveil.errors import HorizonError, InputError, PrivacyError
from fairveil.federated import Account, Form, Inbox, Message, Party, Receipt, Released, release_once
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
    A policy that uses own raw rows protects less; name its ``neighbours`` to say that this is meant. ``default``: a
    reward that never comes counts as this, so that the number of rows in a message says nothing; else that is public.
    ``resume``: a new agent goes on over a ledger that holds its messages; without it they are taken for another's.
    Cost: two durable commits a message; memory O(agents d^2) and the chosen features of rounds not learned yet.

    >>> import tempfile
    >>> from fairveil.bandits.exposure import BatchedPrivFairx
    >>> from fairveil.privacy.ledger import Ledger, Limit
    >>> policy = BatchedPrivFairx(agents=2, dimension=2, horizon=50, epsilon=1.0, delta=1e-5)
    >>> folder = tempfile.TemporaryDirectory()
    >>> with Ledger.create(folder.name + "/ledger.db", limit=Limit.covering(policy.event())) as ledger:
    ...     agent = Agent(policy, 0, ledger)
    ...     decision = agent.act(np.eye(2), np.random.default_rng(1))
    ...     agent.observe(0.5)
    ...     agent.due()
    False
    >>> folder.cleanup()
    """

    def __init__(
        self,
        policy: PrivatePolicy,
        index: int,
        ledger: Ledger,
        *,
        neighbours: Neighbours | str | None = None,
        default: float | None = None,
        resume: bool = False,
    ) -> None:
        check_promise(policy, neighbours)
        if not 0 <= index < policy.agents:
            raise InputError("this agent is unknown", path="index", given=index, allowed=f"0..{policy.agents - 1}")
        if default is not None:
            policy.check_reward(default)
        self.policy, self.index, self.default = policy, index, default
        self.account = Account(ledger, f"agent-{index}", policy.event(), fingerprint(policy))
        self.state: State = policy.start()
        self.played = 0
        self.inbox = Inbox(index, policy.agents)
        self._form = form_of(policy)
        self._kept: dict[int, Kept] = {}
        self._learned = 0  # all rounds below are in the state, or will never be
        self._known = resume  # the blocks of the account are this agent's own

    @property
    def ledger(self) -> Ledger:
        return self.account.ledger

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
        self._kept[index] = replace(kept, reward=self.default if reward is None else reward, settled=True)
        self._learn()

    def _learn(self) -> None:
        """Take settled rounds in, in their order: those of the block that is open, never of one behind it."""
        if self.inbox.own(self.syncs) is not None:
            return  # this block is sent: later rounds wait for the next one
        stop = int(self.state["next"]) if self.state["next"] != NEVER else self.played
        while self._learned < min(self.settled, stop):
            kept, number = self._kept.pop(self._learned, None), self.policy.number_of(self._learned, self.index)
            if kept is not None:
                shown = Round(number, (Candidate(0, kept.features),), self.index)
                self.state = self.policy.learn(self.state, Feedback(number, 0, kept.reward, shown))
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
        answer, after = self._release(f"sync-{sync}", noise)
        if answer.fate != "drawn":  # the rows at hand may be in that message already: none may enter another one
            after = copy_state(self.state)
            self.policy.forget(after, [self.index])
            self._learned = max(self._learned, time)
        rows = 0
        if answer.value is not None:
            stored = dict(answer.value)
            self._learned, rows = max(self._learned, int(stored.pop("stop"))), int(stored.pop("rows"))
            self.policy.put_sum(after, self.index, stored)
        self._kept = {index: kept for index, kept in self._kept.items() if index >= self._learned}
        self.state = after
        matrix = self.policy.sent(after, [self.index])[0]
        arrays, lost = payload(self.policy, matrix, rows), answer.fate == "lost"
        message = Message(self.index, sync, time, arrays, self._form.guarantee, lost)
        self.inbox.put(message)
        self._complete()
        return message

    def _release(self, block: str, noise: Noise | None) -> tuple[Released, State]:
        """What the ledger answers, and the state after a draw."""
        if not self._known and self.ledger.first_block(self.account.name) is not None:
            raise PrivacyError(
                "this account has messages already, and this agent has sent none",
                path="ledger",
                given=self.account.name,
                allowed="the agent that was saved last, or a ledger of its own",
                fix="load the saved agent; resume=True if it stopped before it was saved",
            )
        self._known = True
        after = copy_state(self.state)

        def draw(source: Noise) -> dict[str, Any]:
            rows = after["rows"][self.index] if "rows" in after else 0
            self.policy.privatise(after, [self.index], source)
            kept = {"rows": np.asarray(rows), "stop": np.asarray(self._learned)}
            return {**self.policy.sum_of(after, self.index), **kept}

        return release_once(self.account, block, draw, noise), after

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
        if "rows" in after:
            after["rows"][:] = [int(message.payload["rows"]) for message in here]
        self.policy.publish(after, np.array([matrix_of(message) for message in here]))
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
            "who": np.frombuffer(self._who.encode(), np.uint8),
        }
        for place, message in enumerate(self.inbox.messages()):
            arrays[f"{LETTER}{place:06d}"] = np.frombuffer(message.to_bytes(), np.uint8)
        return save_state(arrays)

    @property
    def _who(self) -> str:
        return f"{self.account.name} {self.account.holder}"

    def load(self, data: bytes) -> None:
        arrays = load_state(data)
        if arrays.get("who", np.empty(0, np.uint8)).tobytes().decode(errors="replace") != self._who:
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
        self._known = True
        self.inbox = Inbox(self.index, self.policy.agents)
        for name in sorted(name for name in arrays if name.startswith(LETTER)):
            self.inbox.put(Message.from_bytes(arrays[name].tobytes()))


def form_of(policy: PrivatePolicy) -> Form:
    """What the messages of a policy's agents look like: sums in scaled rows [x/L, w y/B], and how many rows they hold
    where that is said."""
    d, guarantee = policy.dimension, policy.guarantee()
    assert guarantee is not None
    shapes: dict[str, tuple[int, ...]] = {"gram": (d, d), "moment": (d,)}
    largest = dict.fromkeys(shapes, policy.largest_number)
    if policy.counts_rows:
        shapes["rows"], largest["rows"] = (), float(policy.horizon)
    return Form(policy.agents, shapes, largest, guarantee.to_dict(), symmetric=("gram",), counts=("rows",))


def payload(policy: PrivatePolicy, matrix: Floats, rows: int) -> dict[str, Floats]:
    """A message's arrays; the y y entry of the matrix over [x, y] is not sent."""
    d = policy.dimension
    arrays = {"gram": matrix[:d, :d], "moment": matrix[:d, d]}
    return {**arrays, "rows": np.asarray(float(rows))} if policy.counts_rows else arrays


def matrix_of(message: Message) -> Floats:
    """The sums of a message as one matrix over [x, y]; the y y entry is not sent and is zero."""
    gram, moment = message.payload["gram"], message.payload["moment"]
    full = np.zeros((len(moment) + 1, len(moment) + 1))
    full[:-1, :-1] = gram
    full[:-1, -1] = full[-1, :-1] = moment
    return full
