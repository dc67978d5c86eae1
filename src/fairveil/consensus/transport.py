"""Carrying messages between nodes: in this process, or one Ray actor a node. A transport knows no algorithm.

Both give bit-identical results with seeded noise, because the noise of a message is fixed by (seed, run, node,
iteration) and messages are delivered in order of their senders.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fairveil.arrays import Floats, Ints
from fairveil.consensus.algorithm import Algorithm, Setting
from fairveil.consensus.node import Node
from fairveil.consensus.rows import Rows
from fairveil.errors import DependencyError, SpecError
from fairveil.federated import Message
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


class Transport(ABC):
    """Runs one iteration after the other."""

    @abstractmethod
    def iterations(self) -> Iterator[Seen]:
        """One `Seen` an iteration, until the run is over."""

    @abstractmethod
    def close(self) -> None:
        """End the nodes."""

    @property
    def absent(self) -> list[int]:
        """Nodes that were left out."""
        return []


class Inline(Transport):
    """All nodes in this process."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = list(nodes)
        introductions = [node.introduction() for node in self.nodes]
        for node in self.nodes:
            node.meet(introductions)

    def iterations(self) -> Iterator[Seen]:
        while not self.nodes[0].finished:
            messages = [node.send() for node in self.nodes]
            for message in messages:
                for node in self.nodes:
                    if message.sender in node.awaited:
                        node.receive(message)
            yield Seen(
                np.array([node.weights for node in self.nodes]),
                np.array([node.rows.reads for node in self.nodes], np.int64),
                tuple(message.sender for message in messages if message.lost),
            )

    def close(self) -> None:
        for node in self.nodes:
            if node.ledger is not None:
                node.ledger.close()


class _Actor:
    """A node inside a Ray actor: bytes in, bytes out."""

    def __init__(self, plan: NodePlan) -> None:
        self.node = plan.build()

    def introduction(self) -> dict[str, Any]:
        return self.node.introduction()

    def meet(self, introductions: list[dict[str, Any]]) -> None:
        self.node.meet(introductions)

    def send(self) -> bytes:
        return self.node.send().to_bytes()

    def receive(self, messages: list[bytes], absent: list[int]) -> tuple[Floats, int, bool]:
        self.node.leave_out(absent)
        for content in messages:
            message = Message.from_bytes(content)
            if message.sender in self.node.awaited:
                self.node.receive(message)
        return self.node.weights, self.node.rows.reads, self.node.finished

    def close(self) -> None:
        if self.node.ledger is not None:
            self.node.ledger.close()


class RayTransport(Transport):
    """One Ray actor a node. A node that does not answer within ``wait`` seconds is left out from then on."""

    def __init__(self, plans: Sequence[NodePlan], *, wait: float = 600.0) -> None:
        self.ray = _ray()
        self.started = not self.ray.is_initialized()
        if self.started:
            self.ray.init(num_cpus=len(plans), include_dashboard=False, log_to_driver=False)
        actor = self.ray.remote(num_cpus=0)(_Actor)
        self.actors = {plan.index: actor.remote(plan) for plan in plans}
        self.width, self.wait = plans[0].setting.width, wait
        self.gone: list[int] = []
        introductions = self.ray.get([one.introduction.remote() for one in self.actors.values()])
        self.ray.get([one.meet.remote(introductions) for one in self.actors.values()])

    @property
    def absent(self) -> list[int]:
        return list(self.gone)

    def _answers(self, asked: dict[int, Any]) -> dict[int, Any]:
        """What came back in time; who did not answer is gone."""
        found: dict[int, Any] = {}
        for node, future in asked.items():
            try:
                found[node] = self.ray.get(future, timeout=self.wait)
            except (self.ray.exceptions.GetTimeoutError, self.ray.exceptions.RayActorError):
                self.gone.append(node)
        return found

    def _present(self) -> dict[int, Any]:
        return {node: actor for node, actor in self.actors.items() if node not in self.gone}

    def iterations(self) -> Iterator[Seen]:
        over = False
        while not over:
            sent = self._answers({node: actor.send.remote() for node, actor in self._present().items()})
            messages = [sent[node] for node in sorted(sent)]
            asked = {node: actor.receive.remote(messages, self.gone) for node, actor in self._present().items()}
            heard = self._answers(asked)
            over = not heard or all(finished for _, _, finished in heard.values())
            weights = np.zeros((len(self.actors), self.width))
            reads = np.zeros(len(self.actors), np.int64)
            for node, (classifier, passes, _) in heard.items():
                weights[node], reads[node] = classifier, passes
            yield Seen(weights, reads, tuple(n for n, content in sent.items() if Message.from_bytes(content).lost))

    def close(self) -> None:
        self._answers({node: actor.close.remote() for node, actor in self._present().items()})
        for actor in self.actors.values():
            self.ray.kill(actor)
        if self.started:
            self.ray.shutdown()


def make_transport(name: str, plans: Sequence[NodePlan], *, wait: float = 600.0) -> Transport:
    """Start the nodes on a transport by its name."""
    if name == "inline":
        return Inline([plan.build() for plan in plans])
    if name == "ray":
        return RayTransport(plans, wait=wait)
    raise SpecError("there is no such transport", path="transport", given=name, allowed=", ".join(NAMES))


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise DependencyError("the ray transport needs Ray", fix="pip install 'fairveil[ray]'") from None
    return ray
