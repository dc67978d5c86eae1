"""Who talks to whom: connected graphs of nodes, and the few numbers of a graph that the algorithms use. All public."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fairveil.arrays import Floats, Ints
from fairveil.errors import SpecError
from fairveil.randomness import MAX_SEED, generator

NAMES = ("ring", "star", "complete", "random")
SMALL = 8
"""Random graphs of at most so many nodes take every pair with probability 1/2, larger ones with 1/5."""
TRIES = 10_000


@dataclass(frozen=True)
class Graph:
    """A connected undirected graph by its adjacency matrix (rows of 0 and 1).

    >>> star = make_graph("star", 4)
    >>> star.degrees.tolist(), star.neighbours[1], star.diameter
    ([3, 1, 1, 1], (0,), 2)
    """

    adjacency: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        size = len(self.adjacency)
        matrix = self.matrix if all(len(row) == size for row in self.adjacency) else None
        if matrix is None or size < 1 or not np.isin(matrix, (0, 1)).all():
            raise SpecError("an adjacency matrix is square, of 0 and 1", path="graph.adjacency", given=f"{size} rows")
        for i, j in zip(*np.nonzero(matrix != matrix.T)):
            raise SpecError(
                "the adjacency matrix is not symmetric",
                path="graph.adjacency",
                given=f"node {i} to {j}: {matrix[i, j]}, back: {matrix[j, i]}",
                allowed="talking goes both ways",
            )
        for i in np.flatnonzero(np.diag(matrix)):
            raise SpecError("a node is its own neighbour", path="graph.adjacency", given=f"node {i}", allowed="0 there")
        parts = self.components
        if len(parts) > 1:
            raise SpecError(
                "the graph is not connected",
                path="graph",
                given=f"components {' and '.join(str(part) for part in parts)}",
                allowed="a path between any two nodes",
                fix="add an edge between the components",
            )

    def __len__(self) -> int:
        return len(self.adjacency)

    @property
    def matrix(self) -> Ints:
        return np.array(self.adjacency, np.int64).reshape(len(self.adjacency), -1)

    @cached_property
    def neighbours(self) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(np.flatnonzero(row).tolist()) for row in self.matrix)

    @cached_property
    def degrees(self) -> Ints:
        return self.matrix.sum(1)

    @cached_property
    def laplacian(self) -> Floats:
        return (np.diag(self.degrees) - self.matrix).astype(np.float64)

    @cached_property
    def signless(self) -> Floats:
        """D + A."""
        return (np.diag(self.degrees) + self.matrix).astype(np.float64)

    @cached_property
    def distances(self) -> Ints:
        """Hops between nodes; -1 where there is no path."""
        size = len(self.adjacency)
        found = np.where(np.eye(size, dtype=bool), 0, -1)
        front, hops = np.eye(size, dtype=bool), 0
        while front.any():
            hops += 1
            front = ((front.astype(np.int64) @ self.matrix) > 0) & (found < 0)
            found[front] = hops
        return found

    @property
    def components(self) -> list[list[int]]:
        return [list(part) for part in sorted({tuple(np.flatnonzero(row >= 0).tolist()) for row in self.distances})]

    @property
    def diameter(self) -> int:
        return int(self.distances.max())

    @cached_property
    def spectrum(self) -> Floats:
        """Eigenvalues of the Laplacian, rising; the second is the algebraic connectivity."""
        return np.asarray(np.linalg.eigvalsh(self.laplacian), np.float64)

    @property
    def bipartite(self) -> bool:
        """Whether D + A is singular: no closed walk of odd length."""
        return bool(np.linalg.eigvalsh(self.signless)[0] < 1e-9)


def graph_table(table: Any, nodes: int, seed: int) -> dict[str, Any]:
    """A graph's complete table: its name and, for ``random``, the seed and the number of edges."""
    full = {"name": table} if isinstance(table, str) else dict(table)
    if "adjacency" in full and set(full) == {"adjacency"}:
        return {"adjacency": _entries(full["adjacency"], nodes)}
    name = full.get("name")
    known = ("name", "seed", "edges") if name == "random" else ("name",)
    if name not in NAMES:
        raise SpecError("there is no such graph", path="graph", given=name, allowed=f"{', '.join(NAMES)}, adjacency")
    for key in full:
        if key not in known:
            raise SpecError("this key is not known", path=f"graph.{key}", allowed=", ".join(known))
    if name != "random":
        return {"name": name}
    edges = full.get("edges")
    pairs = nodes * (nodes - 1) // 2
    if edges is not None and (isinstance(edges, bool) or not isinstance(edges, int) or not nodes - 1 <= edges <= pairs):
        raise SpecError(
            "so many edges make no connected graph", path="graph.edges", given=edges, allowed=f"{nodes - 1} to {pairs}"
        )
    chosen = full.get("seed")
    if chosen is not None and (isinstance(chosen, bool) or not isinstance(chosen, int) or not 0 <= chosen <= MAX_SEED):
        raise SpecError("the seed is not usable", path="graph.seed", given=chosen, allowed=f"0 to {MAX_SEED}")
    return {"name": "random", "seed": seed if chosen is None else chosen, "edges": edges}


def _entries(matrix: Any, nodes: int) -> list[list[int]]:
    """Lists of 0 and 1, one a node; what a matrix of them must be besides is checked by `Graph`."""
    rows = matrix.tolist() if isinstance(matrix, np.ndarray) else matrix
    if not isinstance(rows, list | tuple) or not all(isinstance(row, list | tuple) for row in rows):
        raise SpecError("an adjacency matrix is a list of rows", path="graph.adjacency", allowed="rows of 0 and 1")
    for place, row in enumerate(rows):
        if any(entry not in (0, 1) for entry in row):
            raise SpecError(
                "an adjacency matrix is square, of 0 and 1", path="graph.adjacency", given=f"row {place}: {row}",
                allowed="0 and 1",
            )  # fmt: skip
    if len(rows) != nodes:
        raise SpecError(
            "the graph has another number of nodes", path="graph.adjacency", given=len(rows), allowed=str(nodes)
        )
    return [[int(entry) for entry in row] for row in rows]


def make_graph(table: Any, nodes: int, seed: int = 0) -> Graph:
    """The graph that a spec describes.

    >>> len(make_graph({"name": "random", "edges": 6}, 5, seed=1).matrix.nonzero()[0]) // 2
    6
    """
    full = graph_table(table, nodes, seed)
    if "adjacency" in full:
        return Graph(tuple(tuple(row) for row in full["adjacency"]))
    matrix = np.zeros((nodes, nodes), np.int64)
    if full["name"] == "ring":
        step = np.arange(nodes)
        matrix[step, (step + 1) % nodes] = 1
    elif full["name"] == "star":
        matrix[0, 1:] = 1
    elif full["name"] == "complete":
        matrix[:] = 1
    else:
        return _random(nodes, full["seed"], full["edges"])
    matrix |= matrix.T
    np.fill_diagonal(matrix, 0)
    return Graph(tuple(map(tuple, matrix.tolist())))


def _random(nodes: int, seed: int, edges: int | None) -> Graph:
    """Drawn again until it is connected."""
    rng = generator(seed, "graph", nodes)
    first, second = np.triu_indices(nodes, 1)
    for _ in range(TRIES):
        if edges is None:
            chosen = rng.random(len(first)) < (0.5 if nodes <= SMALL else 0.2)
        else:
            chosen = np.zeros(len(first), bool)
            chosen[rng.permutation(len(first))[:edges]] = True
        matrix = np.zeros((nodes, nodes), np.int64)
        matrix[first[chosen], second[chosen]] = 1
        matrix |= matrix.T
        if nodes == 1 or _connected(matrix):
            return Graph(tuple(map(tuple, matrix.tolist())))
    raise SpecError("no connected graph was found", path="graph.edges", given=edges, fix="ask for more edges")


def _connected(matrix: Ints) -> bool:
    reached = np.zeros(len(matrix), bool)
    reached[0] = True
    for _ in range(len(matrix)):
        reached |= matrix[reached].sum(0) > 0
    return bool(reached.all())
