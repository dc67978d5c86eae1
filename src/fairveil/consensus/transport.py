"""Carrying messages between nodes: in this process, or one Ray actor a node. A transport knows no algorithm.

A transport is a `Carrier` of `fairveil.federated` whose parties are nodes, and what it carries are the statements of a
federation, unsigned, since whoever simulates holds all of them. Both give bit-identical results with seeded noise,
because the noise of a message is fixed by (seed, run, node, iteration) and messages are delivered in order of senders.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from fairveil.arrays import Floats, Ints
from fairveil.consensus.algorithm import Algorithm, Setting
from fairveil.consensus.node import Node
from fairveil.consensus.rows import Rows
from fairveil.errors import DependencyError, SpecError
from fairveil.federated import Carrier, Inline, Message
from fairveil.federated.wire import HELLO, MESSAGE, RETIRE, Answer, LogPart, Statement, table
from fairveil.ledger import Ledger
from fairveil.privacy.limits import Limit
from fairveil.privacy.noise import Noise, make_noise

NAMES = ("inline", "ray")


@dataclass(frozen=True)
class NodePlan:
    """How to make one node wherever it lives: rows, and either seeded (or secure) noise or a ledger's path.

    ``limit`` makes a new ledger where there is none; without it the ledger must be there.
    """

    algorithm: Algorithm
    setting: Setting
    index: int
    rows: Rows
    run: str = "run"
    noise: str = "seeded"
    path: tuple[int | str, ...] = (0,)
    ledger: str | None = None
    limit: Limit | None = None
    simulated: bool = False

    def build(self) -> Node:
        ledger, folder = None, None
        if self.ledger is not None:
            folder = Path(self.ledger).parent
            folder.mkdir(parents=True, exist_ok=True)
            facts: dict[str, Any] = {"simulated": self.simulated}
            if self.limit is None:
                ledger = Ledger.open(self.ledger, **facts)
            else:
                ledger = Ledger.create(self.ledger, limit=self.limit, unit="one row of this node", **facts)
        secure = ledger is not None and not self.simulated
        return Node(
            self.algorithm, self.setting, self.index, self.rows, run=self.run, ledger=ledger,
            folder=folder, noise_of=None if secure else self.noise_for,
        )  # fmt: skip

    def noise_for(self, iteration: int) -> Noise:
        seed, *rest = self.path
        return make_noise(self.noise, int(seed), *rest, self.index, iteration)


@dataclass(frozen=True)
class Seen:
    """What the nodes have after an iteration: classifiers, passes over the rows so far, who lost a message."""

    weights: Floats
    reads: Ints
    lost: tuple[int, ...]


# nodes of one process read the same bytes, and what is in them is a value
_request = lru_cache(maxsize=4)(LogPart.from_bytes)
_message = lru_cache(maxsize=1024)(Message.from_bytes)


class NodeDoor:
    """A node behind bytes, as every carrier knows a party: asked with statements it hears them, without it speaks."""

    def __init__(self, node: Node) -> None:
        self.node, self.plan, self.met = node, node.fingerprint, False

    def answer(self, data: bytes) -> bytes:
        """Asked with nothing: what this node says now. Else where it stands after it has heard."""
        node, request = self.node, _request(data)
        if not request.entries:
            return Answer(self.plan, node.syncs, (self._due(),)).to_bytes()
        self._hear(request.entries)
        where = {"weights": node.weights.tolist(), "reads": node.rows.reads, "finished": node.finished}
        return Answer(self.plan, node.syncs, progress=where).to_bytes()

    def _due(self) -> Statement:
        if not self.met:
            return Statement(HELLO, self.node.index, 0, json.dumps(self.node.introduction()).encode())
        return Statement(MESSAGE, self.node.index, self.node.syncs, self.node.send().to_bytes())

    def _hear(self, entries: Sequence[Statement]) -> None:
        if not self.met and entries:
            self.node.meet(table(entry.content) for entry in entries)
            self.met = True
            return
        self.node.leave_out(entry.by for entry in entries if entry.purpose == RETIRE)
        for entry in entries:
            if entry.purpose == MESSAGE and entry.by in self.node.awaited:
                self.node.receive(_message(entry.content))

    def close(self) -> None:
        if self.node.ledger is not None:
            self.node.ledger.close()


class Transport(Carrier):
    """A carrier to nodes that are asked together, iteration by iteration. Who does not answer is left out."""

    def __init__(self, nodes: Sequence[int], width: int) -> None:
        self.nodes, self.width = list(nodes), width
        self.gone: list[int] = []
        introduced = self._said(self._everybody())
        self.over = self._heard(self._everybody(introduced))

    @property
    def absent(self) -> list[int]:
        """Nodes that were left out."""
        return list(self.gone)

    @abstractmethod
    def close(self) -> None:
        """End the nodes."""

    def iterations(self) -> Iterator[Seen]:
        """One `Seen` an iteration, until the run is over."""
        while not self.over:
            said = self._said(self._everybody())
            away = [Statement(RETIRE, node, 0, b"") for node in self.gone]
            heard = self._everybody([*away, *said])
            self.over = self._heard(heard)
            weights, reads = np.zeros((len(self.nodes), self.width)), np.zeros(len(self.nodes), np.int64)
            for node, answer in heard.items():
                weights[node], reads[node] = answer.progress["weights"], answer.progress["reads"]
            yield Seen(weights, reads, tuple(one.by for one in said if _message(one.content).lost))

    def _everybody(self, entries: Sequence[Statement] = ()) -> dict[int, Answer]:
        """What all nodes that are there answer to these statements, by node."""
        request = LogPart("", 0, len(entries), tuple(entries)).to_bytes()
        for node in self.nodes:
            if node not in self.gone:
                self.ask(node, request)
        found = dict(self.answers())
        self.gone += sorted(node for node, answer in found.items() if answer is None)
        return {node: Answer.from_bytes(answer) for node, answer in sorted(found.items()) if answer is not None}

    @staticmethod
    def _said(answers: Mapping[int, Answer]) -> list[Statement]:
        return [statement for answer in answers.values() for statement in answer.says]

    @staticmethod
    def _heard(answers: Mapping[int, Answer]) -> bool:
        """Whether nobody has anything more to say."""
        return all(answer.progress["finished"] for answer in answers.values())


class InlineTransport(Inline, Transport):
    """All nodes in this process."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.doors = [NodeDoor(node) for node in nodes]
        Inline.__init__(self, {door.node.index: door.answer for door in self.doors})
        Transport.__init__(self, list(self.parties), nodes[0].setting.width)

    def close(self) -> None:
        for door in self.doors:
            door.close()


class RayTransport(Transport):
    """One Ray actor a node. A node that does not answer within ``wait`` seconds is left out from then on."""

    def __init__(self, plans: Sequence[NodePlan], *, wait: float = 600.0) -> None:
        self.ray = _ray()
        self.started = not self.ray.is_initialized()
        if self.started:
            self.ray.init(num_cpus=len(plans), include_dashboard=False, log_to_driver=False)
        actor = self.ray.remote(num_cpus=0)(_Actor)
        self.actors = {plan.index: actor.remote(plan) for plan in plans}
        self.wait, self._asked = wait, dict[int, Any]()
        super().__init__(list(self.actors), plans[0].setting.width)

    def ask(self, party: int, request: bytes) -> None:
        self._asked[party] = self.actors[party].answer.remote(request)

    def answers(self) -> list[tuple[int, bytes | None]]:
        """What came back in time of all that was asked; None for who is gone."""
        asked, self._asked = self._asked, {}
        return [(node, self._wait_for(future)) for node, future in asked.items()]

    def _wait_for(self, future: Any) -> Any:
        try:
            return self.ray.get(future, timeout=self.wait)
        except (self.ray.exceptions.GetTimeoutError, self.ray.exceptions.RayActorError):
            return None

    def close(self) -> None:
        for node, actor in self.actors.items():
            if node not in self.gone:
                self._wait_for(actor.close.remote())
            self.ray.kill(actor)
        if self.started:
            self.ray.shutdown()


class _Actor(NodeDoor):
    """A door that makes its node where it lives."""

    def __init__(self, plan: NodePlan) -> None:
        super().__init__(plan.build())


def make_transport(name: str, plans: Sequence[NodePlan], *, wait: float = 600.0) -> Transport:
    """Start the nodes on a transport by its name."""
    if name == "inline":
        return InlineTransport([plan.build() for plan in plans])
    if name == "ray":
        return RayTransport(plans, wait=wait)
    raise SpecError("there is no such transport", path="transport", given=name, allowed=", ".join(NAMES))


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise DependencyError("the ray transport needs Ray", fix="pip install 'fairveil[ray]'") from None
    return ray
