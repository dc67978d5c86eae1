"""The fairness game over a finite class, with both players private: the sound small-T form of Algorithm 3.

n Phi(h, g) = N_g0 N_h0/N_0 - N_hg0 changes by less than one when a row is replaced or taken out, so the payoff
U(h, lambda) = err(h) + C (signed Phi) changes by at most (1 + C)/n. The learner draws h_t with weight
exp(-eta sum of U so far), an exponential mechanism with eps_t = 2 eta (t-1) (1+C)/n; the auditor picks the worst signed
subgroup, or nobody, by an exponential mechanism with score sensitivity C/n. Each pick of parameter eps costs eps^2/8 in
zCDP, so half of rho to each player gives eta = sqrt(3 rho) n/((1+C) T^1.5) and eps_A = sqrt(4 rho/T).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fairveil.arrays import Bools, Floats, Ints
from fairveil.classify.game.hypotheses import errors, violations
from fairveil.privacy.mechanisms import Exponential
from fairveil.privacy.noise import Noise

_UP = 1 + 1e-9


@lru_cache(maxsize=1024)
def _pick(sensitivity: float, epsilon: float) -> Exponential:
    """One mechanism a round: its grid is worked out once."""
    return Exponential(sensitivity=sensitivity, epsilon=epsilon)


@dataclass(frozen=True)
class Game:
    """``rounds`` T, ``bound`` C, ``rho`` of both players together, and the public number of rows."""

    rounds: int
    bound: float
    rho: float
    rows: int

    @property
    def rate(self) -> float:
        """eta: how fast the learner's weights move."""
        return math.sqrt(3 * self.rho) * self.rows / ((1 + self.bound) * self.rounds**1.5)

    @property
    def auditor_epsilon(self) -> float:
        return math.sqrt(4 * self.rho / self.rounds)

    def cost(self) -> float:
        """zCDP of all picks; at most rho."""
        steps = [2 * self.rate * t * (1 + self.bound) / self.rows for t in range(1, self.rounds)]
        return sum(step**2 for step in steps) / 8 + self.rounds * self.auditor_epsilon**2 / 8

    def auditor(self) -> Exponential:
        return _pick(self.bound / self.rows * _UP, self.auditor_epsilon)

    def learner(self, played: int) -> Exponential:
        """After ``played`` rounds the sum of payoffs changes by at most played (1 + C)/n."""
        spread = played * (1 + self.bound) / self.rows
        return _pick(spread * _UP, 2 * self.rate * spread)

    def play(self, table: Floats, people: Floats, members: Bools, noise: Noise) -> Ints:
        """The hypotheses of all rounds; the rule is their uniform mixture. O(rounds x hypotheses x subgroups)."""
        error = errors(table, people) / self.rows
        signed = violations(table, people, members, self.rows)
        both = np.concatenate([signed, -signed], axis=1)
        payoff = np.zeros(len(table))
        plays = np.empty(self.rounds, np.int64)
        auditor = self.auditor()
        for t in range(self.rounds):
            uniform = noise.uniform_integers(len(table))[0] if t == 0 else None
            plays[t] = uniform if uniform is not None else self.learner(t).release(-payoff, noise)
            scores = self.bound * np.concatenate([[0.0], both[plays[t]]])
            worst = int(auditor.release(scores, noise))
            payoff += error + (self.bound * both[:, worst - 1] if worst > 0 else 0.0)
        return plays
