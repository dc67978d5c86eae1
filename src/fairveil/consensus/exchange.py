"""Agreeing on a mean by talking to neighbours only: ADMM on public surrogates, free of privacy cost.

Node i has the public vector h_i = H^-1 g_i and wants the mean of all of them. In the metric of H the surrogate
<g_i, p> + (1/2)|p|_H^2 summed over nodes is minimised by minus that mean, and ADMM reaches it with

    p_i = (-h_i - 2 lam_i + eta (V_i p_i + sum_j p_j))/(1 + 2 eta V_i)      lam_i += (eta/2) sum_j (p_i - p_j)

The number of inner iterations is public: it follows from the graph alone.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fairveil.consensus.graphs import Graph

Floats = NDArray[np.float64]
TARGET = 1e-9
"""Every node ends within this factor of the spread of the h_i."""
MOST = 5000


class InnerAdmm:
    """Consensus averaging on a graph with a step and a length chosen from its spectrum.

    Cost: ``rounds`` vectors to every neighbour. Runtime O(rounds N^2 d).

    >>> from fairveil.consensus.graphs import make_graph
    >>> inner = InnerAdmm(make_graph("ring", 5))
    >>> values = np.arange(5.0)[:, None]
    >>> bool(np.abs(inner.agree(values) - 2.0).max() < 1e-6)
    True
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        if len(graph) == 1:
            self.penalty, self.radius, self.rounds = 1.0, 0.0, 1
            return
        low, high = float(graph.spectrum[1]), float(graph.spectrum[-1])
        base = 0.7 / math.sqrt(low * high)
        tried = [(self._radius(base * factor), base * factor) for factor in np.geomspace(0.2, 5.0, 25)]
        self.radius, self.penalty = min(tried)
        self.rounds = min(MOST, math.ceil(math.log(TARGET) / math.log(max(self.radius, 1e-6))))

    def _matrices(self, penalty: float) -> tuple[Floats, Floats]:
        inverse = 1 / (1 + 2 * penalty * self.graph.degrees)
        return inverse, inverse[:, None] * penalty * self.graph.signless

    def _radius(self, penalty: float) -> float:
        """Second largest modulus of the linear recursion of (p, lam), the fixed consensus direction of lam aside."""
        size = len(self.graph)
        inverse, mix = self._matrices(penalty)
        top = np.concatenate([mix, -2 * np.diag(inverse)], axis=1)
        bottom = np.concatenate(
            [penalty / 2 * self.graph.laplacian @ mix, np.eye(size) - penalty * self.graph.laplacian * inverse], axis=1
        )
        moduli = np.sort(np.abs(np.linalg.eigvals(np.concatenate([top, bottom]))))
        return float(moduli[-2])

    def agree(self, values: Floats) -> Floats:
        """Every node's estimate of the mean over nodes, one row a node."""
        if len(self.graph) == 1:
            return values.copy()
        inverse, mix = self._matrices(self.penalty)
        found, dual = np.zeros(values.shape), np.zeros(values.shape)
        for _ in range(self.rounds):
            found = mix @ found + inverse[:, None] * (values - 2 * dual)
            dual = dual + self.penalty / 2 * self.graph.laplacian @ found
        return found
