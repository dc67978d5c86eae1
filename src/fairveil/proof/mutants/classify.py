"""Privacy mutants of the learners: their served functions draw from a broken source, or from too little of it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairveil.arrays import Floats
from fairveil.classify.fair.accounting import Plan
from fairveil.classify.fair.auditor import release_audit
from fairveil.classify.fair.learner import PrivateFair
from fairveil.classify.fair.zones import release_report, release_zones
from fairveil.classify.game.exponential import Game, Sound
from fairveil.classify.perturbation import Perturbation
from fairveil.fairness.metrics import equal_opportunity_gap
from fairveil.privacy.noise import Noise, ZeroNoise
from fairveil.proof import AuditPair
from fairveil.proof.mutants import (
    Method,
    Mutant,
    broken_copy,
    data_bound,
    function,
    in_function,
    method,
    no_clip,
    rule,
    together,
    twin,
    with_noise,
)
from fairveil.proof.mutants.everywhere import Broken, noise_mutants
from fairveil.proof.mutants.mutant import Change, planted, quiet
from fairveil.proof.pairs.classify import GROUPS, ROUNDS, fitted_crowd, released_counts
from fairveil.randomness import Generator, generator
from fairveil.registry import register


def _counts(thing: Any, change: Change) -> AbstractContextManager[None]:
    served = (release_zones, release_audit, release_report)
    return together(*(function(original, change(original)) for original in served), _weights(thing, change))


def _weights(thing: Any, change: Change) -> AbstractContextManager[None]:
    return method(Perturbation, "release", change)


def _pick(thing: Any, change: Change) -> AbstractContextManager[None]:
    return together(*(method(Sound, name, change) for name in ("sizes", "pick")))


def _game(thing: Any, change: Change) -> AbstractContextManager[None]:
    return method(Game, "play", change)


SERVED: dict[str, Broken] = {
    "private-fair": _counts,
    "private-logistic": _weights,
    "exponential-fair": _pick,
    "private-game": _game,
}
"""How each learner's noise is broken."""
for _learner, _broken in SERVED.items():
    for _mutant in noise_mutants(_broken):
        planted(f"learner:{_learner}/{_mutant.name}", _mutant)


@twin
def _counted(original: Method, self: Any, X: Any, y: Any, *more: Any, **named: Any) -> Any:
    model = original(self, X, y, *more, **named)
    model.positives_ = int(np.sum(np.asarray(y) == model.classes_[1]))
    return model


def exact_count(learner: Any) -> AbstractContextManager[None]:
    """A fitted model carries the number of positives."""
    return method(type(learner.estimator(ZeroNoise(), generator(0))), "fit", _counted)


@rule
def learner_mutants(kind: str, thing: Any) -> list[Mutant]:
    """What applies to any learner, and to those that clip rows to a public bound (games take categories only)."""
    if kind != "learner" or not thing.guarantee().established:
        return []
    found = [Mutant("exact-count", "the exact number of positives beside the model", exact_count, by_law=True)]
    if thing.clips_rows:
        found.append(Mutant("no-clip", "rows enter as long as they come", no_clip, by_law=True))
        found.append(Mutant("data-bound", "a bound that is the longest row there is", data_bound, by_law=True))
    return found


@twin
def _one_round(original: Method, counter: Any, accepted: Any, sigma: float, noise: Noise) -> Any:
    return original(counter, accepted, sigma / 20**0.5, noise)


@register("mutant", "learner:private-fair/one-round")
def one_round_of_noise(thing: Any) -> Mutant:
    """Every audit has the noise that one round alone would need."""
    return Mutant(
        "one-round", "audit noise of one round in every round", in_function(release_audit, _one_round(release_audit))
    )


@register("mutant", "learner:private-fair/exact-sizes")
def exact_sizes(thing: Any) -> Mutant:
    """Group sizes are read without noise."""
    quiet_zones = with_noise(quiet)(release_zones)
    return Mutant("exact-sizes", "group sizes without noise", in_function(release_zones, quiet_zones))


DELTA = 1e-5
NEIGHBOURS = ("zero-out-row", "replace-row")
FITS = 1_200
"""Fits a world that show a mistake which gives the data away, at epsilon 3 and the confidence of audits."""


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


def _private_fair(epsilon: float, **more: Any) -> PrivateFair:
    return PrivateFair(epsilon, rounds=ROUNDS, groups=GROUPS, rows=61, most_rows=61, norm_bound=1.0, **more)


def _scaled(epsilon: float, neighbours: str = "zero-out-row", **factors: float) -> Plan:
    sound = _private_fair(epsilon, neighbours=neighbours).plan(2)
    fields: dict[str, Any] = {name: getattr(sound, name) for name in Plan.__dataclass_fields__}
    return _Scaled(**{**fields, **factors})


@broken_copy("learner:private-fair/zero-out-sold-as-replacement")
def zero_out_sold_as_replacement(epsilon: float) -> AuditPair:
    """The noise is that of rows taken out, the claim that of rows replaced."""
    zone = {neighbours: _private_fair(epsilon, neighbours=neighbours).plan(2).zone_sigma for neighbours in NEIGHBOURS}
    less = zone["zero-out-row"] / zone["replace-row"]
    pair = released_counts(_scaled(epsilon, "replace-row", everything=less), replaced=True, delta=DELTA)
    return replace(pair, trials=round(100_000 / min(1.0, epsilon) ** 2))  # root 2 too little noise is hard to see


@broken_copy("learner:private-fair/float-noise")
def float_noise(epsilon: float) -> AuditPair:
    """Counts get textbook Gaussian noise in floating point: its low bits say which count they were added to."""
    sigma = _private_fair(epsilon).plan(2).zone_sigma

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        return (1.0 - world) + rng.normal(0.0, sigma, trials)

    return AuditPair(run, "one person is there or not", "a noisy count", epsilon, DELTA, trials=100_000)


@broken_copy("learner:private-fair/bins-from-the-data")
def bins_from_the_data(epsilon: float) -> AuditPair:
    """The encoding's bins span the range of the rows themselves; one person with a large value moves them all."""

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        learner = _private_fair(epsilon)
        values = np.linspace(0, 1, 60)
        values = np.append(values, 8.0) if world == 0 else values
        cell = np.minimum((values / values.max() * 8).astype(int), 7)  # the mistake
        plan = learner.plan(2)
        rows = np.concatenate([np.eye(8)[cell], np.ones((len(cell), 1))], axis=1)
        signs = np.where(values > 0.5, 1.0, -1.0)
        weights = plan.perturbation(61, 9).release(rows, signs, noise, copies=trials)
        # with edges of its own the crowd is in one bin or in eight: the weights and the published edges both tell
        return np.concatenate([np.full((trials, 1), values.max()), weights], axis=1)

    return AuditPair(
        run, "one person's value is the largest or not there", "edges and weights", epsilon, DELTA, trials=FITS
    )


@broken_copy("learner:private-fair/raw-gap-in-an-attribute")
def raw_gap_in_an_attribute(epsilon: float) -> AuditPair:
    """The training gap is computed from the rows and handed out beside the private rule."""
    return _fitted(epsilon, _raw_gap)


@broken_copy("learner:private-fair/early-stop-on-a-raw-gap")
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
    learner = _private_fair(epsilon)

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        people = fitted_crowd(learner, world)
        made = [learner.estimator(noise, rng) for _ in range(trials)]
        return np.array([tell(m.fit(people[0], people[1], sensitive_features=people[2]), people) for m in made])

    return AuditPair(run, "one of 61 people is there or not", "what is told about the fit", epsilon, DELTA, trials=FITS)
