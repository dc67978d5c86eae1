"""Neighbouring worlds for audits of the private learners: one row turned against the crowd.

For `private-fair`: its counts, its score and the whole fit, by the functions that serve people. For the counts the
crowd is repeated once for every trial, each copy with groups of its own, so that one release of the served function is
one release a trial.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from fairveil.arrays import Bools, Floats, Ints
from fairveil.classify.fair.accounting import Plan
from fairveil.classify.fair.auditor import release_audit
from fairveil.classify.fair.learner import PrivateFair
from fairveil.classify.fair.zones import release_report, release_zones
from fairveil.classify.learners import PrivateLogistic
from fairveil.fairness.groups import Counter
from fairveil.privacy.calibration.fits import GRID_SIGMA, MAX_WIDTH, fit_mu, objective_delta
from fairveil.privacy.conversions import GRID_CONSTANT, zcdp_epsilon
from fairveil.privacy.noise import Noise
from fairveil.proof import AuditPair
from fairveil.proof.engine.bounds import CurveClaim, FinerClaim
from fairveil.proof.pairs import each
from fairveil.randomness import Generator
from fairveil.registry import register

CROWD = {"output": 4000, "objective": 60}
"""Rows that agree: they make the weights large, so that the row in question pulls with nearly its full norm.

Output perturbation solves once for all trials, objective perturbation once a trial.
"""
TILT = 0.25
EXCESS = 1e4
"""How much too long a row comes where clipping is part of what is audited."""
GROUP = 10
"""Equal rows that are taken out together where one row hides behind the slack of a curve."""
MANY = 100_000
"""Trials of the group, all solved at once."""


def agreeing(crowd: int, others: int, reach: float) -> tuple[Floats, Floats]:
    """Features and signs of a crowd whose first weight is large, with room for others at the end."""
    signs = np.where(np.arange(crowd + others) % 2, -1.0, 1.0)
    features = np.zeros((crowd + others, 2))
    features[:crowd, 0] = reach * signs[:crowd]
    return features, signs


def leaning(reach: float, side: float = 1.0) -> list[float]:
    """A row as long as rows may be that disagrees with the crowd, and points up or down."""
    return [-reach * float(np.sin(TILT)), side * reach * float(np.cos(TILT))]


def with_intercept(features: Floats) -> Floats:
    return np.concatenate([features, np.ones((len(features), 1))], axis=1)


def worlds(learner: PrivateLogistic, world: int, crowd: int) -> tuple[Floats, Floats]:
    """Rows (clipped, with intercept) and signs. The last row disagrees with the crowd and points up or down.

    World 1 replaces it by its mirror image, or leaves a zero row where the guarantee is for rows added or removed.
    """
    features, signs = agreeing(crowd, 1, learner.bound_of_features)
    features[crowd], signs[crowd] = leaning(learner.bound_of_features, -1.0 if world else 1.0), 1.0
    rows = with_intercept(features) if learner.intercept else features
    if world and removes(learner):
        rows[crowd] = 0.0
    return rows, signs


def removes(learner: PrivateLogistic) -> bool:
    """Whether neighbours are rows added or removed (else: replaced)."""
    return learner.neighbours == "zero-out-row"


@register("audit-pair", "learner:private-logistic")
def private_logistic_pair(learner: PrivateLogistic) -> AuditPair:
    """The weight along which the two worlds differ, from many fits on the same rows."""
    crowd = CROWD[learner.method]

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        rows, signs = worlds(learner, world, crowd)
        return learner.perturbation(len(rows), rows.shape[1]).release(rows, signs, noise, copies=trials)[:, 1]

    how = "removed" if removes(learner) else "replaced by its mirror image"
    delta = 0.0 if learner.definition == "pure" else learner.delta
    claim = None
    if learner.method == "output" and learner.definition == "gaussian":
        grid = MAX_WIDTH * GRID_CONSTANT / GRID_SIGMA**2
        claim = FinerClaim("mu", fit_mu(learner.epsilon, learner.delta, learner.fits), grid)
    worlds_in_words = f"one of {crowd + 1} rows is there or {how}"
    return AuditPair(run, worlds_in_words, "the second weight", learner.spent(1), delta, claim)


@register("audit-pair", "learner:private-logistic/fit")
def fit_pair(learner: PrivateLogistic) -> AuditPair:
    """Whole fits of the estimator that people use; the row in question comes far longer than its bound."""
    crowd = CROWD["objective"]
    known = [worlds(learner, world, crowd) for world in (0, 1)]

    def weights(world: int, noise: Noise, rng: Generator) -> list[float]:
        rows, signs = known[world]
        longer = np.where(np.arange(len(rows))[:, None] == crowd, EXCESS, 1.0) * rows
        model = learner.estimator(noise, rng).fit(longer[:, :2], (signs > 0).astype(int))
        return [*model.coef_[0], *model.intercept_]

    delta = 0.0 if learner.definition == "pure" else learner.delta
    words = f"one of {crowd + 1} rows, {EXCESS:g} times too long, points one way or the other (or is zero)"
    return AuditPair(each(weights), words, "weights", learner.spent(1), delta, trials=120)


@register("audit-pair", "learner:private-logistic/group")
def group_pair(learner: PrivateLogistic) -> AuditPair:
    """A group of people with the same row is there or taken out, against the curve of Gaussian objective noise.

    k equal rows move the noise in the objective by k L along one direction, and the log determinant by k times what one
    row does: the curve of `objective_delta` at k roots. What one row costs at epsilon 1 hides behind the curve's own
    slack; what a group costs does not. Other variants have the pair of one row, which is tight for them.
    """
    if (learner.method, learner.definition) != ("objective", "gaussian"):
        return private_logistic_pair(learner)
    crowd = CROWD["objective"]
    features, signs = agreeing(crowd, GROUP, learner.bound_of_features)
    features[crowd:, 0], signs[crowd:] = -learner.bound_of_features, 1.0  # against the crowd
    rows = with_intercept(features) if learner.intercept else features
    known = [rows, np.where(np.arange(crowd + GROUP)[:, None] < crowd, rows, 0.0)]
    made = learner.perturbation(*rows.shape)
    scale = made.noise_std(rows.shape[1]) * made.strength

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        weights = made.release(known[world], signs, noise, copies=trials)
        size = [(pull(each, signs, weights) + made.strength * weights) ** 2 for each in known]
        return (size[1] - size[0]).sum(axis=1) / (2 * scale**2)

    root = learner.bound * GROUP / scale
    claim = CurveClaim("root", root, lambda value, epsilon: objective_delta(value, spread, epsilon))
    spread = GROUP * made.jacobian + made.tail_epsilon
    words = f"{GROUP} equal rows of {crowd + GROUP} are there or not"
    epsilon = GROUP * made.epsilon
    delta = min(1.0 - 1e-9, GROUP * math.exp(epsilon - made.epsilon) * made.delta)
    return AuditPair(run, words, "log-likelihood ratio of the weights", epsilon, delta, claim, MANY)


def pull(rows: Floats, signs: Floats, weights: Floats) -> Floats:
    """Gradients of the loss of all rows, one for each vector of weights."""
    return -(expit(-(weights @ rows.T) * signs) * signs) @ rows


ROUNDS = 20
PEOPLE = 60
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
        here, there = (np.stack([part[:, *cell] for part in parts], axis=1) for cell in ((0, 1, 1), (1, 0, 0)))
        loss = here - there if replaced else here
        return np.concatenate([loss.sum(axis=1, keepdims=True), loss], axis=1)

    worlds = "one person is in one cell or another" if replaced else "one person is there or not"
    epsilon = zcdp_epsilon(mu * mu / 2, delta)
    claim = FinerClaim("mu", mu, distance)
    return AuditPair(run, worlds, "log likelihood ratio of all counts", epsilon, delta, claim, trials=30_000)


def _person(world: int, replaced: bool) -> tuple[Floats, Ints, Ints, Bools]:
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
    made = plan.perturbation(PEOPLE + 1, 3)

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        rows, signs = _turned(learner.bound_of_features, world)
        return made.release(rows, signs, noise, copies=trials)[:, 1]

    epsilon = plan.score_epsilon()
    return AuditPair(
        run, f"one of {PEOPLE + 1} rows is there or not", "the second weight", epsilon, learner.delta, trials=4_000
    )


def _turned(reach: float, world: int) -> tuple[Floats, Floats]:
    features, signs = agreeing(PEOPLE, 1, reach)
    features[PEOPLE], signs[PEOPLE] = leaning(reach), 1.0
    rows = with_intercept(features)
    return (rows, signs) if world == 0 else (rows[:PEOPLE], signs[:PEOPLE])


@register("audit-pair", "learner:private-fair")
def fair_fit_pair(learner: PrivateFair) -> AuditPair:
    """Everything that a fit hands out, on a crowd in which one person weighs as much as possible."""
    fixed = replace(
        learner, rounds=ROUNDS, rows=PEOPLE + 1, most_rows=PEOPLE + 1, groups=GROUPS,
        norm_bound=learner.bound_of_features,
    )  # fmt: skip

    def shown(world: int, noise: Noise, rng: Generator) -> Floats:
        return handed_out(fixed.estimator(noise, rng), *fitted_crowd(fixed, world))

    replaced = learner.neighbours == "replace-row"
    worlds = f"one of {PEOPLE + 1} people is {'another' if replaced else 'there or not'}"
    return AuditPair(each(shown), worlds, "weights, multipliers and report", learner.epsilon, learner.delta, trials=120)


def fitted_crowd(learner: PrivateFair, world: int) -> tuple[Floats, Ints, NDArray[Any]]:
    """The person is the only positive of their group and turned against the crowd; world 1 leaves them out."""
    features, signs = agreeing(PEOPLE, 1, learner.bound_of_features)
    labels = (signs > 0).astype(np.int64)
    groups = np.where(np.arange(PEOPLE + 1) < 3 * PEOPLE // 4, GROUPS[0], GROUPS[1])
    labels[groups == GROUPS[1]] = 0
    features[PEOPLE], labels[PEOPLE] = leaning(learner.bound_of_features), 1
    if world == 0:
        return features, labels, groups
    if learner.neighbours == "replace-row":
        features[PEOPLE], labels[PEOPLE], groups[PEOPLE] = -features[PEOPLE], 0, GROUPS[0]
        return features, labels, groups
    return features[:PEOPLE], labels[:PEOPLE], groups[:PEOPLE]


def handed_out(model: Any, features: Floats, labels: Ints, groups: NDArray[Any]) -> Floats:
    """What an observer of one fit sees, as numbers."""
    model.fit(features, labels, sensitive_features=groups)
    seen = [*model.coef_[0], *model.intercept_, *np.resize(model.multipliers_, 4), model.error_, len(model.plays_)]
    for name in GROUPS:
        seen += [model.report_["by_group"][name][key] for key in ("count", "positives", "true_positive_high")]
    return np.array(seen, np.float64)
