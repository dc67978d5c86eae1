"""Groups with Gaussian features: every relative rank is known in closed form."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Strict
from scipy.special import ndtr

from fairveil.arrays import Floats, Ints
from fairveil.bandits.meritocratic.scaling import Schema
from fairveil.bandits.meritocratic.world import MeritocraticEnvironment
from fairveil.configuration import configuration
from fairveil.errors import SpecError
from fairveil.fields import Matrix, Vector, described
from fairveil.randomness import Generator
from fairveil.registry import register


@register("environment", "gaussian")
@configuration
class Gaussian(MeritocraticEnvironment):
    """Candidates x ~ N(mean_g, covariance_g) per group, reward <x, theta> plus noise; ranks are exact normal quantiles.

    ``covariances`` holds one square matrix per group; left out, every group has the identity. Features are unbounded:
    the declared range of a column is its mean range plus and minus four standard deviations.

    >>> world = Gaussian(weights=(1.0, 0.0), means=((0.0, 0.0), (3.0, 1.0)))
    >>> world.relative_rank(np.array([0, 1]), np.array([0.0, 3.0])).tolist()
    [0.5, 0.5]
    """

    generated: ClassVar[bool] = True

    weights: Vector = described("true weights of the features", example=(1.0, 0.5))
    means: Matrix = described("mean features of each group", example=((0.0, 0.0), (1.0, 0.0)))
    covariances: Annotated[tuple[Matrix, ...], Strict(False)] | None = described(
        "covariance of each group's features; the identity when left out", default=None
    )

    def __post_init__(self) -> None:
        width = len(self.weights)
        if width < 1 or len(self.means) < 2 or any(len(mean) != width for mean in self.means):
            raise SpecError(
                "means and weights do not fit together",
                path="means",
                given=[len(mean) for mean in self.means],
                allowed=f"at least two means of length {width}",
            )
        if self.covariances is not None and np.shape(self.covariances) != (len(self.means), width, width):
            raise SpecError(
                "the covariances do not fit the means",
                path="covariances",
                allowed=f"{len(self.means)} matrices of {width} x {width}",
            )
        spectra = np.linalg.eigvalsh(self._covariance)
        if not np.allclose(self._covariance, np.swapaxes(self._covariance, 1, 2)) or spectra.min() < -1e-12:
            raise SpecError("a covariance is not symmetric and positive semi-definite", path="covariances")
        if (self._score_std <= 0).any():
            raise SpecError("all scores of a group are equal", path="covariances", fix="give every group some variance")
        self.check_joins()

    @cached_property
    def _covariance(self) -> Floats:
        width = len(self.weights)
        if self.covariances is None:
            return np.tile(np.eye(width), (len(self.means), 1, 1))
        return np.asarray(self.covariances, np.float64)

    @cached_property
    def _root(self) -> Floats:
        values, vectors = np.linalg.eigh(self._covariance)
        return vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]

    @cached_property
    def _mean(self) -> Floats:
        return np.asarray(self.means, np.float64)

    @cached_property
    def _score_std(self) -> Floats:
        return np.sqrt(np.einsum("i,gij,j->g", self.theta, self._covariance, self.theta))

    @property
    def group_names(self) -> tuple[str, ...]:
        return tuple(f"g{number + 1}" for number in range(len(self.means)))

    @property
    def theta(self) -> Floats:
        return np.asarray(self.weights, np.float64)

    @property
    def schema(self) -> Schema:
        deviation = np.sqrt(np.diagonal(self._covariance, axis1=1, axis2=2))
        low, high = (self._mean - 4 * deviation).min(axis=0), (self._mean + 4 * deviation).max(axis=0)
        middle = self._mean.mean(axis=0)
        spread = np.sqrt((deviation**2).mean(axis=0) + self._mean.var(axis=0))
        scores = self._mean @ self.theta
        return Schema(
            names=tuple(f"x{number + 1}" for number in range(len(self.weights))),
            low=low,
            high=high,
            centre=middle,
            spread=np.maximum(spread, 1e-9),
            informative=deviation.max(axis=0) > 0,
            reward_centre=float(scores.mean()),
            reward_spread=float(np.sqrt(scores.var() + (self._score_std**2).mean() + self.noise**2)),
        )

    def people(self, groups: Ints, rng: Generator) -> tuple[Floats, Floats, Floats]:
        normal = rng.standard_normal((len(groups), len(self.weights)))
        features = np.empty_like(normal)
        for group in range(self.groups):
            own = groups == group
            features[own] = self._mean[group] + normal[own] @ self._root[group].T
        scores = features @ self.theta
        return features, scores, self.relative_rank(groups, scores)

    def relative_rank(self, groups: Ints, scores: Floats) -> Floats:
        return ndtr((scores - (self._mean @ self.theta)[groups]) / self._score_std[groups])
