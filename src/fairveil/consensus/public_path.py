"""The public half of `private-admm`: from released sums to the next classifier. No data, no noise, no cost.

    m = clip(sum m_i, -n, n)    w = sum v_i    v = max(w - m^2/n, F)    F = 3 sqrt(N) e + 1
    H = (1/4)(kappa diag(v) + m m'/n) + lam I
    u = momentum u - H^-1 (sum g_i + lam f)    f = f + u

and the answer is the mean of the last quarter of the iterates. Everybody who has the releases gets the same numbers.
Every sum is over the nodes that are present, times n/n_present; a node whose message was lost counts with its last one.
With ``trim`` a sum is n times the coordinate-wise median of the nodes' sums a row (Yin, Chen, Ramchandran and Bartlett
2018): from three nodes on one lie moves it no further than to the next honest node. Its noise has up to pi/2 times the
variance of the sum's where nodes are of one size, and more where they are not (`median_noise`).
Safeguard: where the released gradient's size g'H^-1 g exceeds 1.2 times the last one plus what noise explains, kappa
doubles (at most to 64) and u = 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import ndtr

from fairveil.arrays import Floats
from fairveil.consensus.algorithm import Setting
from fairveil.consensus.graphs import Graph
from fairveil.consensus.release_plan import ReleasePlan

TARGET = 1e-9
"""Every node ends within this factor of the spread of the h_i."""
MOST = 5000
TRIMMED = math.pi / 2
"""Variance of a median of many Gaussians over that of their mean."""


@lru_cache(maxsize=64)
def median_noise(sizes: tuple[int, ...]) -> float:
    """Most variance of n times the median of noisy sums a row, n the rows of these nodes, over that of one node's sum.

    The noise of a sum a row has standard deviation 1/size. Between an even number of nodes the median is the mean of
    two, whose squares are on average those of one of them. Never below pi/2 times their number.

    >>> round(median_noise((100,) * 5) / 5, 3), round(median_noise((9600, 100, 100, 100, 100)))
    (1.571, 1476)
    """
    most = np.asarray(sizes, np.float64)
    ends = np.geomspace(1e-3 / most.max(), 12 / most.min(), 500)
    above = ndtr(-np.outer(ends, most))
    count = np.eye(1, len(sizes) + 1).repeat(len(ends), 0)  # chances that so many nodes are above an end
    for chance in above.T[:, :, None]:
        count[:, 1:] = (1 - chance) * count[:, 1:] + chance * count[:, :-1]
        count[:, :1] *= 1 - chance
    middle = (-(-len(sizes) // 2), len(sizes) // 2 + 1)
    tail = sum(count[:, place:].sum(1) for place in middle)
    return max(TRIMMED * len(sizes), float(most.sum() ** 2 * np.trapezoid(2 * ends * tail, ends)))


class InnerAdmm:
    """Agreeing on a mean by talking to neighbours only: ADMM on public surrogates, free of privacy cost.

    Node i has the public vector h_i = H^-1 g_i and wants the mean of all of them. In the metric of H the surrogate
    <g_i, p> + (1/2)|p|_H^2 summed over nodes is minimised by minus that mean, and ADMM reaches it with

        p_i = (-h_i - 2 lam_i + eta (V_i p_i + sum_j p_j))/(1 + 2 eta V_i)      lam_i += (eta/2) sum_j (p_i - p_j)

    Step and length are chosen from the graph's spectrum, so the number of inner iterations is public.

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


@dataclass(frozen=True)
class Constants:
    """Public constants of the path, chosen on Adult (see docs/guides/consensus.md)."""

    kappa: float = 1.5
    ridge: float = 0.1
    momentum: float = 0.3
    averaged: float = 0.25
    floor: float = 3.0
    largest_kappa: float = 64.0


CONSTANTS = Constants()


class PublicPath:
    """The sequence of public classifiers. ``points`` has one row a node (equal rows when messages are flooded)."""

    def __init__(self, plan: ReleasePlan, setting: Setting, inner: InnerAdmm | None, trim: bool = False) -> None:
        self.plan, self.setting, self.inner, self.trim = plan, setting, inner, trim
        shape = (setting.nodes, setting.width) if inner is not None else (1, setting.width)
        self.point = np.zeros(shape)
        self.speed = np.zeros(shape)
        self.kappa = CONSTANTS.kappa
        self.sizes: list[float] = []
        self.past: list[Floats] = []
        self.last: dict[int, Floats] = {}
        self.mean = np.zeros(setting.width)
        self.spread = np.ones(setting.width)
        self.gone: set[int] = set()
        self.curved: set[int] = set()
        self.doublings = 0

    def at(self, node: int) -> Floats:
        """The public point at which a node computes its next gradient."""
        return self.point[node if self.inner is not None else 0]

    def answer(self, node: int) -> Floats:
        """The classifier so far: mean of the last quarter of the iterates."""
        count = max(1, math.floor(len(self.past) * CONSTANTS.averaged))
        if not self.past:
            return self.at(node)
        return np.mean([past[node if self.inner is not None else 0] for past in self.past[-count:]], axis=0)

    @property
    def present(self) -> list[int]:
        return [node for node in range(self.setting.nodes) if node not in self.gone]

    @property
    def lift(self) -> float:
        """n/n_present."""
        return self.setting.rows / max(1, sum(self.setting.sizes[node] for node in self.present))

    def leave_out(self, nodes: frozenset[int]) -> None:
        self.gone |= nodes

    def take_back(self, nodes: frozenset[int]) -> None:
        """Nodes count again; one whose curvature is not in stays out, as its rows are not in the metric."""
        self.gone -= nodes & self.curved

    def take_curvature(self, releases: Mapping[int, Mapping[str, Floats]]) -> None:
        """Nodes without a curvature release are left out."""
        self.gone |= {node for node in range(self.setting.nodes) if node not in releases}
        self.curved = set(self.present)
        first, second = (
            self._total({node: np.asarray(releases[node][name]) for node in self.present}) for name in ("m", "v")
        )
        self._bend(first, second, self._noise)

    @property
    def _noise(self) -> float:
        """Variance of a total's noise over that of one node's."""
        if self.trim and self.present:
            return self.lift**2 * median_noise(tuple(self.setting.sizes[node] for node in self.present))
        return self.setting.nodes / self.plan.honest

    def _total(self, parts: Mapping[int, Floats]) -> Floats:
        """What all rows would sum to, from the sums of the nodes that are present."""
        if self.trim and parts:
            each = [parts[node] / self.setting.sizes[node] for node in self.present]
            return self.setting.rows * np.median(each, axis=0)
        return self.lift * sum((parts[node] for node in self.present), np.zeros(self.setting.width))

    def _bend(self, first: Floats, second: Floats, noise: float) -> None:
        """The metric from sums whose noise has ``noise`` times the variance of one node's."""
        n = self.setting.rows
        self.mean = np.clip(first, -n, n)
        floor = CONSTANTS.floor * math.sqrt(noise) * self.plan.error_v + 1
        self.spread = np.maximum(second - self.mean**2 / n, floor)

    def take_curvature_sum(self, first: Floats, second: Floats, parties: Sequence[int], noise: float) -> None:
        """The sums over these nodes, of which no single one is known."""
        lift = self._lift(parties)
        self._bend(lift * first, lift * second, noise)

    def take_gradient_sum(self, total: Floats, parties: Sequence[int], noise: float) -> None:
        """One step by the sum over these nodes."""
        self._step(self._lift(parties) * total, noise)

    def take_nothing(self, curvature: bool) -> None:
        """A sum that is void: no step. Without a curvature every column has the largest that rows can have."""
        if curvature:
            self.spread = np.full(self.setting.width, float(self.setting.rows))

    def _lift(self, parties: Sequence[int]) -> float:
        return self.setting.rows / sum(self.setting.sizes[node] for node in parties)

    def take_gradient(self, releases: Mapping[int, Mapping[str, Floats]]) -> None:
        """One step. A node that has never sent a gradient is left out; a lost one counts with its last."""
        for node in self.present:
            if node in releases:
                self.last[node] = np.asarray(releases[node]["g"])
            elif node not in self.last:
                self.gone.add(node)
        self.last = {node: value for node, value in self.last.items() if node not in self.gone}
        self._step(self._total(self.last), self._noise)

    def _step(self, total: Floats, noise: float) -> None:
        """One step by a gradient sum whose noise has ``noise`` times the variance of one node's."""
        self._guard(total, noise)
        ridge = CONSTANTS.ridge
        if self.inner is None:
            step = self.solve((total + ridge * self.point[0])[None, :])
        else:
            each = np.zeros(self.point.shape)
            for node in self.present:
                each[node] = self.lift * self.last[node]
            share = (each + ridge * self.point / self.setting.nodes) * self.setting.nodes
            step = self.inner.agree(self.solve(share))
        self.speed = CONSTANTS.momentum * self.speed - step
        self.point = self.point + self.speed
        self.past.append(self.point)

    def solve(self, rows: Floats) -> Floats:
        """H^-1 of every row: a diagonal plus one direction (Sherman and Morrison)."""
        diagonal, direction, weight = self._metric()
        plain = rows / diagonal
        turned = direction / diagonal
        return plain - np.outer(plain @ direction, turned) * (weight / (1 + weight * float(direction @ turned)))

    def _metric(self) -> tuple[Floats, Floats, float]:
        diagonal = 0.25 * self.kappa * self.spread + CONSTANTS.ridge
        return diagonal, self.mean, 0.25 / self.setting.rows

    def _guard(self, total: Floats, noise: float) -> None:
        total = total + CONSTANTS.ridge * self.point.mean(0)
        size = float(total @ self.solve(total[None, :])[0])
        chance = 6 * noise * self.plan.std_g**2 * float((1 / self._metric()[0]).sum())
        if self.sizes and size > 1.2 * self.sizes[-1] + chance and self.kappa < CONSTANTS.largest_kappa:
            self.kappa = min(2 * self.kappa, CONSTANTS.largest_kappa)
            self.speed = np.zeros(self.speed.shape)
            self.doublings += 1
        self.sizes.append(size)
