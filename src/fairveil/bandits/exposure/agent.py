"""One agent of a private federation: its own rows, its own statistics, its own ledger.

Everything that leaves an agent is a `Message`; everything it learns about others comes as one. The arithmetic is the
policy's, so a federation of agents decides exactly as the policy's step interface and the compiled simulator do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fairveil.arrays import Floats
from fairveil.bandits.exposure.private import PrivatePolicy, form_of, matrix_of, payload
from fairveil.bandits.ledgered import account_of, check_promise
from fairveil.bandits.protocol import Candidate, Decision, Feedback, Round
from fairveil.errors import HorizonError, InputError, PrivacyError
from fairveil.federated import Inbox, Message, Party, Receipt
from fairveil.federated.party import by_synchronisation
from fairveil.federated.schedules import NEVER
from fairveil.ledger import Ledger, ReleaseLost, release_once
from fairveil.privacy.guarantee import Neighbours
from fairveil.privacy.noise import Noise
from fairveil.randomness import Generator
from fairveil.state import State, copy_state, load_state, save_state

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
    Absence: `leave_out` and `take_back` say who takes part, the same at every agent; an agent that was away follows by
    `catch_up`. Its rows of a synchronisation for which it has drawn nothing join its next message.
    Cost: two durable commits a message; memory O(agents d^2) and the chosen features of rounds not learned yet.

    >>> import tempfile
    >>> from fairveil.bandits.exposure import BatchedPrivFairx
    >>> from fairveil.ledger import Ledger, Limit
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
        self.account = account_of(policy, ledger, f"agent-{index}")
        self.state: State = policy.start()
        self.played = 0
        self.inbox = Inbox(index, policy.agents)
        self._form = form_of(policy)
        self._kept: dict[int, Kept] = {}
        self.absent: set[int] = set()
        self._learned = 0  # all rounds below are in the state, or will never be
        self._contributed = 0  # synchronisations whose masked numbers are stored
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

    def pass_over(self) -> None:
        """The last round teaches nothing: it counts as a row of zeros, so that the number of rows tells nothing."""
        index = self.played - 1
        if index in self._kept:
            self._kept[index] = replace(self._kept[index], features=np.zeros_like(self._kept[index].features))
        self.observe(0.0)

    def _learn(self) -> None:
        """Take settled rounds in, in their order: those of the block that is open, never of one behind it."""
        if self.inbox.own(self.syncs) is not None or self._contributed > self.syncs:
            return  # this block is sent: later rounds wait for the next one
        stop = int(self.state["next"]) if self.state["next"] != NEVER else self.played
        while self._learned < min(self.settled, stop):
            kept, number = self._kept.pop(self._learned, None), self.policy.number_of(self._learned, self.index)
            if kept is not None:
                shown = Round(number, (Candidate(0, kept.features),), self.index)
                self._take(Feedback(number, 0, kept.reward, shown), shown)
            self._learned += 1

    def _take(self, feedback: Feedback, shown: Round) -> None:
        """Take a row in: each comes here once. One of a synchronisation that went by without it joins the next."""
        after = copy_state(self.state)
        if "taken" in after:
            after["taken"][...] = max(int(after["taken"]), feedback.index + 1)
        self.policy.take(after, feedback, shown)
        self.state = after

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
        if self.policy.secure:
            raise PrivacyError(
                "an agent of secure sums shows its numbers behind masks only", path="policy.sums", given="secure",
                fix="run it in a federation: fairveil federate",
            )  # fmt: skip
        message = self._made(sync, time, noise)
        self.inbox.put(message)
        self._complete()
        return message

    def _made(self, sync: int, time: int, noise: Noise | None) -> Message:
        """The message of this synchronisation, drawn now or out of the ledger."""
        after = copy_state(self.state)

        def draw(source: Noise) -> dict[str, Any]:
            self._known = True  # the block is this agent's, whatever becomes of it
            rows = after["rows"][self.index] if "rows" in after else 0
            self.policy.privatise(after, [self.index], source)
            kept = {"rows": np.asarray(rows), "stop": np.asarray(self._learned)}
            return {**self.policy.sum_of(after, self.index), **kept}

        block = self.account.block(f"sync-{sync}")
        found = release_once(self.account, block, draw, noise, resume=self._known)
        self._known = True
        after = found.answer(drawn=lambda _: after, stored=lambda _: self._dropped(), lost=lambda _: self._dropped())
        rows, lost = 0, isinstance(found.value, ReleaseLost)
        if not lost:
            stored = dict(found.value)
            self._learned, rows = max(self._learned, int(stored.pop("stop"))), int(stored.pop("rows"))
            self.policy.put_sum(after, self.index, stored)
        self._kept = {index: kept for index, kept in self._kept.items() if index >= self._learned}
        self.state = after
        matrix = self.policy.sent(after, [self.index])[0]
        return Message(self.index, sync, time, payload(self.policy, matrix, rows), self._form.guarantee, lost)

    def _dropped(self) -> State:
        """The rows at hand may be in that message already: none may enter another one."""
        left = copy_state(self.state)
        self.policy.forget(left, [self.index])
        self._learned = max(self._learned, int(self.state["next"]))
        self._kept = {index: kept for index, kept in self._kept.items() if index >= self._learned}
        return left

    def receive(self, message: Any) -> Receipt:
        if isinstance(message, Message) and message.sender in self.absent:
            return self.inbox.refuse("from a party that is left out")
        receipt = self.inbox.take(message, self._form, self.syncs, self._time_of(message), self.policy.syncs)
        if receipt.accepted:
            self._complete()
        return receipt

    def _time_of(self, message: Any) -> int | None:
        """The round that a message must name; a later one may depend on releases that are not made yet."""
        sync, times = message.sync if isinstance(message, Message) else None, self.policy.times
        if times is not None and isinstance(sync, int) and 0 <= sync < len(times):
            return times[sync]
        return int(self.state["next"]) if sync == self.syncs else None

    def leave_out(self, parties: Iterable[int]) -> None:
        """From the synchronisation that is awaited on nobody waits for these parties, nor believes them, until
        `take_back`. Public, and the same at every agent; this one may be among them, and keeps rows it has not sent."""
        absent = self.absent | set(parties)
        unknown = sorted(absent - set(range(self.policy.agents)))
        if unknown or len(absent) == self.policy.agents:
            raise InputError(
                "these parties cannot be left out", path="parties", given=unknown or sorted(absent),
                allowed=f"some of 0..{self.policy.agents - 1}, not all",
            )  # fmt: skip
        self.absent = absent
        self._complete()

    def take_back(self, parties: Iterable[int]) -> None:
        """These parties take part again, from the synchronisation that is awaited on."""
        self.absent -= set(parties)

    def released(self, sync: int) -> bool:
        return self.ledger.status(self.account.block(f"sync-{sync}")) in ("published", "lost")

    def catch_up(self, messages: Iterable[Message]) -> None:
        """Follow synchronisations that others completed meanwhile: all messages of each, from a log.

        An own message among them must be in this agent's ledger: it is repeated from there, never drawn again.
        """
        for sync, group in by_synchronisation(messages, self.syncs):
            reasons = [self._form.problem_with(one) for one in group.values()]
            times = {one.round for one in group.values()} - {int(self.state["next"])}
            if any(reasons) or times or sync >= self.policy.syncs:
                reason = next(filter(None, reasons), "not in the schedule")
                raise InputError(f"the log holds a message {reason}", path="messages", given=f"synchronisation {sync}")
            if self.index in group:
                self._repeat(group[self.index])
            for sender, message in group.items():
                if sender != self.index:
                    self.inbox.put(message)
            away = set(range(self.policy.agents)) - set(group)
            before, self.absent = self.absent, away
            self._complete()
            self.absent = before

    def _repeat(self, known: Message) -> None:
        """Put the own message of a log in, out of the own ledger."""
        if self.inbox.own(known.sync) is None and self.released(known.sync):
            self._known = True
            self.inbox.put(self._made(known.sync, known.round, None))
        own = self.inbox.own(known.sync)
        if own is None or own.to_bytes() != known.to_bytes():
            raise PrivacyError(
                "the log holds a message in this party's name that its ledger does not know", path="messages",
                given=f"synchronisation {known.sync}", fix="a party whose folder is lost is retired, and joins anew",
            )  # fmt: skip

    def _complete(self) -> None:
        """Once the messages of everybody who takes part are here, take them all in."""
        sync = self.syncs
        sent = self.inbox.own(sync) is not None
        here = self.inbox.complete(sync, set(range(self.policy.agents)) - self.absent)
        if here is None:
            return
        here = [message for message in here if message.sender not in self.absent]
        present = [message.sender for message in here]
        after = copy_state(self.state)
        if "rows" in after:
            own = 0 if sent else int(after["rows"][self.index])
            after["rows"][:] = 0
            after["rows"][self.index] = own
            after["rows"][present] = [int(message.payload["rows"]) for message in here]
        self.policy.publish(after, np.array([matrix_of(message) for message in here]), present)
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
            "counts": np.array([self.played, self._learned, self._contributed], np.int64),
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
        self.played, self._learned, *more = (int(count) for count in arrays["counts"])
        self._contributed = more[0] if more else 0
        columns = (arrays[ROWS + name] for name in ("index", "features", "reward", "settled"))
        self._kept = {
            int(index): Kept(features, None if np.isnan(reward) else float(reward), bool(settled))
            for index, features, reward, settled in zip(*columns)
        }
        self._known = True
        self.inbox = Inbox(self.index, self.policy.agents)
        for name in sorted(name for name in arrays if name.startswith(LETTER)):
            self.inbox.put(Message.from_bytes(arrays[name].tobytes()))
