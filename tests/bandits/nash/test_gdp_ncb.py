"""GDP-NCB: its formulas, its variants and its threshold phase."""

import math

import pytest

from fairveil import SeededNoise, registry
from fairveil.bandits.nash import gdp_ncb, gdp_ncb_figure, gdp_ncb_printed
from fairveil.bandits.nash.gdp_ncb import GdpNcb
from fairveil.bandits.protocol import Feedback, Round
from fairveil.errors import HorizonError, SpecError
from fairveil.randomness import generator


def test_a_lost_threshold_test_never_meets_the_same_rewards_again():
    policy = GdpNcb(arms=2, horizon=500, epsilon=1.0, phase1="threshold", tau=40.0)
    state = policy.learn(policy.start(), Feedback(0, 0, 1.0))
    block = policy.due(state, 1)
    assert block is not None
    tested = policy.release(state, SeededNoise(1))
    assert tested["threshold"][1] == 1
    after = policy.lost(state, block)
    assert not after["raw_sums"].any()
    assert not after["raw_counts"].any()
    assert not after["threshold"].any()


TABLE = {"name": "gdp-ncb", "arms": 3, "horizon": 400, "epsilon": 0.5}


def build(**more):
    return registry.build("policy", {**TABLE, **more}, "policy")


def test_the_index_of_every_variant():
    log_t, log_w, c, alpha, epsilon = math.log(400), math.log(21), 3.0, 3.1, 0.5
    bias, nash = 2 * alpha * log_t / epsilon, 2 * c * math.sqrt(2 * log_t)
    sound = 0.5 + nash * math.sqrt(0.5 / 64) + (bias + nash * math.sqrt(bias)) / 64
    assert gdp_ncb.index(build().numbers(), 0.5, 64.0, 0.0, 1) == pytest.approx(sound)
    cross = 4 * math.sqrt(2 * alpha / epsilon * log_t**1.5 / 64)
    printed = 0.5 + nash * math.sqrt(0.5 / 64) + alpha * log_t**2 / (epsilon * 64) + cross
    assert gdp_ncb_printed.index(build(variant="printed").numbers(), 0.5, 64.0, 0.0, 1) == pytest.approx(printed)
    wide = 2 * c * math.sqrt(2 * log_w * 0.5 / 64)
    cross = 4 * math.sqrt(2 * alpha / epsilon) * log_w**1.5 / 64
    figure = 0.5 + wide + alpha * log_w**2 / (epsilon * 64) + cross
    assert gdp_ncb_figure.index(build(variant="figure").numbers(), 0.5, 64.0, 0.0, 1) == pytest.approx(figure)


def test_only_the_sound_variant_states_a_guarantee():
    assert [build(variant=v).guarantee().established for v in ("sound", "printed", "figure")] == [True, False, False]
    with pytest.raises(SpecError, match="sound, figure, printed"):
        build(variant="ours")
    with pytest.raises(HorizonError):
        build().decide(build().start(), Round(400), generator(0))


def test_a_reward_after_its_block_has_closed_is_not_used():
    policy = build(phase_rounds=4)
    state = policy.start()
    for index in range(4):
        state = policy.learn(state, Feedback(index, index % 3, 1.0))
    state = policy.release(state, SeededNoise(1))
    late = policy.learn(state, Feedback(0, 0, 1.0))
    assert late["block"].tolist() == [0, 0]
    assert not late["raw_sums"].any()
