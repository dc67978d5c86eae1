"""An agent as an adapter; its own laws: every row in one message at most, whatever happens around the ledger.

Noise is seeded, so a message is a function of the rows it holds: two agents that differ in one row differ in the
messages that the row is in, and only there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fairveil.bandits.exposure.agent import Agent
from fairveil.bandits.exposure.batched_priv_fairx import BatchedPrivFairx
from fairveil.bandits.exposure.private import PrivatePolicy
from fairveil.bandits.ledgered import account_of, check_promise, fingerprint
from fairveil.errors import LedgerError, PrivacyError
from fairveil.federated import Inbox, Message
from fairveil.ledger import Ledger
from fairveil.ledger.draws import Released
from fairveil.privacy.limits import Limit
from fairveil.privacy.noise import SeededNoise
from fairveil.proof.adapters import SAID_LOST, Adapter, checks_of
from fairveil.proof.engine.adapter import Checks, adapter
from fairveil.proof.laws import must, refused
from fairveil.proof.mutants import Method, Mutant, in_function, in_method, method, twin, with_noise
from fairveil.proof.mutants import mutant as noises
from fairveil.randomness import generator

POLICY = BatchedPrivFairx(agents=1, dimension=2, horizon=16, epsilon=1.0, delta=1e-5, schedule="every-round")
PERSONAL = BatchedPrivFairx(agents=1, dimension=2, horizon=16, epsilon=1.0, delta=1e-5, personal=True)
MESSAGES = 3


class SendingAgent:
    """An agent that has played one round and sends."""

    def __init__(self, ledger: Ledger, number: int, policy: PrivatePolicy = POLICY, resume: bool = True) -> None:
        self.agent, self.ledger, self.number = Agent(policy, 0, ledger, resume=resume), ledger, number
        play(self.agent, 1.0 - number)

    def release(self) -> Any:
        message = self.agent.send(SeededNoise(self.number))
        return SAID_LOST if message.lost else {name: part.tobytes() for name, part in message.payload.items()}


@contextmanager
def sender(folder: Path, number: int, policy: PrivatePolicy = POLICY, resume: bool = True) -> Iterator[SendingAgent]:
    with Ledger.create(folder / "ledger.db", limit=Limit.covering(POLICY.event()), simulated=True) as ledger:
        yield SendingAgent(ledger, number, policy, resume)


def another_policy(folder: Path) -> None:
    with sender(folder, 1, replace(POLICY, horizon=15)) as other:
        other.release()


def a_new_agent(folder: Path) -> None:
    with sender(folder, 1, resume=False) as other:
        other.release()


@contextmanager
def agent_in(folder: Path, name: str = "ledger", **choices: Any) -> Iterator[Agent]:
    limit = Limit.covering(POLICY.event())
    with Ledger.create(folder / f"{name}.db", limit=limit, simulated=True) as ledger:
        yield Agent(POLICY, 0, ledger, **choices)


def play(agent: Agent, reward: float) -> None:
    agent.act(np.eye(2), generator(3, agent.played))
    agent.observe(reward)


def letters(agent: Agent, first: float, before: Callable[[Agent, int], Agent] | None = None) -> list[Message]:
    """The first messages of an agent whose first reward is ``first``; ``before`` may do something to it meanwhile."""
    sent = []
    for number in range(MESSAGES):
        play(agent, first if number == 0 else 0.0)
        agent = agent if before is None else before(agent, number)
        sent.append(agent.send(SeededNoise(7, number)))
    return sent


def differing(folder: Path, before: Callable[[Agent, int], Agent] | None = None) -> list[int]:
    """The messages that one row is in."""
    sent = []
    for world in (0, 1):
        with agent_in(folder, f"world-{world}") as agent:
            sent.append(letters(agent, float(world), before))
    return [place for place in range(MESSAGES) if not same(sent[0][place], sent[1][place])]


def same(first: Message, second: Message) -> bool:
    return all(np.array_equal(first.payload[name], second.payload[name]) for name in first.payload)


def in_one_message(folder: Path) -> None:
    """A row is in the message of its round and in no other."""
    must(differing(folder) == [0], "a row is in several messages, or in another one than its own")


def not_after_a_retry(folder: Path) -> None:
    """A message that was drawn and could not be stored is sent as it was drawn; its rows are gone."""

    def hiccup(agent: Agent, number: int) -> Agent:
        if number == 0:
            with method(type(agent.ledger.draws), "_publish", lambda _: _disk_full), suppress(LedgerError):
                agent.send(SeededNoise(7, number))
        return agent

    must(differing(folder, hiccup) == [0], "rows of a message that was sent again are in the next one too")


def _disk_full(self: Any, drawn: Any) -> Any:
    raise LedgerError("the disk is full", path="ledger")


def not_after_a_restart(folder: Path) -> None:
    """An agent that comes back from a copy of before its message repeats the message, and its rows are gone."""

    def restart(agent: Agent, number: int) -> Agent:
        if number > 0:
            return agent
        copy = agent.save()
        agent.send(SeededNoise(7, number))
        again = Agent(POLICY, 0, agent.ledger)
        again.load(copy)
        return again

    must(differing(folder, restart) == [0], "after a restart a row is in two messages")


def not_after_a_loss(folder: Path) -> None:
    """A message that was charged and lost says so; its rows are in no later one."""

    def lose(agent: Agent, number: int) -> Agent:
        if number == 0:
            with method(BatchedPrivFairx, "privatise", lambda _: _dies), suppress(ZeroDivisionError):
                agent.send(SeededNoise(7, number))
        return agent

    must(differing(folder, lose) == [], "rows of a lost message are in a later one")


def _dies(*given: Any) -> None:
    raise ZeroDivisionError


def nothing_stays(folder: Path) -> None:
    """Once a message is drawn, repeated or lost, the agent holds no row of it, even while others have not sent."""
    pair = replace(POLICY, agents=2)
    limit = Limit.covering(pair.event())
    for fate in ("drawn", "stored", "lost"):
        with Ledger.create(folder / f"{fate}.db", limit=limit, simulated=True) as ledger:
            agent = Agent(pair, 0, ledger)
            play(agent, 1.0)
            copy = agent.save()
            if fate == "lost":
                with method(BatchedPrivFairx, "privatise", lambda _: _dies), suppress(ZeroDivisionError):
                    agent.send(SeededNoise(1))
            sent = agent.send(SeededNoise(1))
            if fate == "stored":
                agent.load(copy)
                must(same(agent.send(SeededNoise(2)), sent), "a message that was sent is drawn again")
            must(not agent.state["leaf"][0].any(), "rows stay beside their message")


def every_message_has_noise(folder: Path) -> None:
    """Two sources give two messages, and the whole run is charged when the first is drawn."""
    sent = []
    for seed in (1, 2):
        with agent_in(folder, f"seed-{seed}") as agent:
            play(agent, 1.0)
            sent.append(agent.send(SeededNoise(seed)))
            must(agent.ledger.spent.units > 0, "a message costs nothing")
    must(not any(np.array_equal(sent[0].payload[name], sent[1].payload[name]) for name in ("gram", "moment")), "bare")


def weaker_promises_are_named(folder: Path) -> None:
    """A policy that uses own raw rows is refused unless its neighbours are named."""
    with agent_in(folder) as agent, refused("a weaker promise passes for the usual one", PrivacyError):
        Agent(PERSONAL, 0, agent.ledger)


@twin
def _rows_stay(original: Method, self: PrivatePolicy, state: Any, *more: Any) -> None:
    """The rows of a message, sent or lost, are held as before."""
    leaf = state["leaf"].copy()
    original(self, state, *more)
    state["leaf"][:] = leaf


def _as_if_drawn(original: Method) -> Method:
    """What a ledger had in store passes for what was drawn now, as an agent once took it."""
    return lambda self, *, drawn, stored, lost: original(self, drawn=drawn, stored=drawn, lost=lost)


def stored_value(name: str, value: Any) -> bool:
    return set(value) <= {"rows", "stop", *POLICY.sum_of(POLICY.start(), 0)}


@adapter("agent")
def agent_checks() -> Checks:
    """An agent of a private federation: `fairveil.bandits.exposure.agent`."""
    quiet = with_noise(noises.quiet)
    return checks_of(Adapter(
        sender,
        (BatchedPrivFairx, "privatise"),
        lambda ledger: account_of(POLICY, ledger, "agent-0"),
        stored_value,
        (another_policy, a_new_agent),
        (
            in_one_message,
            nothing_stays,
            not_after_a_retry,
            not_after_a_restart,
            not_after_a_loss,
            every_message_has_noise,
            weaker_promises_are_named,
        ),
        (
            Mutant("bare-message", "messages without noise", in_method(BatchedPrivFairx, "privatise", quiet)),
            Mutant("row-kept", "rows stay after their message",
                   in_method(BatchedPrivFairx, "privatise", _rows_stay)),
            Mutant("stored-for-drawn", "rows stay when the message came out of the ledger",
                   in_method(Released, "answer", _as_if_drawn)),
            Mutant("unforgotten", "rows of a lost message stay",
                   in_method(BatchedPrivFairx, "forget", _rows_stay)),
            Mutant("never-sent", "an agent forgets what it sent",
                   in_method(Inbox, "own", lambda _: lambda self, sync: None),
                   harmless="the ledger answers with the stored message, and the rows at hand are dropped"),
            Mutant("fingerprint-left-out", "an account for any policy", in_function(fingerprint, lambda _: "x")),
            Mutant("promise-unchecked", "weaker promises pass", in_function(check_promise, lambda *_: None)),
        ),
    ))  # fmt: skip
