"""Random: uniform among the arms, or among the candidates that are shown; nothing is learned."""

import numpy as np
import pytest

from fairveil.bandits.protocol import Candidate, Feedback, Round
from fairveil.bandits.random import Random
from fairveil.errors import SpecError
from fairveil.randomness import generator

DRAWS = 12_000


@pytest.mark.parametrize("shown", [0, 3])
def test_every_option_is_as_likely_as_the_others(shown):
    options, rng = shown or 4, generator(1)
    asked = Round(0, tuple(Candidate(0, np.zeros(1)) for _ in range(shown)))
    decisions = [Random(arms=4).decide({}, asked, rng) for _ in range(DRAWS)]
    shares = np.bincount([decision.arm for decision in decisions], minlength=options) / DRAWS
    # Four standard errors of a share of 12,000 draws are at most .0172.
    np.testing.assert_allclose(shares, np.full(options, 1 / options), atol=0.0172)
    assert decisions[0].probabilities.tolist() == [decisions[0].propensity] * options == [1 / options] * options


def test_nothing_is_learned_promised_or_guessed():
    policy = Random(arms=2)
    assert policy.learn(policy.start(), Feedback(0, 1, 1.0)) == {}
    assert policy.guarantee() is None
    with pytest.raises(SpecError, match="number of arms"):
        Random().decide({}, Round(0), generator(1))
