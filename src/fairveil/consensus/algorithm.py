"""What a consensus algorithm is: public configuration that tells every node what to do with what it hears.

`Setting` is what is public about a run, `Schedule` the penalty of every node in every iteration, the dual step, and
which iterations read data.
An `Algorithm` makes one `Local` for each node. A `Local` holds public state only, apart from the caches of its solver;
the one method that meets rows and noise is `draw`, and `Node` calls it through the ledger.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fairveil.arrays import Floats, Ints
from fairveil.consensus.graphs import Graph
from fairveil.consensus.rows import Rows
from fairveil.errors import SpecError
from fairveil.privacy.events import Event, NothingEvent
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.noise import Noise

Payload = Mapping[str, Floats]
UNIT = "one row of one node"
MEASURED = (
    "train_loss, objective_gap, data_reads and test_error are the experimenter's measurements on raw data, not releases"
)
PUBLIC = "row counts, graph, schedule and the encoding of the columns are public"


@dataclass(frozen=True)
class Setting:
    """Everything public about a run: who talks to whom, how many rows everybody has, how they are encoded."""

    graph: Graph
    sizes: tuple[int, ...]
    width: int
    nonzeros: int
    iterations: int

    def __post_init__(self) -> None:
        if len(self.sizes) != len(self.graph):
            raise SpecError(
                "graph and data have different numbers of nodes", path="nodes", given=len(self.sizes),
                allowed=str(len(self.graph)),
            )  # fmt: skip
        for node, size in enumerate(self.sizes):
            if size < 1:
                raise SpecError(
                    "a node has no rows", path="data.split", given=f"node {node}", allowed="at least one row"
                )

    @property
    def nodes(self) -> int:
        return len(self.sizes)

    @property
    def rows(self) -> int:
        return sum(self.sizes)

    def facts(self) -> dict[str, Any]:
        """As plain data: what all nodes must agree on."""
        return {
            "adjacency": [list(row) for row in self.graph.adjacency],
            "sizes": list(self.sizes),
            "width": self.width,
            "nonzeros": self.nonzeros,
            "iterations": self.iterations,
        }


@dataclass(frozen=True)
class Schedule:
    """``penalty[t, i]`` and ``dual[t, i]`` for iteration t + 1; ``recycles``: even iterations read no data."""

    penalty: Floats
    dual: Floats
    recycles: bool

    def reads(self, iteration: int) -> bool:
        """Whether an iteration (from 1) solves a local problem on the rows."""
        return not self.recycles or iteration % 2 == 1

    @property
    def releases(self) -> Ints:
        """The iterations that read data, counted from 1."""
        return np.array([t for t in range(1, len(self.penalty) + 1) if self.reads(t)], np.int64)


def per_node(name: str, value: float | tuple[float, ...], nodes: int) -> Floats:
    """One number for all, or one a node."""
    if isinstance(value, tuple | list):
        if len(value) != nodes:
            raise SpecError(
                "a list needs one number a node",
                path=name,
                given=len(value),
                allowed=f"{nodes} numbers, or one for all",
            )
        return np.array(value, np.float64)
    return np.full(nodes, float(value))


def penalties(
    penalty: Floats, growth: Floats, iterations: int, *, until: int | None = None, recycles: bool = False
) -> Floats:
    """eta_i(t) = penalty_i growth_i^(t-1); with recycling eta_i(2k-1) = eta_i(2k) = penalty_i growth_i^k.

    >>> penalties(np.ones(1), np.full(1, 2.0), 4, recycles=True).ravel().tolist()
    [2.0, 2.0, 4.0, 4.0]
    """
    t = np.arange(1, iterations + 1)
    counted = t if until is None else np.minimum(t, until)
    power = (counted + 1) // 2 if recycles else counted - 1
    return penalty[None, :] * growth[None, :] ** power[:, None]


class Local(ABC):
    """One node's part of an algorithm. Everything but `draw` is a function of messages and public numbers."""

    @abstractmethod
    def hear(self, iteration: int, inbox: Mapping[int, Payload], absent: frozenset[int]) -> None:
        """Take the messages of iteration - 1; ``absent`` are the nodes that are left out from now on."""

    def take_back(self, nodes: frozenset[int]) -> None:
        """These nodes take part again from the next message on; an algorithm that cannot go on with them says so."""
        raise SpecError(
            "a node that was left out cannot come back", path="algorithm", allowed="private-admm with exchange = flood",
            fix="start a new run with it",
        )  # fmt: skip

    @abstractmethod
    def reads(self, iteration: int) -> bool:
        """Whether the message of this iteration needs the rows."""

    @abstractmethod
    def question(self, iteration: int) -> Floats:
        """The public numbers that an iteration's release depends on: asked again, they must be the same."""

    @abstractmethod
    def draw(self, iteration: int, rows: Rows, noise: Noise | None) -> Payload:
        """The message of an iteration that reads rows: the only place where data and noise meet."""

    @abstractmethod
    def recycle(self, iteration: int) -> Payload:
        """The message of an iteration that reads no rows."""

    @abstractmethod
    def keep(self, iteration: int, payload: Payload | None) -> None:
        """Take the own message as it was sent; None: it was lost."""

    @property
    @abstractmethod
    def weights(self) -> Floats:
        """This node's classifier after the last message that was heard and kept."""


class Algorithm(ABC):
    """Public configuration of one algorithm."""

    name: str = ""
    private: ClassVar[bool] = False
    everybody: ClassVar[bool] = False
    """Whether messages travel to all nodes (flooding) instead of to neighbours only."""
    gapless: ClassVar[bool] = False
    """Whether it solves another problem than the regularised one of the thesis: no gap is measured."""
    recycles: ClassVar[bool] = False
    """Whether every second iteration reads no data."""

    @property
    def secure_sums(self) -> bool:
        """Whether a node shows its numbers behind masks alone, so that nobody sees more than sums over nodes."""
        return False

    @property
    def protects(self) -> bool:
        """Whether its draws may serve people; textbook draws are simulation whatever their source."""
        return True

    @abstractmethod
    def complete(self, setting: Setting) -> Algorithm:
        """The same algorithm with every number that depends on public facts filled in; refuses what cannot be run."""

    @abstractmethod
    def local(self, setting: Setting, node: int) -> Local:
        """A node's part, before the first message. ``self`` must be complete."""

    @abstractmethod
    def iterations(self, setting: Setting) -> int:
        """How many messages every node sends."""

    def stated_rounds(self, setting: Setting) -> int:
        """How many rounds a result says: those the algorithm counts, where they are not its messages."""
        return self.iterations(setting)

    def event(self, setting: Setting | None = None, node: int = 0) -> Event:
        """What one row of a node pays over the whole run."""
        return NothingEvent()

    def guarantee(self, setting: Setting | None = None) -> Guarantee | None:
        """The promise over the whole run, or None."""
        return None

    def notes(self, setting: Setting) -> tuple[str, ...]:
        """What a reader of a result must know about a completed configuration."""
        return ()

    def privacy_loss(self, setting: Setting) -> tuple[list[float | None], list[float | None]]:
        """Running totals after every iteration: the sound bound and the printed one (None where there is none)."""
        nothing: list[float | None] = [None] * self.iterations(setting)
        return nothing, list(nothing)

    def traffic(self, setting: Setting) -> tuple[int, int]:
        """Messages over all edges in a whole run, and their bytes."""
        count = int(setting.graph.degrees.sum()) * self.iterations(setting)
        return count, count * setting.width * 8


def warn_of_delta(promise: Guarantee | None, setting: Setting) -> None:
    """Warn of a delta that allows publishing a whole row of the smallest node."""
    if promise is not None and (promise.delta or 0.0) >= 1 / min(setting.sizes):
        warnings.warn(
            f"delta {promise.delta:g} is not below one over the rows of the smallest node ({min(setting.sizes)}): "
            "it allows publishing a whole row", stacklevel=3,
        )  # fmt: skip


def one_of(given: dict[str, Any], names: tuple[str, str]) -> None:
    """Refuse both or neither of two ways to state a budget."""
    stated = [name for name in names if given[name] is not None]
    if len(stated) != 1:
        raise SpecError(
            "the noise is not determined" if not stated else "the noise is determined twice",
            path=names[0], given=stated, allowed=f"{names[0]} or {names[1]}",
        )  # fmt: skip
