"""Public schedules: the penalty of every node in every iteration, the dual step, and which iterations read data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairveil.consensus.graphs import Graph
from fairveil.errors import SpecError

Floats = NDArray[np.float64]


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

    def moves_dual(self, iteration: int) -> bool:
        return self.reads(iteration)

    @property
    def releases(self) -> NDArray[np.int64]:
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
