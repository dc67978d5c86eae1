"""The public half of `private-admm`: from released sums to the next classifier. No data, no noise, no cost.

    m = clip(sum m_i, -n, n)    w = sum v_i    v = max(w - m^2/n, F)    F = 3 sqrt(N) e + 1
    H = (1/4)(kappa diag(v) + m m'/n) + lam I
    u = momentum u - H^-1 (sum g_i + lam f)    f = f + u

and the answer is the mean of the last quarter of the iterates. Everybody who has the releases gets the same numbers.
Every sum is over the nodes that are present, times n/n_present; a node whose message was lost counts with its last one.
Safeguard: where the released gradient's size g'H^-1 g exceeds 1.2 times the last one plus what noise explains, kappa
doubles (at most to 64) and u = 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairveil.consensus.exchange import InnerAdmm
from fairveil.consensus.release_plan import ReleasePlan
from fairveil.consensus.schedule import Setting

Floats = NDArray[np.float64]


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

    def __init__(
        self, plan: ReleasePlan, setting: Setting, inner: InnerAdmm | None, constants: Constants = CONSTANTS
    ) -> None:
        self.plan, self.setting, self.inner, self.constants = plan, setting, inner, constants
        shape = (setting.nodes, setting.width) if inner is not None else (1, setting.width)
        self.point = np.zeros(shape)
        self.speed = np.zeros(shape)
        self.kappa = constants.kappa
        self.sizes: list[float] = []
        self.past: list[Floats] = []
        self.last: dict[int, Floats] = {}
        self.mean = np.zeros(setting.width)
        self.spread = np.ones(setting.width)
        self.gone: set[int] = set()
        self.doublings = 0

    def at(self, node: int) -> Floats:
        """The public point at which a node computes its next gradient."""
        return self.point[node if self.inner is not None else 0]

    def answer(self, node: int) -> Floats:
        """The classifier so far: mean of the last quarter of the iterates."""
        count = max(1, math.floor(len(self.past) * self.constants.averaged))
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

    def take_curvature(self, releases: Mapping[int, Mapping[str, Floats]]) -> None:
        """Nodes without a curvature release are left out."""
        self.gone |= {node for node in range(self.setting.nodes) if node not in releases}
        n, zero = self.setting.rows, np.zeros(self.setting.width)
        first = self.lift * sum((np.asarray(releases[node]["m"]) for node in self.present), zero)
        second = self.lift * sum((np.asarray(releases[node]["v"]) for node in self.present), zero)
        self.mean = np.clip(first, -n, n)
        floor = self.constants.floor * math.sqrt(self.setting.nodes) * self.plan.error_v + 1
        self.spread = np.maximum(second - self.mean**2 / n, floor)

    def take_gradient(self, releases: Mapping[int, Mapping[str, Floats]]) -> None:
        """One step. A node that has never sent a gradient is left out; a lost one counts with its last."""
        for node in self.present:
            if node in releases:
                self.last[node] = np.asarray(releases[node]["g"])
            elif node not in self.last:
                self.gone.add(node)
        self.last = {node: value for node, value in self.last.items() if node not in self.gone}
        self._guard()
        ridge = self.constants.ridge
        if self.inner is None:
            total = self.lift * sum((self.last[node] for node in self.present), np.zeros(self.setting.width))
            step = self.solve((total + ridge * self.point[0])[None, :])
        else:
            each = np.zeros(self.point.shape)
            for node in self.present:
                each[node] = self.lift * self.last[node]
            share = (each + ridge * self.point / self.setting.nodes) * self.setting.nodes
            step = self.inner.agree(self.solve(share))
        self.speed = self.constants.momentum * self.speed - step
        self.point = self.point + self.speed
        self.past.append(self.point)

    def solve(self, rows: Floats) -> Floats:
        """H^-1 of every row: a diagonal plus one direction (Sherman and Morrison)."""
        diagonal, direction, weight = self._metric()
        plain = rows / diagonal
        turned = direction / diagonal
        return plain - np.outer(plain @ direction, turned) * (weight / (1 + weight * float(direction @ turned)))

    def _metric(self) -> tuple[Floats, Floats, float]:
        diagonal = 0.25 * self.kappa * self.spread + self.constants.ridge
        return diagonal, self.mean, 0.25 / self.setting.rows

    def _guard(self) -> None:
        total = self.lift * sum((self.last[node] for node in self.present), np.zeros(self.setting.width))
        total = total + self.constants.ridge * self.point.mean(0)
        size = float(total @ self.solve(total[None, :])[0])
        noise = 6 * self.setting.nodes * self.plan.std_g**2 * float((1 / self._metric()[0]).sum())
        if self.sizes and size > 1.2 * self.sizes[-1] + noise and self.kappa < self.constants.largest_kappa:
            self.kappa = min(2 * self.kappa, self.constants.largest_kappa)
            self.speed = np.zeros(self.speed.shape)
            self.doublings += 1
        self.sizes.append(size)
