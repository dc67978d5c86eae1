"""What the simulators of all families share: a case built once, one scheme of seeds, curves with bands."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairveil import registry
from fairveil.bandits.feedback import AT_ONCE, Lateness
from fairveil.privacy.noise import Noise, make_noise
from fairveil.randomness import Generator, generator

if TYPE_CHECKING:
    from fairveil.bandits.environments.base import Environment
    from fairveil.bandits.family import Family
    from fairveil.bandits.protocol import Policy

BAND = 1.96
"""Bands are normal 95 % intervals."""


@dataclass(frozen=True)
class Streams:
    """The independent sources of one run: the policy's coins, the world, the privacy noise, arrivals of rewards.

    Arrivals come from ``coming()``, which is called when a reward can first be late.
    """

    explore: Generator
    world: Generator
    noise: Noise
    coming: Callable[[], Generator]

    @classmethod
    def of(cls, seed: int, run: int, noise: str | Noise = "seeded") -> Streams:
        """The streams of run number ``run``; ``noise`` is what the spec asks for, or a source of its own.

        >>> Streams.of(7, 0).world.integers(100) == Streams.of(7, 0).world.integers(100)
        np.True_
        """
        source = make_noise(noise, seed, "run", run) if isinstance(noise, str) else noise
        explore, world = (generator(seed, "run", run, name) for name in ("explore", "world"))
        return cls(explore, world, source, lambda: generator(seed, "run", run, "arrivals"))

    @cached_property
    def arrivals(self) -> Generator:
        """The stream of waits and missing rewards; a run without them does not pay for it."""
        return self.coming()


@dataclass(frozen=True)
class Case:
    """A complete bandit spec with what it describes, built once for all runs of a block of work."""

    spec: dict[str, Any]
    policy: Policy
    environment: Environment
    family: Family
    lateness: Lateness

    @classmethod
    def of(
        cls, policy: Policy, environment: Environment, rounds: int, *, lateness: Lateness = AT_ONCE, seed: int = 0
    ) -> Case:
        """A case without a spec, for one run that is measured at its end."""
        spec = {"rounds": rounds, "checkpoints": [rounds], "runs": 1, "seed": seed, "noise": "seeded", "powers": []}
        return cls(spec, policy, environment, registry.get("family", environment.family)(), lateness)

    @property
    def rounds(self) -> int:
        rounds: int = self.spec["rounds"]
        return rounds

    @property
    def checkpoints(self) -> list[int]:
        checkpoints: list[int] = self.spec["checkpoints"]
        return checkpoints

    def streams(self, run: int) -> Streams:
        return Streams.of(self.spec["seed"], run, self.spec["noise"])


class Simulator(ABC):
    """One run of one policy in one world of its family, played on a stretch of rounds at a time.

    A policy offers a compiled one (`Policy.simulator`); otherwise the family plays its steps. Both call the same
    kernels, draw from the same streams, and decide the same arms.
    """

    releases: int = 0
    """Releases made so far."""

    @abstractmethod
    def advance(self, stop: int) -> Any:
        """Play on until ``stop`` rounds are decided and hand back what the family measures of them."""
        raise NotImplementedError


def band(x: list[int], y: list[float], std: list[float], runs: int) -> dict[str, list[float]]:
    """A series with its normal 95 % band from a standard deviation over runs."""
    reach = BAND / math.sqrt(runs)
    return {
        "x": [float(point) for point in x],
        "y": y,
        "low": [value - reach * error for value, error in zip(y, std)],
        "high": [value + reach * error for value, error in zip(y, std)],
    }


def spread(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Standard deviation over runs (first axis) of a sample; one run shows no spread."""
    return values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros_like(values[0])


def curves(
    checkpoints: list[int], values: dict[str, NDArray[np.float64]]
) -> tuple[dict[str, Any], dict[str, dict[str, list[float]]]]:
    """Metrics (mean and ``_std`` over runs) and series of values (runs, checkpoints); undefined curves are left out.

    >>> metrics, series = curves([10], {"regret": np.array([[1.0], [3.0]]), "error": np.array([[np.nan], [1.0]])})
    >>> metrics["regret"], list(series)
    ([2.0], ['regret'])
    """
    metrics: dict[str, Any] = {}
    series: dict[str, dict[str, list[float]]] = {}
    for name, runs in values.items():
        if np.isnan(runs).any():
            continue
        metrics[name], metrics[f"{name}_std"] = runs.mean(axis=0).tolist(), spread(runs).tolist()
        series[name] = band(checkpoints, metrics[name], metrics[f"{name}_std"], len(runs))
    return metrics, series
