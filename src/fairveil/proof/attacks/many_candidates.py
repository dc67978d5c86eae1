"""One person at many places of a request: counted as one event, learned as many."""

from __future__ import annotations

import numpy as np

from fairveil.loop.config import read_spec
from fairveil.loop.keys import Keys
from fairveil.loop.problems import SubjectTwice
from fairveil.loop.requests import CandidateRequest, DecisionRequest, Preparer
from fairveil.privacy.mechanisms import Laplace
from fairveil.privacy.noise import SecureNoise
from fairveil.proof.attacks import Attack, guess_chance
from fairveil.randomness import Generator
from fairveil.registry import register

EPSILON, PLACES = 0.5, 20
SPEC = {
    "name": "queue",
    "policy": {"name": "batched-private-fair-greedy", "epsilon": EPSILON, "delta": 1e-6},
    "groups": ["all"],
    "features": [{"name": "x", "low": 0.0, "high": 1.0}],
    "person": {"max_events": 1},
}


@register("attack", "many-candidates")
class ManyCandidates(Attack):
    """Show one person at twenty places of one request; a limit of one event lets all twenty rows in.

    The twin counts requests a person and sums all rows of the request that it lets in.
    """

    game = "guess whether a person's feature is 0 or 1, from the noisy sum of a request"
    words = "one person at several places is refused, or every place counts in the promise"
    chance = guess_chance(EPSILON)
    games = 400

    def play(self, protected: bool, rng: Generator) -> bool:
        secret, places = int(rng.integers(2)), PLACES
        if protected:
            places = _admitted([float(secret)] * PLACES)
        rows = np.full(places, float(secret))
        shown = float(Laplace(sensitivity=1.0, epsilon=EPSILON).release(float(rows.sum()), SecureNoise()))
        return int(shown > places / 2) == secret


def _admitted(features: list[float]) -> int:
    """How many places of one person the service lets into a request."""
    prepare = Preparer(read_spec(SPEC), None, Keys(bytes(32)))
    for places in range(len(features), 0, -1):
        shown = [CandidateRequest(features=[one], subject="one") for one in features[:places]]
        try:
            prepare(DecisionRequest(event_id="e", candidates=shown))
        except SubjectTwice:
            continue
        return places
    return 0
