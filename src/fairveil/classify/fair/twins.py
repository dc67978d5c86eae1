"""Broken twins of `private-fair`: one planted mistake each. An audit that does not catch all of them is worth nothing.

Every twin claims what the sound learner claims at ``epsilon``. They are planted by tests and by `make classification`;
nothing else may import them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairveil.classify.fair.accounting import Plan
from fairveil.classify.fair.audit import GROUPS, ROUNDS, fitted_crowd, released_counts
from fairveil.classify.fair.learner import PrivateFair
from fairveil.fairness.metrics import equal_opportunity_gap
from fairveil.privacy.audit import AuditPair
from fairveil.privacy.noise import Noise
from fairveil.randomness import Generator

Floats = NDArray[np.float64]
DELTA = 1e-5


@dataclass(frozen=True)
class _Scaled(Plan):
    """A plan whose noise is off by a factor, by kind of count, and whose claim is not."""

    zones: float = 1.0
    audits: float = 1.0
    everything: float = 1.0

    @property
    def zone_sigma(self) -> float:
        return super().zone_sigma * self.zones * self.everything

    @property
    def audit_sigma(self) -> float:
        return super().audit_sigma * self.audits * self.everything

    def report_sigma(self, plays: int) -> float:
        return super().report_sigma(plays) * self.everything


def _learner(epsilon: float, **more: Any) -> PrivateFair:
    return PrivateFair(epsilon, rounds=ROUNDS, groups=GROUPS, rows=61, most_rows=61, norm_bound=1.0, **more)


def _scaled(epsilon: float, neighbours: str = "zero-out-row", **factors: float) -> Plan:
    sound = _learner(epsilon, neighbours=neighbours).plan(2)
    fields: dict[str, Any] = {name: getattr(sound, name) for name in Plan.__dataclass_fields__}
    return _Scaled(**{**fields, **factors})


def one_round_of_noise(epsilon: float) -> AuditPair:
    """Every audit has the noise that one round alone would need."""
    return released_counts(_scaled(epsilon, audits=ROUNDS**-0.5), replaced=False, delta=DELTA)


def exact_sizes(epsilon: float) -> AuditPair:
    """Group sizes are counted without noise."""
    return released_counts(_scaled(epsilon, zones=1e-4), replaced=False, delta=DELTA)


def zero_out_sold_as_replacement(epsilon: float) -> AuditPair:
    """The noise is that of rows taken out, the claim that of rows replaced."""
    less = _learner(epsilon).plan(2).zone_sigma / _learner(epsilon, neighbours="replace-row").plan(2).zone_sigma
    return released_counts(_scaled(epsilon, "replace-row", everything=less), replaced=True, delta=DELTA)


def float_noise(epsilon: float) -> AuditPair:
    """Counts get textbook Gaussian noise in floating point: its low bits say which count they were added to."""
    sigma = _learner(epsilon).plan(2).zone_sigma

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        return (1.0 - world) + rng.normal(0.0, sigma, trials)

    return AuditPair(run, "one person is there or not", "a noisy count", epsilon, DELTA)


def bins_from_the_data(epsilon: float) -> AuditPair:
    """The encoding's bins span the range of the rows themselves; one person with a large value moves them all."""

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        learner = _learner(epsilon)
        values = np.linspace(0, 1, 60)
        values = np.append(values, 8.0) if world == 0 else values
        cell = np.minimum((values / values.max() * 8).astype(int), 7)  # the mistake
        plan = learner.plan(2)
        rows = np.concatenate([np.eye(8)[cell], np.ones((len(cell), 1))], axis=1)
        signs = np.where(values > 0.5, 1.0, -1.0)
        weights = plan.perturbation(61, 9).release(rows, signs, noise, copies=trials)
        # with edges of its own the crowd is in one bin or in eight: the weights and the published edges both tell
        return np.concatenate([np.full((trials, 1), values.max()), weights], axis=1)

    return AuditPair(run, "one person's value is the largest or not there", "edges and weights", epsilon, DELTA)


def raw_gap_in_an_attribute(epsilon: float) -> AuditPair:
    """The training gap is computed from the rows and handed out beside the private rule."""
    return _fitted(epsilon, _raw_gap)


def early_stop_on_a_raw_gap(epsilon: float) -> AuditPair:
    """The game ends when the training gap, counted without noise, is small: the number of rounds tells."""

    def rounds(model: Any, people: Any) -> float:
        return float(20 if _raw_gap(model, people) > 0.01 else 10)

    return _fitted(epsilon, rounds)


def _raw_gap(model: Any, people: Any) -> float:
    features, labels, groups = people
    chance = model.decision_chance(features, sensitive_features=groups)
    return equal_opportunity_gap(labels, chance, groups)


def _fitted(epsilon: float, tell: Callable[[Any, Any], float]) -> AuditPair:
    learner = _learner(epsilon)

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        people = fitted_crowd(learner, world)
        made = [learner.estimator(noise, rng) for _ in range(trials)]
        return np.array([tell(m.fit(people[0], people[1], sensitive_features=people[2]), people) for m in made])

    return AuditPair(run, "one of 61 people is there or not", "what is told about the fit", epsilon, DELTA)


TWINS: dict[str, tuple[Callable[[float], AuditPair], int]] = {
    "audit-noise-of-one-round": (one_round_of_noise, 20_000),
    "exact-group-sizes": (exact_sizes, 2_000),
    "bins-from-the-data": (bins_from_the_data, 400),
    "raw-gap-in-an-attribute": (raw_gap_in_an_attribute, 400),
    "early-stop-on-a-raw-gap": (early_stop_on_a_raw_gap, 400),
    "zero-out-sold-as-replacement": (zero_out_sold_as_replacement, 100_000),
    "float-noise": (float_noise, 100_000),
}
"""Twin and the trials a world that catch it."""
