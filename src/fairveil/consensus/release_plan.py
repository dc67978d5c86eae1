"""Noise of `private-admm`: budgets, grids and scales, from public numbers alone.

| definition | curvature m | curvature v | gradient (each round) | total |
|---|---|---|---|---|
| gaussian | std 2/mu_a | std sqrt2/mu_a | std 2 s/mu_g | 2 mu_a^2 + T mu_g^2 = mu^2 |
| pure | Laplace 2 L1/eps_a | Laplace 2/eps_a | Laplace 2 s L1/eps_g | 2 eps_a + T eps_g = eps |

L1 = 0.8 sqrt(k), k the most nonzero entries of a row, a fact of the schema: no row of norm 1 is longer than sqrt(k) in
the l1 norm, few are longer than 0.8 sqrt(k), and those are scaled down. Where rows are dense, noise of density exp(-a
|z|) in blocks has a smaller standard deviation than Laplace noise and is used for m and g.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np

from fairveil.arrays import Floats, Ints
from fairveil.consensus.algorithm import Setting
from fairveil.consensus.perturbation import block_sizes, exact_noise, gaussian_mu
from fairveil.consensus.rows import PULL_BITS
from fairveil.errors import SpecError
from fairveil.privacy.events import (
    ComposedEvent,
    Event,
    GaussianEvent,
    PureEvent,
    RepeatedEvent,
    SharedGaussianEvent,
)
from fairveil.privacy.grid import float_above, from_units, share_above, to_units
from fairveil.privacy.noise import Noise

Definition = Literal["gaussian", "pure"]
ROW_BITS = 20
MOST_BITS = 60
LARGEST_SIGMA = 50
"""Noise of at most 2^50 grid units: finer grids than a budget needs are not used."""
LEAST_SIGMA = 2.0**28
"""Gaussian noise has at least so many grid units; the correction of delta is charged for that."""
MEAN_BITS = 10
"""Sums of x are shifted to a grid finer by so many bits before their noise."""


@dataclass(frozen=True)
class ReleasePlan:
    """Everything the budget and the public facts determine."""

    definition: Definition
    epsilon: float
    delta: float
    slope: float
    share: float
    rounds: int
    width: int
    nonzeros: int
    most_rows: int
    honest: int = 1
    """Nodes whose noises together are a whole one: 1, but for secure sums."""

    @classmethod
    def of(
        cls, definition: Definition, epsilon: float, delta: float, slope: float, share: float, rounds: int,
        setting: Setting, honest: int = 1,
    ) -> ReleasePlan:  # fmt: skip
        return cls(
            definition, epsilon, delta, slope, share, rounds, setting.width, setting.nonzeros, max(setting.sizes),
            honest,
        )  # fmt: skip

    @cached_property
    def total(self) -> float:
        """mu, or epsilon if pure."""
        if self.definition == "pure":
            return self.epsilon
        return gaussian_mu(self.epsilon, self.delta, (self.rounds + 2) * self.width, LEAST_SIGMA)

    @cached_property
    def curvature_part(self) -> float:
        """mu_a or eps_a: each of the two curvature releases."""
        half = self.share / 2
        return self.total * (half if self.definition == "pure" else math.sqrt(half))

    @cached_property
    def gradient_part(self) -> float:
        """mu_g or eps_g: each round."""
        each = (1 - self.share) / self.rounds
        return self.total * (each if self.definition == "pure" else math.sqrt(each)) * (1 - 1e-12)

    @cached_property
    def bits(self) -> int:
        """Grid of the rows: as fine as 64-bit sums and noise scales allow."""
        room = (MOST_BITS - math.ceil(math.log2(self.most_rows + 1))) // 2
        part = min(self.curvature_part, self.gradient_part)
        noise = math.floor((LARGEST_SIGMA - 2 - math.log2(max(self.nonzeros, 1)) / 2 + math.log2(part)) / 2)
        return max(8, min(ROW_BITS, room, noise))

    @property
    def steepest(self) -> int:
        """s in units of 2^-16."""
        return math.floor(self.slope * 2**PULL_BITS)

    @property
    def reach(self) -> int:
        """L1 in row units, rounded down; a Gaussian release needs no bound in the l1 norm."""
        most = math.isqrt(self.nonzeros * 4**self.bits)
        return max(1, most * 4 // 5) if self.definition == "pure" and not self.blocks else most + self.width

    @property
    def blocks(self) -> bool:
        """Whether pure noise for m and g is drawn in blocks of exp(-a |z|) instead of Laplace."""
        sizes = block_sizes(self.width)
        return self.definition == "pure" and len(sizes) * (max(sizes) + 1) < 2 * self.nonzeros

    def _scale(self, sensitivity: int | Fraction, part: float) -> float:
        return float_above(Fraction(sensitivity) / Fraction(part))

    @cached_property
    def scales(self) -> tuple[float, float, float]:
        """Std (Laplace scale if pure) of m, v and g in their own grid units."""
        row, square, pull = 2**self.bits, 4**self.bits, self.steepest
        a, g = self.curvature_part, self.gradient_part
        if self.definition == "pure":
            return (
                self._scale(2 * self.reach << MEAN_BITS, a),
                self._scale(2 * square, a),
                self._scale(2 * pull * self.reach, g),
            )
        root = math.nextafter(math.sqrt(2.0), 2.0)
        found = (
            self._scale(2 * row << MEAN_BITS, a),
            self._scale(Fraction(root) * square, a),
            self._scale(2 * pull * row, g),
        )
        if min(found) < LEAST_SIGMA:
            raise SpecError(
                "epsilon is too large for Gaussian noise on a grid", path="epsilon", given=self.epsilon,
                fix="definition='pure' has no such limit",
            )  # fmt: skip
        return found

    @property
    def grids(self) -> tuple[int, int, int]:
        """Bits of the grids of m, v and g."""
        return self.bits + MEAN_BITS, 2 * self.bits, self.bits + PULL_BITS

    @property
    def error_v(self) -> float:
        """e of the floor F: std (Laplace scale if pure) of one node's v."""
        return math.ldexp(self.scales[1], -self.grids[1])

    @property
    def std_g(self) -> float:
        """Standard deviation of one coordinate of one node's gradient."""
        if self.definition == "gaussian":
            return math.ldexp(self.scales[2], -self.grids[2])
        if self.blocks:
            sizes = block_sizes(self.width)
            return math.sqrt(len(sizes) * (max(sizes) + 1)) * 2 * self.slope / self.gradient_part
        return math.sqrt(2) * math.ldexp(self.scales[2], -self.grids[2])

    def shares(self, which: int, units: Ints, noise: Noise, honest: int) -> Ints:
        """Integer sums (0: m, 1: v, 2: g) on their grid with Gaussian noise of which ``honest`` nodes make a whole."""
        units = units << MEAN_BITS if which == 0 else units
        return units + noise.gaussian(share_above(self.scales[which], honest), len(units))

    def noisy(self, which: int, units: Ints, noise: Noise) -> Floats:
        """Integer sums (0: m, 1: v, 2: g) with their noise, in the data's own units."""
        bits, scale = self.grids[which], self.scales[which]
        if self.definition == "gaussian":
            return from_units(self.shares(which, units, noise, self.honest), bits)
        units = units << MEAN_BITS if which == 0 else units
        if not self.blocks or which == 1:
            return from_units(units + noise.laplace(scale, len(units)), bits)
        # Coarsen the integer sum to the grid of the block noise; rounding toward zero is part of its sensitivity.
        part, shift = (self.curvature_part, 2.0) if which == 0 else (self.gradient_part, 2 * self.slope)
        drawn, reach = exact_noise(part / shift, len(units), shift, noise)
        grid = round(-math.log2(reach / math.sqrt(len(units))))
        size = np.abs(units)
        coarse = np.sign(units) * (size >> (bits - grid) if grid <= bits else size << (grid - bits))
        return from_units(coarse + to_units(drawn, grid), grid)

    def event(self) -> Event:
        """What one row of a node pays: two curvature releases and T gradients."""
        if self.definition == "pure":
            return PureEvent(self.epsilon)
        parts = (self.curvature_part, self.curvature_part, self.gradient_part)
        first, second, gradient = (self._one(part, scale) for part, scale in zip(parts, self.scales))
        return ComposedEvent((first, second, RepeatedEvent(gradient, self.rounds)))

    def _one(self, part: float, scale: float) -> Event:
        d = self.width
        if self.honest == 1:
            return GaussianEvent(part, d, scale)
        return SharedGaussianEvent(part, d, scale, share_above(scale, self.honest), self.honest)

    def check_sum(self, setting: Setting) -> None:
        """Refuse sums over all nodes that do not fit 62 bits: masks are taken modulo 2^64, and nothing may wrap."""
        reach = (2**self.bits << MEAN_BITS, 4**self.bits, self.steepest * 2**self.bits)
        for most, scale in zip(reach, self.scales):
            if setting.rows * most + setting.nodes * 100 * scale >= 2**62:
                raise SpecError(
                    "a sum over all nodes does not fit 62 bits", path="sums", given="secure", allowed="own",
                    fix="fewer rows, or a larger epsilon",
                )  # fmt: skip

    def spent(self, iteration: int) -> float:
        """mu (epsilon if pure) after so many iterations, curvature first."""
        rounds = iteration - 1
        if self.definition == "pure":
            return 2 * self.curvature_part + rounds * self.gradient_part
        return math.sqrt(2 * self.curvature_part**2 + rounds * self.gradient_part**2)
