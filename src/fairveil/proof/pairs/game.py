"""Neighbouring worlds for audits of the paper's learners, sound and printed."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from fairveil.arrays import Bools, Floats, Ints
from fairveil.classify.game.exponential import SIZE_SHARE, Game, Printed, Sound
from fairveil.classify.game.ftpl import FollowPerturbedLeader
from fairveil.classify.game.learners import ExponentialFair, PrivateFairNR, PrivateGame
from fairveil.privacy.conversions import zcdp_epsilon
from fairveil.privacy.noise import Noise
from fairveil.proof import AuditPair
from fairveil.proof.engine.bounds import FinerClaim
from fairveil.proof.pairs import each
from fairveil.randomness import Generator
from fairveil.registry import register

TINY = 1e-6
"""A multiplier that leaves the errors alone to decide."""


@register("audit-pair", "learner:exponential-fair")
def exponential_pair(learner: ExponentialFair) -> AuditPair:
    """The worlds of its variant."""
    return {"sound": sound_pair, "printed": printed_pair}[learner.variant](learner)


def sound_pair(learner: ExponentialFair) -> AuditPair:
    """Noisy sizes and the pick, on few people: one positive of a small group is there or not (or replaced)."""
    replaced = learner.neighbours == "replace-row"
    sound = Sound(learner.pick_epsilon, learner.weight, replaced)
    rows = 12

    def picked(world: int, noise: Noise, rng: Generator) -> list[float]:
        table, people = _few(world, replaced)
        chosen, sizes = sound.pick(table, people, rows, noise)
        return [chosen, *sizes]

    how = "replaced" if replaced else "there or not"
    return AuditPair(
        each(picked), f"one of {rows} people is {how}", "pick and noisy sizes", learner.pick_epsilon, trials=1_500
    )


@register("audit-pair", "learner:exponential-fair/fit")
def exponential_fit_pair(learner: ExponentialFair) -> AuditPair:
    """The rule that a whole fit picks, on few people: one of them is there or is somebody else."""
    stumps = replace(learner, hypotheses="stumps", attributes=None)

    def picked(world: int, noise: Noise, rng: Generator) -> float:
        features, labels = np.zeros((12, 1)), np.arange(12) % 2
        features[:6] = 1.0
        features[0], labels[0] = float(world), world
        groups = np.array(["a", "b"] * 6)
        return float(stumps.estimator(noise, rng).fit(features, labels, sensitive_features=groups).plays_[0])

    # One person replaced is one taken out and one put in.
    epsilon = stumps.pick_epsilon * (1 if learner.neighbours == "replace-row" else 2)
    return AuditPair(each(picked), "one of 12 people is another", "the pick", epsilon, trials=120)


@register("audit-pair", "learner:exponential-fair/sizes")
def sizes_pair(learner: ExponentialFair) -> AuditPair:
    """The noisy sizes alone against their part of the budget; many groups side by side are many trials."""
    return released_sizes(learner, 2 if learner.neighbours == "replace-row" else 1)


def released_sizes(learner: ExponentialFair, sensitivity: int) -> AuditPair:
    """``sensitivity`` is what the noise is made for; the claim is the learner's."""
    replaced = learner.neighbours == "replace-row"
    made = Sound(learner.pick_epsilon, learner.weight, sensitivity == 2)

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        positives = np.array([[50, 40], [49, 41 if replaced else 40]][world], np.int64)
        return made.sizes(np.tile(positives, trials), noise).reshape(trials, 2).astype(np.float64)

    worlds = "one positive is in one group or the other" if replaced else "one positive is there or not"
    return AuditPair(run, worlds, "noisy sizes", SIZE_SHARE * learner.pick_epsilon, trials=100_000)


def _few(world: int, replaced: bool) -> tuple[Floats, Floats]:
    """Two rules; group 0 has two positives, one of whom decides which rule is fair."""
    people = np.array([[4.0, 2.0], [4.0, 2.0]])
    table = np.array([[[0.0, 2.0], [0.0, 2.0]], [[4.0, 2.0], [4.0, 1.0]]])
    if world == 1:
        people[0, 1] -= 1
        table[:, 0, 1] -= 1
        if replaced:
            people[1, 1] += 1
            table[1, 1, 1] += 1
    return table, people


def printed_pair(learner: ExponentialFair) -> AuditPair:
    """Algorithm 1 where the smaller group has two positives, one of them replaced: n = 1000, claimed 2 eps."""
    printed, rows = Printed(learner.epsilon, learner.weight), 1000

    def picked(world: int, noise: Noise, rng: Generator) -> int:
        people = np.array([[300.0, 2.0], [398.0, 300.0]])
        # h1 accepts everybody with label 1 (world 1: but for one of the two), h2 does the same in both worlds
        table = np.array([[[0.0, 2.0 - world], [0.0, 300.0]], [[0.0, 2.0], [0.0, 300.0]]])
        table[:, 0, 0] = [world, 0.0]
        return int(printed.pick(table, people, rows, noise)[0])

    delta = math.exp(-math.sqrt(rows))
    return AuditPair(each(picked), "one of two positives is replaced", "the pick", learner.epsilon, delta, trials=4_000)


@register("audit-pair", "learner:private-game")
def game_pair(learner: PrivateGame) -> AuditPair:
    """The second play of a game of two rounds, against what it costs: one person errs under one rule or the other.

    The multiplier is small, so that nearly all of what a person may change is in the errors; the game has the whole
    budget (where it shares it with a private score, seconds would not show half of its noise).
    """
    game = Game(2, TINY, replace(learner, hypotheses="stumps").rho, 2)
    people, members = np.array([[1.0, 0.0], [1.0, 0.0]]), np.eye(2, dtype=bool)

    def played(world: int, noise: Noise, rng: Generator) -> int:
        table = np.array([[[1.0 - world, 0.0], [0.0, 0.0]], [[float(world), 0.0], [0.0, 0.0]]])
        return int(game.play(table, people, members, noise)[1])

    epsilon = game.learner(1).epsilon
    claim = FinerClaim("rho", epsilon**2 / 8)
    return AuditPair(each(played), "one of 2 people is another", "the second play", epsilon, finer=claim, trials=40_000)


@register("audit-pair", "learner:private-game/fit")
def game_fit_pair(learner: PrivateGame) -> AuditPair:
    """The plays of a whole fit, on few people: one negative is where the first rule accepts, or where none does."""
    short = replace(learner, rounds=6, hypotheses="stumps", attributes=None)

    def played(world: int, noise: Noise, rng: Generator) -> Ints:
        features, labels = np.zeros((8, 1)), np.zeros(8, np.int64)
        features[:2], features[4:6], features[2] = 1.0, 1.0, float(world)
        groups = np.array(["a"] * 4 + ["b"] * 4)
        model = short.estimator(noise, rng).fit(features, labels, sensitive_features=groups)
        return np.bincount(np.repeat(model.plays_, np.rint(6 * model.weights_).astype(int)), minlength=4)

    epsilon, claim = zcdp_epsilon(short.rho, learner.delta), FinerClaim("rho", short.rho)
    return AuditPair(each(played), "one of 8 people is another", "plays", epsilon, learner.delta, claim, trials=100)


@register("audit-pair", "learner:private-game/auditor")
def auditor_pair(learner: PrivateGame) -> AuditPair:
    """The auditor of a game of one round, where one person makes a small group the worst or the best treated."""
    game = Game(1, learner.bound, learner.rho, 41)

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        from fairveil.classify.game.hypotheses import violations

        people = np.array([[1.0, 0.0], [40.0, 0.0]])
        table = np.array([[[1.0 - world, 0.0], [20.0, 0.0]]])
        signed = violations(table, people, np.eye(2, dtype=bool), game.rows)[0]
        scores = game.bound * np.concatenate([[0.0], signed, -signed])
        return game.auditor().releases(scores, noise, trials).astype(np.float64)

    epsilon = game.auditor_epsilon
    claim = FinerClaim("rho", epsilon**2 / 8)
    return AuditPair(
        run, "one of 41 people is another", "the subgroup that is picked", epsilon, finer=claim, trials=400_000
    )


@register("audit-pair", "learner:private-fair-nr")
def features_pair(learner: PrivateFairNR) -> AuditPair:
    """Two rules that differ at one feature; one record is at that feature or elsewhere: is the first ever chosen?"""

    def rule(world: int, noise: Noise, rng: Generator) -> float:
        from fairveil.classify.game.no_regret import PrivateFairNRClassifier, TheoryWarning

        features = np.zeros((8, 1))
        features[0] = 1.0 - world
        labels, groups = np.arange(8) % 2, np.array(["a", "b"] * 4)
        keys: dict[str, Any] = {"delta": learner.delta, "rounds": 1, "plays": 1, "oracle": _AtFeature()}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TheoryWarning)
            model = PrivateFairNRClassifier(learner.epsilon, noise=noise, **keys)
            return float(model.fit(features, labels, sensitive_features=groups).plays_[0])

    worlds = "one record is at the feature or elsewhere"
    return AuditPair(each(rule), worlds, "the rule", learner.epsilon, learner.delta, trials=400)


class _AtFeature:
    """Rule 0 accepts nobody, rule 1 accepts whoever has the feature."""

    size = 2

    def accepts(self, features: Floats, groups: Ints, chosen: Ints) -> Bools:
        return (features[:, 0] > 0.5)[None, :] & (chosen == 1)[:, None]


def leader_pair(leader: FollowPerturbedLeader) -> AuditPair:
    """A class that shows the sign of one coordinate; that person's loss is 1/2 or -1/2 in every round."""

    def played(world: int, noise: Noise, rng: Generator) -> list[float]:
        state, seen = leader.start(), list[float]()
        for _ in range(leader.rounds):
            state = leader.observe(state, [(0.5 - world) * leader.sensitivity], noise)
            seen.append(leader.play(state, noise))
        return [sum(place * one for place, one in enumerate(seen, 1)), *seen]

    return AuditPair(each(played), "one person's losses are 1/2 or -1/2", "plays", leader.epsilon, leader.delta)
