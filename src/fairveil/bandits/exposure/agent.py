"""One agent of a private federation: its own rows, its own statistics, its own ledger.

Everything that leaves an agent is a `Message`; everything it learns about others comes as one. The arithmetic is the
policy's, so a federation of agents decides exactly as the policy's step interface and the compiled simulator do.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fairveil.bandits.exposure.messages import Message, problem_with
from fairveil.bandits.exposure.private import PrivatePolicy
from fairveil.bandits.exposure.schedules import NEVER
from fairveil.bandits.protocol import Candidate, Decision, Feedback, Round
from fairveil.errors import HorizonError, InputError, PrivacyError
from fairveil.privacy.ledger import Ledger
from fairveil.privacy.noise import Noise
from fairveil.randomness import Generator
from fairveil.state import State, copy_state

log = logging.getLogger("fairveil.bandits.exposure")
ACCOUNT = "messages"


@dataclass(frozen=True)
class Receipt:
    """What became of a message: taken, or refused with a reason that repeats nothing of it."""

    accepted: bool
    reason: str = ""


class Agent:
    """An agent that decides, keeps its rows, privatises before it sends, and believes checked messages only.

    Guarantee: the policy's. The first message charges the whole event to the agent's ledger; every message is drawn
    once and stored there, so sending again repeats it and spends nothing. Refused messages change and spend nothing.

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

    def __init__(self, policy: PrivatePolicy, index: int, ledger: Ledger) -> None:
        guarantee = policy.guarantee()
        if guarantee is None or not guarantee.established:
            raise PrivacyError(
                "agents send nothing without an established guarantee",
                path="policy",
                given=policy.name,
                fix="use a sound variant",
            )
        if not 0 <= index < policy.agents:
            raise InputError("this agent is unknown", path="index", given=index, allowed=f"0..{policy.agents - 1}")
        self.policy, self.index, self.ledger = policy, index, ledger
        self.state: State = policy.start()
        self.played = 0
        self.refused: list[str] = []
        self._guarantee = guarantee.to_dict()
        self._open: tuple[Round, int] | None = None
        self._sent = self.state["local"][index].copy()
        self._waiting: dict[int, dict[int, Message]] = {}

    @property
    def syncs(self) -> int:
        """Synchronisations that are complete."""
        return int(self.state["syncs"])

    def act(self, contexts: ArrayLike, rng: Generator) -> Decision:
        """Choose among the actions shown."""
        try:
            rows = np.asarray(contexts, np.float64)
        except (TypeError, ValueError):
            raise InputError(
                "contexts are not numbers", path="contexts", allowed="a row of numbers per action"
            ) from None
        shown = Round(self.played, tuple(Candidate(0, row) for row in rows), self.index)
        decision = self.policy.decide(self.state, shown, rng)
        self._open = (shown, decision.arm)
        self.played += 1
        return decision

    def observe(self, reward: float) -> None:
        """The reward of the last decision."""
        if self._open is None:
            raise InputError("there is no open decision", path="reward", fix="call act first")
        shown, arm = self._open
        self.state = self.policy.learn(self.state, Feedback(shown.index, arm, reward, shown))
        self._open = None

    def due(self, now: int | None = None) -> bool:
        """Is a synchronisation due after ``now`` rounds (by default the rounds this agent has played)?"""
        time = int(self.state["next"])
        return time != NEVER and (self.played if now is None else now) >= time and self.syncs < self.policy.syncs

    def send(self, noise: Noise | None = None) -> Message:
        """The message of the synchronisation that is due. Charged and stored before anybody sees it; drawn once.

        The agent may go on while others have not sent theirs: its rows from now on are for the next message.
        """
        time = int(self.state["next"])
        if time == NEVER or self.syncs >= self.policy.syncs:
            raise HorizonError(
                "no synchronisation is left",
                path="policy.schedule",
                given=self.syncs + 1,
                allowed=f"at most {self.policy.syncs}",
                fix="give the schedule more room and start again",
            )
        sync = self.syncs
        known = self._waiting.get(sync, {}).get(self.index)
        if known is not None:
            return known
        after = copy_state(self.state)

        def draw(source: Noise) -> dict[str, Any]:
            sums = self.policy.privatise(after, self.index, source)
            after["leaf"][self.index] = 0.0
            self._sent = after["local"][self.index].copy()
            d = self.policy.dimension
            return {"gram": sums[:d, :d].copy(), "moment": sums[:d, d].copy()}

        self.ledger.spend(ACCOUNT, self.policy.event(), releases=None)
        value = self.ledger.release(f"sync-{sync}", draw, account=ACCOUNT, noise=noise)
        self.state = after
        message = Message(self.index, sync, time, value["gram"], value["moment"], self._guarantee)
        self._waiting.setdefault(sync, {})[self.index] = message
        self._complete()
        return message

    def receive(self, message: Any) -> Receipt:
        """Take a message of another agent, or refuse it: then nothing changes or is spent, and the log says why."""
        policy = self.policy
        reason = problem_with(message, policy.agents, policy.dimension, policy.largest_number, self._guarantee)
        reason = reason or self._place(message)
        if reason:
            self.refused.append(reason)
            log.warning("agent %d refused a message: %s", self.index, reason)
            return Receipt(False, reason)
        self._waiting.setdefault(message.sync, {})[message.sender] = message
        self._complete()
        return Receipt(True)

    def _place(self, message: Message) -> str:
        """Why a well-formed message does not fit in now; a message of the next synchronisation may wait."""
        if message.sender == self.index:
            return "from this agent itself"
        if message.sync < self.syncs or message.sender in self._waiting.get(message.sync, {}):
            return "replayed"
        if message.sync > self.syncs + 1:
            return "out of order"
        if message.sync >= self.policy.syncs:
            return "not in the schedule"
        times, time = self.policy.times, message.round
        if times is not None:
            time = times[message.sync]
        elif message.sync == self.syncs:  # a later time depends on releases that are not made yet
            time = int(self.state["next"])
        return "" if message.round == time else "not in the schedule"

    def _complete(self) -> None:
        """Once everybody's message is here, take them all in."""
        here = self._waiting.get(self.syncs, {})
        if len(here) < self.policy.agents:
            return
        batches = np.array([here[i].matrix() for i in range(self.policy.agents)])
        del self._waiting[self.syncs]
        after, i = copy_state(self.state), self.index
        leaf, local = after["leaf"][i].copy(), after["local"][i] - self._sent
        self.policy.publish(after, batches.sum(axis=0), batches)
        if leaf.any():  # rows since this agent sent its message
            after["leaf"][i] = leaf
            if not self.policy.keeps_local:
                after["local"][i] = local
                self.policy.refresh_beliefs(after)
        self.state = after


def exchange(agents: Sequence[Agent], noises: Iterable[Noise | None]) -> list[Message]:
    """One synchronisation of agents in one process: everybody sends, everybody receives."""
    sources = list(noises)
    if len(sources) != len(agents):
        raise InputError(
            "there is not one noise per agent",
            path="noises",
            given=len(sources),
            allowed=f"{len(agents)}, or None each",
        )
    messages = [agent.send(noise) for agent, noise in zip(agents, sources)]
    for message in messages:
        for agent in agents:
            if agent.index != message.sender:
                agent.receive(message)
    return messages
