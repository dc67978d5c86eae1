"""Membership inference (Shokri et al. 2017; Yeom et al. 2018): a model is surer of people it was trained on."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

from fairveil.proof.attacks import Attack, guess_chance
from fairveil.randomness import Generator
from fairveil.registry import register

EPSILON = 1.0
ROWS, COLUMNS = 60, 200


@register("attack", "membership")
class Membership(Attack):
    """Train on sixty people, look at the model's loss on one more or on one of them, and say which it was.

    The threshold of the loss is the attacker's best, learned on models of other people.
    """

    game = "tell whether a person was in the training data"
    words = "private-logistic draws its weights so that one row hardly moves their distribution"
    chance = guess_chance(EPSILON)
    games = 200

    def play(self, protected: bool, rng: Generator) -> bool:
        threshold = self._threshold(protected, rng)
        return self._member(protected, rng, threshold)

    def _threshold(self, protected: bool, rng: Generator) -> float:
        """The loss that best separates members from others on models of other people."""
        losses = [self._losses(protected, rng) for _ in range(2)]
        inside = np.concatenate([pair[0] for pair in losses])
        outside = np.concatenate([pair[1] for pair in losses])
        cuts = np.sort(np.concatenate([inside, outside]))
        told = [np.mean(inside < cut) + np.mean(outside >= cut) for cut in cuts]
        return float(cuts[int(np.argmax(told))])

    def _member(self, protected: bool, rng: Generator, threshold: float) -> bool:
        inside, outside = self._losses(protected, rng)
        member = bool(rng.integers(2))
        loss = float((inside if member else outside)[0])
        return (loss < threshold) == member

    def _losses(self, protected: bool, rng: Generator) -> tuple[np.ndarray, np.ndarray]:
        x = rng.normal(size=(2 * ROWS, COLUMNS))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        y = (rng.random(2 * ROWS) < 0.5).astype(int)
        scores = _fit(protected, x[:ROWS], y[:ROWS], rng)(x)
        loss = np.logaddexp(0.0, -(2 * y - 1) * scores)
        return loss[:ROWS], loss[ROWS:]


def _fit(protected: bool, x: np.ndarray, y: np.ndarray, rng: Generator) -> Callable[[np.ndarray], np.ndarray]:
    """Scores of a model that was fitted to these people."""
    if protected:
        from fairveil.classify.estimator import PrivateLogisticRegression

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = PrivateLogisticRegression(epsilon=EPSILON, classes=(0, 1), rows=ROWS).fit(x, y)
        return model.decision_function
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=1e4, max_iter=2000).fit(x, y).decision_function
