"""Neighbouring worlds for audits of the paper's learners, sound and printed."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import numpy as np

from fairveil.arrays import Bools, Floats, Ints
from fairveil.classify.game.exponential import SIZE_SHARE, Game, Printed, Sound
from fairveil.classify.game.ftpl import FollowPerturbedLeader
from fairveil.classify.game.learners import ExponentialFair, PrivateFairNR, PrivateGame
from fairveil.privacy.conversions import zcdp_epsilon
from fairveil.privacy.noise import Noise
from fairveil.proof import AuditPair
from fairveil.proof.engine.bounds import FinerClaim
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

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        table, people = _few(world, replaced)
        picks = [sound.pick(table, people, rows, noise) for _ in range(trials)]
        return np.array([[chosen, *sizes] for chosen, sizes in picks], np.float64)

    how = "replaced" if replaced else "there or not"
    return AuditPair(run, f"one of {rows} people is {how}", "pick and noisy sizes", learner.pick_epsilon, trials=1_500)


@register("audit-pair", "learner:exponential-fair/fit")
def exponential_fit_pair(learner: ExponentialFair) -> AuditPair:
    """The rule that a whole fit picks, on few people: one of them is there or is somebody else."""
    stumps = replace(learner, hypotheses="stumps", attributes=None)

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        features, labels = np.zeros((12, 1)), np.arange(12) % 2
        features[:6] = 1.0
        features[0], labels[0] = float(world), world
        groups = np.array(["a", "b"] * 6)
        fits = (stumps.estimator(noise, rng).fit(features, labels, sensitive_features=groups) for _ in range(trials))
        return np.array([model.plays_[0] for model in fits], np.float64)

    # One person replaced is one taken out and one put in.
    epsilon = stumps.pick_epsilon * (1 if learner.neighbours == "replace-row" else 2)
    return AuditPair(run, "one of 12 people is another", "the pick", epsilon, trials=120)


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

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        people = np.array([[300.0, 2.0], [398.0, 300.0]])
        # h1 accepts everybody with label 1 (world 1: but for one of the two), h2 does the same in both worlds
        table = np.array([[[0.0, 2.0 - world], [0.0, 300.0]], [[0.0, 2.0], [0.0, 300.0]]])
        table[:, 0, 0] = [world, 0.0]
        return np.array([printed.pick(table, people, rows, noise)[0] for _ in range(trials)], np.float64)

    delta = math.exp(-math.sqrt(rows))
    return AuditPair(run, "one of two positives is replaced", "the pick", learner.epsilon, delta, trials=4_000)


@register("audit-pair", "learner:private-game")
def game_pair(learner: PrivateGame) -> AuditPair:
    """The second play of a game of two rounds, against what it costs: one person errs under one rule or the other.

    The multiplier is small, so that nearly all of what a person may change is in the errors; the game has the whole
    budget (where it shares it with a private score, seconds would not show half of its noise).
    """
    game = Game(2, TINY, replace(learner, hypotheses="stumps").rho, 2)
    people, members = np.array([[1.0, 0.0], [1.0, 0.0]]), np.eye(2, dtype=bool)

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        table = np.array([[[1.0 - world, 0.0], [0.0, 0.0]], [[float(world), 0.0], [0.0, 0.0]]])
        return np.array([game.play(table, people, members, noise)[1] for _ in range(trials)], np.float64)

    epsilon = game.learner(1).epsilon
    claim = FinerClaim("rho", epsilon**2 / 8)
    return AuditPair(run, "one of 2 people is another", "the second play", epsilon, finer=claim, trials=40_000)


@register("audit-pair", "learner:private-game/fit")
def game_fit_pair(learner: PrivateGame) -> AuditPair:
    """The plays of a whole fit, on few people: one negative is where the first rule accepts, or where none does."""
    short = replace(learner, rounds=6, hypotheses="stumps", attributes=None)

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        features, labels = np.zeros((8, 1)), np.zeros(8, np.int64)
        features[:2], features[4:6], features[2] = 1.0, 1.0, float(world)
        groups = np.array(["a"] * 4 + ["b"] * 4)
        found = []
        for _ in range(trials):
            model = short.estimator(noise, rng).fit(features, labels, sensitive_features=groups)
            found.append(np.bincount(np.repeat(model.plays_, np.rint(6 * model.weights_).astype(int)), minlength=4))
        return np.array(found, np.float64)

    delta = learner.delta
    claim = FinerClaim("rho", short.rho)
    return AuditPair(
        run, "one of 8 people is another", "plays", zcdp_epsilon(short.rho, delta), delta, claim, trials=100
    )


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

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        from fairveil.classify.game.no_regret import PrivateFairNRClassifier, TheoryWarning

        features = np.zeros((8, 1))
        features[0] = 1.0 - world
        labels, groups = np.arange(8) % 2, np.array(["a", "b"] * 4)
        found = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TheoryWarning)
            for _ in range(trials):
                model = PrivateFairNRClassifier(
                    learner.epsilon, delta=learner.delta, rounds=1, plays=1, oracle=_AtFeature(), noise=noise
                )
                found.append(model.fit(features, labels, sensitive_features=groups).plays_[0])
        return np.array(found, np.float64)

    return AuditPair(
        run, "one record is at the feature or elsewhere", "the rule", learner.epsilon, learner.delta, trials=400
    )


class _AtFeature:
    """Rule 0 accepts nobody, rule 1 accepts whoever has the feature."""

    size = 2

    def accepts(self, features: Floats, groups: Ints, chosen: Ints) -> Bools:
        return (features[:, 0] > 0.5)[None, :] & (chosen == 1)[:, None]


def leader_pair(leader: FollowPerturbedLeader) -> AuditPair:
    """A class that shows the sign of one coordinate; that person's loss is 1/2 or -1/2 in every round."""

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        loss = [(0.5 - world) * leader.sensitivity]
        seen = np.empty((trials, leader.rounds))
        for trial in range(trials):
            state = leader.start()
            for t in range(leader.rounds):
                state = leader.observe(state, loss, noise)
                seen[trial, t] = leader.play(state, noise)
        return np.concatenate([(seen * np.arange(1, leader.rounds + 1)).sum(axis=1, keepdims=True), seen], axis=1)

    return AuditPair(run, "one person's losses are 1/2 or -1/2", "plays", leader.epsilon, leader.delta)
