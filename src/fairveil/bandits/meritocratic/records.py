"""From person records to a pool of candidates: a hold-out for the true weights, groups by attributes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fairveil.arrays import Floats
from fairveil.bandits.meritocratic.world import Pool, PoolEnvironment
from fairveil.configuration import configuration
from fairveil.errors import SpecError
from fairveil.fields import Count, Natural, described
from fairveil.randomness import Generator

Fraction = Annotated[float, Field(gt=0.0, lt=1.0, allow_inf_nan=False)]


class PooledPeople(NamedTuple):
    """The pool that is played, the weights that are true for it, and its groups."""

    pool: Pool
    theta: Floats
    groups: tuple[str, ...]


@configuration
class RecordsEnvironment(PoolEnvironment):
    """Candidates are person records. A subclass names its ``attributes`` and loads, encodes and splits the records."""

    recorded = True

    _: KW_ONLY
    minimum: Count = described("groups with fewer people are left out", default=1_000)
    holdout: Fraction = described("share of the people on whom the true weights are fitted", default=0.2)
    split_seed: Natural = described("seed of that split", default=0)

    @property
    def people_of_groups(self) -> PooledPeople:
        raise NotImplementedError

    @property
    def pool(self) -> Pool:
        return self.people_of_groups.pool

    @property
    def theta(self) -> Floats:
        return self.people_of_groups.theta

    @property
    def group_names(self) -> tuple[str, ...]:
        return self.people_of_groups.groups

    def check_groups(self, attributes: Sequence[str], allowed: str) -> None:
        """Attributes are given once each, and groups that join are known; loads records only if some group joins."""
        if not attributes or len(set(attributes)) != len(attributes):
            raise SpecError(
                "groups need at least one attribute, each once",
                path="attributes",
                given=list(attributes),
                allowed=allowed,
            )
        if self.joins:
            self.check_joins()


def scale_to_range(values: NDArray[Any], low: float, high: float) -> Floats:
    """Numbers clipped to their documented range and moved to [-1, 1]."""
    return 2 * (np.clip(values.astype(np.float64), low, high) - low) / (high - low) - 1


def split_people(
    features: Floats,
    target: Floats,
    attributes: dict[str, NDArray[Any]],
    minimum: int,
    holdout: float,
    rng: Generator,
    standardise: bool,
) -> PooledPeople:
    """Fit theta* by least squares on a random hold-out and group the records that are left.

    A group is a combination of attribute values with at least ``minimum`` records in the whole data.
    """
    held, played = np.split(rng.permutation(len(target)), [round(holdout * len(target))])
    aim = target[held]
    if standardise:
        aim = (aim - aim.mean()) / aim.std()
    # Indicators of a category sum to the constant column: a whisper of ridge makes the fit unique.
    gram = features[held].T @ features[held] + 1e-8 * len(held) * np.eye(features.shape[1])
    theta: Floats = np.linalg.solve(gram, features[held].T @ aim).astype(np.float64)
    labels = np.array(
        ["/".join(f"{name}={value}" for name, value in zip(attributes, row)) for row in zip(*attributes.values())]
    )
    values, counts = np.unique(labels, return_counts=True)
    kept = values[counts >= minimum]
    if len(kept) < 2:
        raise SpecError("fewer than two groups have enough records", path="minimum", given=minimum, fix="lower it")
    inside = played[np.isin(labels[played], kept)]
    group = np.searchsorted(kept, labels[inside])
    return PooledPeople(Pool.of(features[inside], group, theta), theta, tuple(str(value) for value in kept))
