"""The people of the closed loop: groups with feature laws, drawn, kept, moved between qualified and unqualified."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairveil.dynamics.distributions import Distribution, distribution
from fairveil.errors import SpecError
from fairveil.randomness import Generator

Floats = NDArray[np.float64]
TAIL = 1e-3
"""Features are scaled by their public quantiles at this level and its complement, and clipped there."""


@dataclass(frozen=True)
class People:
    """Some people: raw features (n, columns), qualified or not, and the position of their group."""

    features: Floats
    labels: NDArray[np.int64]
    groups: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: NDArray[Any]) -> People:
        return People(self.features[rows], self.labels[rows], self.groups[rows])

    def joined(self, other: People) -> People:
        return People(
            np.concatenate([self.features, other.features]),
            np.concatenate([self.labels, other.labels]),
            np.concatenate([self.groups, other.groups]),
        )


@dataclass(frozen=True)
class World:
    """Public knowledge about the groups: names, start rates, and independent feature laws for each group and label.

    >>> law = {"0": ["normal", -1, 1], "1": ["normal", 1, 1]}
    >>> world = World.of({"a": {"qualified": 0.5, "features": law}, "b": {"qualified": 0.3, "features": law}})
    >>> world.width, world.names
    (1, ('a', 'b'))
    """

    names: tuple[str, ...]
    qualified: Floats
    laws: tuple[tuple[tuple[Distribution, ...], tuple[Distribution, ...]], ...]
    group_feature: bool = False

    @classmethod
    def of(cls, groups: Mapping[str, Any], group_feature: bool = False) -> World:
        laws = []
        for name, table in groups.items():
            both = tuple(columns(table["features"][label], f"groups.{name}.features.{label}") for label in ("0", "1"))
            laws.append((both[0], both[1]))
        widths = {len(side) for both in laws for side in both}
        if len(widths) != 1:
            raise SpecError(
                "every group and label needs the same number of features",
                path="groups",
                given=sorted(widths),
                allowed="one distribution, or a list of distributions, of equal length",
            )
        rates = np.array([float(table["qualified"]) for table in groups.values()])
        made = cls(tuple(groups), rates, tuple(laws), group_feature)
        low, high = made._range
        with np.errstate(over="ignore"):
            spread = high - low
        if not (np.isfinite(spread) & (spread > 0)).all():
            raise SpecError(
                "a feature cannot be scaled: its laws have no spread that a float can show",
                path="groups",
                given=[float(width) if np.isfinite(width) else None for width in spread],
                allowed="laws whose quantiles differ by a finite positive number, column by column",
            )
        return made

    @property
    def width(self) -> int:
        return len(self.laws[0][0])

    @cached_property
    def _range(self) -> tuple[Floats, Floats]:
        sides = [side for both in self.laws for side in both]
        low = np.array([min(float(side[j].ppf(TAIL)) for side in sides) for j in range(self.width)])
        high = np.array([max(float(side[j].ppf(1 - TAIL)) for side in sides) for j in range(self.width)])
        return low, high

    def nobody(self) -> People:
        empty = np.zeros(0, np.int64)
        return People(np.zeros((0, self.width)), empty, empty)

    def draw(self, counts: NDArray[np.int64], rates: Floats, rng: Generator) -> People:
        """Fresh people: so many of each group, qualified at these rates."""
        groups = np.repeat(np.arange(len(self.names)), counts)
        labels = (rng.random(len(groups)) < rates[groups]).astype(np.int64)
        return self.with_features(labels, groups, rng)

    def with_features(self, labels: NDArray[np.int64], groups: NDArray[np.int64], rng: Generator) -> People:
        """People of these labels and groups with features drawn from their laws."""
        features = np.empty((len(labels), self.width))
        for group, both in enumerate(self.laws):
            for label, side in enumerate(both):
                rows = np.flatnonzero((groups == group) & (labels == label))
                for j, law in enumerate(side):
                    features[rows, j] = law.sample(rng, len(rows))
        return People(features, labels, groups)

    def inputs(self, people: People) -> Floats:
        """What a learner sees: every column scaled to [-1, 1] by public quantiles, all rows of norm at most one."""
        low, high = self._range
        scaled = np.clip(2 * (people.features - low) / (high - low) - 1, -1.0, 1.0)
        if not self.group_feature:
            return scaled / math.sqrt(self.width)
        member = np.eye(len(self.names))[people.groups]
        return np.concatenate([scaled, member], axis=1) / math.sqrt(self.width + 1)

    def labels_of(self, people: People) -> NDArray[Any]:
        """Group names, as learners get them."""
        return np.array(self.names)[people.groups]


def columns(spec: Any, path: str) -> tuple[Distribution, ...]:
    """One distribution, or a list of them (independent features), as a tuple."""
    if isinstance(spec, list | tuple) and spec and not isinstance(spec[0], str):
        return tuple(distribution(item, f"{path}.{j}") for j, item in enumerate(spec))
    return (distribution(spec, path),)
