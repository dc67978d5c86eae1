"""Rules whose value is asked for: the probability each gives to every arm of every logged row, the weights that follow,
and whether the log can say anything about the rule: how many rows the weights amount to, and why not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np

from fairveil.arrays import Floats
from fairveil.configuration import configuration
from fairveil.data.logs import Log
from fairveil.errors import InputError, SpecError
from fairveil.fields import Matrix, Vector, described
from fairveil.registry import register


class Target(ABC):
    """A rule to be valued. It reads contexts, never outcomes."""

    name: str = ""

    def columns(self) -> tuple[str, ...]:
        """Columns of the log it reads beyond the features."""
        return ()

    def largest(self, arms: int) -> float:
        """The largest probability it can give to one of so many arms, whatever the row; public."""
        return 1.0

    @abstractmethod
    def probabilities(self, log: Log) -> Floats:
        """Shape (rows, arms); every row sums to one."""


@register("target", "uniform")
@configuration
class Uniform(Target):
    """Every arm with the same probability."""

    def largest(self, arms: int) -> float:
        return 1.0 / arms

    def probabilities(self, log: Log) -> Floats:
        return np.full((len(log), len(log.arms)), 1.0 / len(log.arms))


@register("target", "arm")
@configuration
class OneArm(Target):
    """Always the same arm, by its name in the log."""

    arm: str | int | float = described("name of the arm", example="a")

    def probabilities(self, log: Log) -> Floats:
        if str(self.arm) not in log.arms:
            raise SpecError(
                "the log has no such arm", path="target.arm", given=self.arm, allowed=", ".join(log.arms[:20])
            )
        found = np.zeros((len(log), len(log.arms)))
        found[:, log.arms.index(str(self.arm))] = 1.0
        return found


@register("target", "mixture")
@configuration
class Mixture(Target):
    """Fixed probabilities for the arms, in the order in which they are declared."""

    shares: Vector = described("one probability an arm, summing to one", example=(0.5, 0.5))

    def largest(self, arms: int) -> float:
        return max(self.shares)

    def probabilities(self, log: Log) -> Floats:
        shares = np.array(self.shares)
        if len(shares) != len(log.arms) or (shares < 0).any() or abs(shares.sum() - 1.0) > 1e-9:
            raise SpecError(
                "the shares are not a law over the arms",
                path="target.shares",
                given=len(shares),
                allowed=f"{len(log.arms)} numbers that sum to one",
            )
        return np.tile(shares, (len(log), 1))


@register("target", "linear")
@configuration
class Linear(Target):
    """The arm with the largest linear score of the features; ``temperature`` above 0 makes it a softmax."""

    weights: Matrix = described("one row of weights an arm, one column a feature", example=((1.0,), (0.5,)))
    temperature: float = described(
        "0: the best arm always; above: probabilities by exp(score/temperature)", default=0.0
    )

    def probabilities(self, log: Log) -> Floats:
        weights = np.array(self.weights)
        if weights.shape != (len(log.arms), log.features.shape[1]) or self.temperature < 0:
            raise SpecError(
                "the weights do not fit the log",
                path="target.weights",
                given=list(weights.shape),
                allowed=f"{len(log.arms)} rows (arms) of {log.features.shape[1]} numbers (features)",
            )
        scores = log.features @ weights.T
        if self.temperature == 0.0:
            best = scores == scores.max(axis=1, keepdims=True)
            return best / best.sum(axis=1, keepdims=True)
        scores = (scores - scores.max(axis=1, keepdims=True)) / self.temperature
        law = np.exp(scores)
        return law / law.sum(axis=1, keepdims=True)


@register("target", "columns")
@configuration
class Columns(Target):
    """Probabilities that were computed elsewhere and stand in the log, one column an arm."""

    names: list[str] = described("columns, in the order in which the arms are declared", example=["p_a", "p_b"])

    def columns(self) -> tuple[str, ...]:
        return tuple(self.names)

    def probabilities(self, log: Log) -> Floats:
        if len(self.names) != len(log.arms):
            raise SpecError(
                "there is not one column an arm",
                path="target.names",
                given=len(self.names),
                allowed=f"{len(log.arms)} names: {', '.join(log.arms[:20])}",
            )
        found = np.stack([log.extra[name] for name in self.names], axis=1)
        if (np.abs(found.sum(axis=1) - 1.0) > 1e-6).any():
            raise InputError(
                "the probabilities of a row do not sum to one", path="target.names", allowed="a law in every row"
            )
        return found


def importance(log: Log, law: Floats) -> Floats:
    """Weights pi/p of the logged choices under a rule's law."""
    if log.propensities is None:
        raise InputError(
            "a rule cannot be valued without the probabilities of the logged choices",
            path="log.propensity",
            allowed="a column, or one number such as 1/arms for uniform logging",
        )
    return law[np.arange(len(log)), log.chosen] / log.propensities


#: One row may carry at most this share of all weight: above it the estimate is that row's outcome.
LARGEST_SHARE = 0.1
#: Fewer effective rows than this make no normal interval.
FEWEST_ROWS = 30.0
#: Weights have mean one under the logging law; further than this many standard errors away, propensities are wrong.
FAR = 6.0


class Support(NamedTuple):
    """Numbers about importance weights; ``reasons`` say why an estimate from them cannot be trusted."""

    largest_weight: float
    effective_sample_size: float
    mean_weight: float
    mean_error: float
    largest_share: float

    @property
    def reasons(self) -> list[str]:
        found = []
        if self.mean_weight == 0:
            found.append("the rule never chooses what was logged")
        elif self.largest_share > LARGEST_SHARE:
            found.append(f"one row carries {100 * self.largest_share:.0f} % of all weight")
        if self.effective_sample_size < FEWEST_ROWS:
            found.append(f"the weights amount to {self.effective_sample_size:.0f} rows, {FEWEST_ROWS:.0f} are needed")
        if self.mean_weight > 0 and abs(self.mean_weight - 1.0) > FAR * self.mean_error + 1e-9:
            found.append(
                f"weights have mean {self.mean_weight:.3g}, not 1: propensities are wrong, or arms were never tried"
            )
        return found

    @property
    def enough(self) -> bool:
        return not self.reasons

    def to_dict(self) -> dict[str, Any]:
        return {
            "enough": self.enough,
            "reasons": self.reasons,
            "largest_weight": self.largest_weight,
            "effective_sample_size": self.effective_sample_size,
            "mean_weight": self.mean_weight,
        }


def support(weights: Floats) -> Support:
    """Check the weights pi/p of a log.

    >>> support(np.ones(200)).enough
    True
    >>> support(np.append(np.ones(200), 21739.0)).reasons[0]
    'one row carries 99 % of all weight'
    """
    total, squares, n = float(weights.sum()), float((weights**2).sum()), len(weights)
    effective = total * total / squares if squares > 0 else 0.0
    error = float(weights.std(ddof=1)) / np.sqrt(n) if n > 1 else np.inf
    largest = float(weights.max())
    return Support(largest, effective, total / n, float(error), largest / total if total > 0 else 1.0)
