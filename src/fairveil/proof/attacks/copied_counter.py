"""A counter that is copied with what it counts: every copy begins where the original stood."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np

from fairveil.privacy import tally
from fairveil.privacy.tally import Fit, Tally
from fairveil.proof.attacks import Attack
from fairveil.proof.mutants import method, together
from fairveil.randomness import Generator
from fairveil.registry import register

EPSILON, FITS = 1.0, 5


@register("attack", "copied-counter")
class CopiedCounter(Attack):
    """Fit pickled copies of a private estimator on the same people, as a search with several processes does.

    The twin's counter travels with each copy, as any attribute would. Copies are sent to processes of their own half
    of the time; the others stay here.
    """

    game = "have five fits on the same people, and an estimator that says epsilon 1, established"
    words = "copies share one counter, through a file where they left the process, and what was pickled says so"
    games = 20
    chance = 0.0

    def play(self, protected: bool, rng: Generator) -> bool:
        from fairveil.classify.estimator import PrivateLogisticRegression

        rows, labels = rng.normal(size=(40, 2)) / 3, np.arange(40) % 2
        model: Any = PrivateLogisticRegression(EPSILON, classes=(0, 1))
        broken = method(Tally, "__reduce__", _own)
        with warnings.catch_warnings(), together() if protected else broken:
            warnings.simplefilter("ignore")
            for _ in range(FITS - 1):
                stored = pickle.dumps(model)
                if rng.random() < 0.5:  # unpickled where its counter does not live, as in another process
                    tally._LIVE.pop(model._tally.name, None)
                pickle.loads(stored).fit(rows, labels)
            promise = model.fit(rows, labels).guarantee_
        return bool(promise.established and promise.epsilon <= EPSILON)


def _own(original: Any) -> Any:
    """A copy counts for itself, from where the original stood."""
    return lambda self, *memo: (_apart, (list(self.fits),))


def _apart(fits: list[Fit]) -> Tally:
    return Tally(fits=fits)
