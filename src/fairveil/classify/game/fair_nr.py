"""FairNR of Kearns, Neel, Roth and Wu (2018), and Private-FairNR as printed (Algorithm 3 of Cummings et al. 2019).

The learner follows the perturbed leader: an oracle's answer to cumulative costs plus fresh noise, m plays a round. The
auditor answers with the worst signed subgroup of the round's plays if its violation is above alpha. The rule is the
uniform mixture of all plays. The printed private form only changes the noise to Laplace, of scale
(2+C)/n sqrt(m T ln(1/delta))/eps; features, sums of costs and the auditor's exact rates are not protected by it, so its
claim is not established.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairveil.classify.game.oracles import Oracle
from fairveil.fairness.counting import Counter
from fairveil.privacy.noise import GRID_BITS, Noise
from fairveil.randomness import Generator

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Play:
    """Public numbers of the game: T rounds of m plays, dual bound C, tolerated violation alpha."""

    rounds: int
    plays: int
    bound: float
    alpha: float


@dataclass(frozen=True)
class UniformNoise:
    """Perturbation of FairNR: uniform of width 2 sqrt(T)/n around zero. Protects nothing."""

    width: float
    rng: Generator

    def draw(self, rows: int, plays: int) -> Floats:
        return self.width * (self.rng.random((rows, plays)) - 0.5)


@dataclass(frozen=True)
class LaplaceNoise:
    """Perturbation as printed: Laplace of the stated scale, on a grid."""

    scale: float
    noise: Noise

    def draw(self, rows: int, plays: int) -> Floats:
        bits = GRID_BITS - math.floor(math.log2(self.scale))
        drawn = self.noise.laplace(math.ldexp(self.scale, bits), rows * plays)
        return np.ldexp(drawn.astype(np.float64), -bits).reshape(rows, plays)


def printed_scale(rows: int, game: Play, epsilon: float, delta: float) -> float:
    """1/eps' of Algorithm 3."""
    spread = (2 + game.bound) / rows
    return spread * math.sqrt(game.plays * game.rounds * math.log(1 / delta)) / epsilon


def run_game(
    oracle: Oracle, rows: Floats, cells: Ints, counter: Counter, labels: Ints, members: NDArray[np.bool_], game: Play,
    perturb: UniformNoise | LaplaceNoise,
) -> tuple[list[Any], float]:  # fmt: skip
    """All plays, and the violation of their mixture on these rows. O(rounds x plays x rows x columns)."""
    count, people = len(labels), counter.people
    negatives = people[:, 0] / max(float(people[:, 0].sum()), 1.0)
    shares = members @ negatives  # Pr[g | y = 0]
    base = np.where(labels == 1, -1.0, 1.0) / count
    cost = np.zeros(count)
    found: list[Any] = []
    accepted = np.zeros(count)
    dual, sign = -1, 1.0
    for _ in range(game.rounds):
        cost += base
        if dual >= 0:  # accepting a negative raises FP by 1/N_0 overall and FP_g only inside g
            step = sign * game.bound / count * (shares[dual] - members[dual])
            cost += np.where(labels == 0, step[cells], 0.0)
        plays = oracle.best(cost[:, None] + perturb.draw(count, game.plays))
        voted = oracle.accepts(plays, rows).sum(axis=1).astype(np.float64)
        found += plays
        accepted += voted
        signed = signed_violations(counter, voted / game.plays, members)
        dual = int(np.argmax(np.abs(signed)))
        sign = math.copysign(1.0, float(signed[dual]))
        if abs(float(signed[dual])) <= game.alpha:
            dual = -1
    mixture = signed_violations(counter, accepted / (game.rounds * game.plays), members)
    return found, float(np.abs(mixture).max())


def signed_violations(counter: Counter, chance: Floats, members: NDArray[np.bool_]) -> Floats:
    """A_g (FP - FP_g) of every subgroup."""
    counted = counter.count(chance)
    negatives, alarms = counted[:, 0].sum(axis=1), counted[:, 0, 1]
    overall = alarms.sum() / max(float(negatives.sum()), 1.0)
    return members @ (negatives * overall - alarms) / max(float(counted.sum()), 1.0)
