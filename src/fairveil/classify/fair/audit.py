"""Neighbouring worlds for audits of `private-fair`: its counts, its score, and the whole fit.

All three run the functions that serve people. For the counts the crowd is repeated once for every trial, each copy with
groups of its own, so that one release of the served function is one release a trial.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairveil.classify.fair.accounting import Plan
from fairveil.classify.fair.auditor import release_audit
from fairveil.classify.fair.learner import PrivateFair
from fairveil.classify.fair.report import release_report
from fairveil.classify.fair.zones import release_zones
from fairveil.fairness.counting import Counter
from fairveil.privacy.audit import AuditPair
from fairveil.privacy.audit.bounds import FinerClaim
from fairveil.privacy.conversions import GRID_CONSTANT, zcdp_epsilon
from fairveil.privacy.noise import Noise
from fairveil.randomness import Generator
from fairveil.registry import register

Floats = NDArray[np.float64]
ROUNDS = 20
CROWD = 60
TILT = 0.25
GROUPS = ("a", "b")


@register("audit-pair", "learner:private-fair/counts")
def counts_pair(learner: PrivateFair) -> AuditPair:
    """All counts of one fit against their mu: zones, ROUNDS audits, report; the likelihood ratio is one column."""
    plan = replace(learner, rounds=ROUNDS).plan(len(GROUPS))
    return released_counts(plan, learner.neighbours == "replace-row", learner.delta)


def released_counts(plan: Plan, replaced: bool, delta: float) -> AuditPair:
    """One person is there or not, or in another cell altogether; everybody else's counts are known."""
    plays = plan.rounds - plan.rounds // 2
    draws = [(12, plan.zone_sigma), (8 * plan.rounds, plan.audit_sigma), (8, plan.report_sigma(plays))]
    distance = sum(count * GRID_CONSTANT / sigma**2 for count, sigma in draws)
    mu = plan.mu * (math.sqrt(2) if replaced else 1.0)

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        score, labels, groups, accepted = _person(world, replaced)
        index = (groups + 2 * np.arange(trials)[:, None]).ravel()
        score, labels, accepted = np.tile(score, trials), np.tile(labels, trials), np.tile(accepted, trials)
        zones = release_zones(score, labels, index, 2 * trials, plan.zone_sigma, noise).counts
        counter = Counter(index, labels, 2 * trials)
        audits = sum(release_audit(counter, accepted, plan.audit_sigma, noise) for _ in range(plan.rounds))
        report = release_report(counter, plays * accepted, plays, plan.report_sigma(plays), noise) * plays
        shape = (trials, 2, 2, -1)
        parts = [
            np.asarray(zones, np.float64).reshape(shape) / plan.zone_sigma**2,
            np.asarray(audits).reshape(shape) / plan.audit_sigma**2,
            np.asarray(report).reshape(shape) * plays / plan.report_sigma(plays) ** 2,
        ]
        where = [((0, 1, 1), (1, 0, 0)), ((0, 1, 1), (1, 0, 0)), ((0, 1, 1), (1, 0, 0))]
        here = np.stack([part[:, *place[0]] for part, place in zip(parts, where, strict=True)], axis=1)
        there = np.stack([part[:, *place[1]] for part, place in zip(parts, where, strict=True)], axis=1)
        loss = here - there if replaced else here
        return np.concatenate([loss.sum(axis=1, keepdims=True), loss], axis=1)

    worlds = "one person is in one cell or another" if replaced else "one person is there or not"
    epsilon = zcdp_epsilon(mu * mu / 2, delta)
    claim = FinerClaim("mu", mu, distance)
    return AuditPair(run, worlds, "log likelihood ratio of all counts", epsilon, delta, claim, trials=30_000)


def _person(world: int, replaced: bool) -> tuple[Floats, NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Two bystanders and the person: a positive of group 0 around the threshold, accepted."""
    score, labels, groups = np.array([0.9, 0.1, 0.5]), np.array([1, 0, 1]), np.array([1, 0, 0])
    accepted = np.array([True, False, True])
    if world == 0:
        return score, labels, groups, accepted
    if replaced:
        return np.array([0.9, 0.1, 0.2]), np.array([1, 0, 0]), np.array([1, 0, 1]), np.array([True, False, False])
    return score[:2], labels[:2], groups[:2], accepted[:2]


@register("audit-pair", "learner:private-fair/score")
def score_pair(learner: PrivateFair) -> AuditPair:
    """The private weights alone, against what the score costs: one row turned against the crowd is there or not."""
    plan = learner.plan(len(GROUPS))
    made = plan.perturbation(CROWD + 1, 3)

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        rows, signs = _turned(learner.bound_of_features, world)
        return made.release(rows, signs, noise, copies=trials)[:, 1]

    epsilon = plan.score_epsilon()
    return AuditPair(
        run, f"one of {CROWD + 1} rows is there or not", "the second weight", epsilon, learner.delta, trials=4_000
    )


def _turned(reach: float, world: int) -> tuple[Floats, Floats]:
    features = np.zeros((CROWD + 1, 2))
    features[:CROWD, 0] = reach * np.where(np.arange(CROWD) % 2, -1.0, 1.0)
    signs = np.where(np.arange(CROWD + 1) % 2, -1.0, 1.0)
    features[CROWD], signs[CROWD] = [-reach * np.sin(TILT), reach * np.cos(TILT)], 1.0
    rows = np.concatenate([features, np.ones((CROWD + 1, 1))], axis=1)
    return (rows, signs) if world == 0 else (rows[:CROWD], signs[:CROWD])


@register("audit-pair", "learner:private-fair")
def fit_pair(learner: PrivateFair) -> AuditPair:
    """Everything that a fit hands out, on a crowd in which one person weighs as much as possible."""
    fixed = replace(
        learner, rounds=ROUNDS, rows=CROWD + 1, most_rows=CROWD + 1, groups=GROUPS,
        norm_bound=learner.bound_of_features,
    )  # fmt: skip

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        features, labels, groups = fitted_crowd(fixed, world)
        found = [handed_out(fixed.estimator(noise, rng), features, labels, groups) for _ in range(trials)]
        return np.array(found)

    replaced = learner.neighbours == "replace-row"
    worlds = f"one of {CROWD + 1} people is {'another' if replaced else 'there or not'}"
    return AuditPair(run, worlds, "weights, multipliers and report", learner.epsilon, learner.delta, trials=120)


def fitted_crowd(learner: PrivateFair, world: int) -> tuple[Floats, NDArray[np.int64], NDArray[Any]]:
    """The person is the only positive of their group and turned against the crowd; world 1 leaves them out."""
    reach = learner.bound_of_features
    features = np.zeros((CROWD + 1, 2))
    features[:CROWD, 0] = reach * np.where(np.arange(CROWD) % 2, -1.0, 1.0)
    labels = (np.arange(CROWD + 1) % 2 == 0).astype(np.int64)
    groups = np.where(np.arange(CROWD + 1) < 3 * CROWD // 4, GROUPS[0], GROUPS[1])
    labels[groups == GROUPS[1]] = 0
    features[CROWD], labels[CROWD] = [-reach * np.sin(TILT), reach * np.cos(TILT)], 1
    if world == 0:
        return features, labels, groups
    if learner.neighbours == "replace-row":
        features[CROWD], labels[CROWD], groups[CROWD] = -features[CROWD], 0, GROUPS[0]
        return features, labels, groups
    return features[:CROWD], labels[:CROWD], groups[:CROWD]


def handed_out(model: Any, features: Floats, labels: NDArray[np.int64], groups: NDArray[Any]) -> Floats:
    """What an observer of one fit sees, as numbers."""
    model.fit(features, labels, sensitive_features=groups)
    seen = [*model.coef_[0], *model.intercept_, *np.resize(model.multipliers_, 4), model.error_, len(model.plays_)]
    for name in GROUPS:
        seen += [model.report_["by_group"][name][key] for key in ("count", "positives", "true_positive_high")]
    return np.array(seen, np.float64)
