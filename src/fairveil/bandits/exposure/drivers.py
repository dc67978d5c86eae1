"""An agent's messages, as laws and mutants: every row in one message at most, whatever happens around the ledger.

Noise is seeded, so a message is a function of the rows it holds: two agents that differ in one row differ in the
messages that the row is in, and only there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fairveil.bandits.exposure.agent import Agent
from fairveil.bandits.exposure.batched_priv_fairx import BatchedPrivFairx
from fairveil.bandits.exposure.private import PrivatePolicy
from fairveil.bandits.ledgered import check_promise, fingerprint
from fairveil.errors import LedgerError, PrivacyError
from fairveil.federated import Inbox, Message
from fairveil.federated.outbox import Account
from fairveil.laws import must
from fairveil.privacy.audit.drivers import Driver
from fairveil.privacy.audit.mutants import Mutant, function, method, noises, with_noise
from fairveil.privacy.ledger import Ledger
from fairveil.privacy.limits import Limit
from fairveil.privacy.noise import Noise, SeededNoise
from fairveil.randomness import generator
from fairveil.registry import register

Method = Callable[..., Any]
POLICY = BatchedPrivFairx(agents=1, dimension=2, horizon=16, epsilon=1.0, delta=1e-5, schedule="every-round")
PERSONAL = BatchedPrivFairx(agents=1, dimension=2, horizon=16, epsilon=1.0, delta=1e-5, personal=True)
MESSAGES = 3


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
            with method(type(agent.ledger._draws), "_publish", lambda _: _disk_full), suppress(LedgerError):
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
            with method(type(POLICY), "privatise", lambda _: _dies), suppress(ZeroDivisionError):
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
                with method(type(POLICY), "privatise", lambda _: _dies), suppress(ZeroDivisionError):
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


def bound_to_its_owner(folder: Path) -> None:
    """Another policy's agent on the same ledger is refused, and so is a new agent, and a promise that is weaker."""
    other = BatchedPrivFairx(agents=1, dimension=2, horizon=15, epsilon=1.0, delta=1e-5, schedule="every-round")
    with agent_in(folder) as agent:
        play(agent, 1.0)
        agent.send(SeededNoise(1))
        for policy, resume in ((other, True), (POLICY, False)):
            new = Agent(policy, 0, agent.ledger, resume=resume)
            play(new, 1.0)
            try:
                new.send(SeededNoise(2))
            except (LedgerError, PrivacyError):
                continue
            must(False, "an account serves two")
        try:
            Agent(PERSONAL, 0, agent.ledger)
        except PrivacyError:
            return
        must(False, "a weaker promise passes for the usual one")


def _unforgotten(original: Method) -> Method:
    return lambda self, state, agents: _lost_rows_stay(original, self, state, agents)


def _lost_rows_stay(original: Method, policy: PrivatePolicy, state: Any, agents: Any) -> None:
    leaf = state["leaf"].copy()
    original(policy, state, agents)
    state["leaf"][:] = leaf


def _row_kept(original: Method) -> Method:
    def broken(self: PrivatePolicy, state: Any, agents: Any, noise: Noise) -> None:
        leaf = state["leaf"].copy()
        original(self, state, agents, noise)
        state["leaf"][:] = leaf

    return broken


def _as_if_drawn() -> AbstractContextManager[None]:
    """What a ledger had in store passes for what was drawn now, as an agent once took it."""
    import fairveil.federated.outbox as outbox

    return function(outbox.Released, lambda value, fate: _Drawn(value, "drawn" if fate == "stored" else fate))


class _Drawn:
    def __init__(self, value: Any, fate: str) -> None:
        self.value, self.fate = value, fate


def _drawn_again(original: Method) -> Method:
    def broken(account: Account, block: str, draw: Method, noise: Noise | None = None) -> Any:
        found = original(account, block, draw, noise)
        return _Drawn(draw(noise), "drawn") if found.fate == "stored" else found

    return broken


def _releasing(change: Callable[[Method], Method]) -> AbstractContextManager[None]:
    from fairveil.federated.outbox import release_once

    return function(release_once, change(release_once))


@register("driver", "agent")
def agent_driver() -> Driver:
    """An agent of a private federation: `fairveil.bandits.exposure.agent`."""
    quiet = with_noise(noises.quiet)
    return Driver(
        (
            in_one_message,
            nothing_stays,
            not_after_a_retry,
            not_after_a_restart,
            not_after_a_loss,
            every_message_has_noise,
            bound_to_its_owner,
        ),
        (
            Mutant("bare-message", "messages without noise", lambda _: method(type(POLICY), "privatise", quiet)),
            Mutant("row-kept", "rows stay after their message", lambda _: method(type(POLICY), "privatise", _row_kept)),
            Mutant("stored-for-drawn", "rows stay when the message came out of the ledger", lambda _: _as_if_drawn()),
            Mutant("unforgotten", "rows of a lost message stay",
                   lambda _: method(type(POLICY), "forget", _unforgotten)),
            Mutant("drawn-again-on-retry", "a message that was sent is drawn again",
                   lambda _: _releasing(_drawn_again)),
            Mutant("never-sent", "an agent forgets what it sent",
                   lambda _: method(Inbox, "own", lambda _: lambda self, sync: None),
                   harmless="the ledger answers with the stored message, and the rows at hand are dropped"),
            Mutant("fingerprint-left-out", "an account for any policy", lambda _: function(fingerprint, lambda _: "x")),
            Mutant("promise-unchecked", "weaker promises pass", lambda _: function(check_promise, lambda *_: None)),
        ),
    )  # fmt: skip
