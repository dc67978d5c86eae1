"""Audits with fixed seeds: sound policies keep their claim, the printed GDP-NCB does not."""

import pytest

from fairveil import SeededNoise
from fairveil.bandits.nash.gdp_ncb import GdpNcb
from fairveil.bandits.protocol import Feedback
from fairveil.proof import audit, find_pair
from fairveil.randomness import generator

SOUND = [
    {"name": "adap-ucb", "arms": 3},
    {"name": "adap-ucb", "arms": 3, "arrivals": "private"},
    {"name": "private-nash", "arms": 3},
    {"name": "private-nash", "arms": 3, "arrivals": "private"},
    {"name": "gdp-ncb", "arms": 6, "horizon": 1000},
    {"name": "ldp-ncb", "arms": 3, "horizon": 100},
    {"name": "ldp-ucb", "arms": 3},
    {"name": "local-nash", "arms": 3},
]
REUSE = {"name": "gdp-ncb", "arms": 20, "horizon": 1000, "phase_rounds": 60, "c": 0.0, "alpha": 0.0, "epsilon": 2.0}


SLOWER = ("gdp-ncb", "ldp-ncb", "ldp-ucb", "local-nash")
"""One call a trial."""


@pytest.mark.parametrize("epsilon", [0.2, 1.0])
@pytest.mark.parametrize("table", SOUND, ids=lambda table: table["name"] + table.get("arrivals", ""))
def test_sound_policies_are_consistent(table, epsilon):
    _, pair = find_pair({"kind": "policy", **table, "epsilon": epsilon})
    found = audit(pair, trials=20_000 if table["name"] in SLOWER else 100_000, seed=3)
    assert found.verdict == "consistent"
    if table.get("arrivals") != "private":  # the noise is not larger than it must be
        assert found.epsilon_lower > 0.7 * epsilon


SEATED = [
    ("private-nash", "seats", "public", 1.0),
    ("private-nash", "hidden-seats", "public", 1.0),
    ("private-nash", "seats", "private", 0.5),  # half on the sum, half on the count
    ("adap-ucb", "seats", "public", 1.0),
]


@pytest.mark.parametrize("epsilon", [0.5, 1.0])
@pytest.mark.parametrize(("name", "pair", "arrivals", "reached"), SEATED, ids=lambda value: str(value))
def test_releases_by_arrival_are_consistent_and_not_too_noisy(name, pair, arrivals, reached, epsilon):
    """Through the driver of late feedback: seats, pools and their ends as they are served."""
    table = {"kind": "policy", "name": name, "pair": pair, "arms": 3, "epsilon": epsilon, "arrivals": arrivals}
    found = audit(find_pair(table)[1], trials=50_000, seed=3)
    assert found.verdict == "consistent"
    assert found.epsilon_lower > 0.7 * reached * epsilon


@pytest.mark.slow
def test_the_printed_claim_is_violated_and_the_corrected_one_is_not():
    """One reward in nine releases at epsilon / ln 1000 each: log odds 2.6 where 2 was promised."""
    _, printed = find_pair({"kind": "policy", **REUSE, "variant": "printed"})
    _, sound = find_pair({"kind": "policy", **REUSE})
    found = audit(printed, trials=1_200_000, seed=1)
    assert found.verdict == "violated"
    assert audit(sound, trials=20_000, seed=1).verdict == "consistent"


def test_the_end_of_a_sound_threshold_is_private():
    """The round at which the uniform phase stops, through the step API: 14 rewards of 1, one of them 0 next door."""
    policy = GdpNcb(arms=1, horizon=64, epsilon=1.0, phase1="threshold", tau=8.0)

    def run(world, trials, noise, rng):
        stops = []
        for _ in range(trials):
            state, index = policy.start(), 0
            while policy.due(state, index) is None or policy.due(state, index).startswith("test"):
                if policy.due(state, index) is not None:
                    state = policy.release(state, noise)
                    if not state["exploring"][0]:
                        break
                    continue
                reward = float(index < 14 and not (world and index == 0))
                state = policy.learn(state, Feedback(index, 0, reward))
                index += 1
            stops.append(index)
        return stops

    outputs = [run(world, 1500, SeededNoise(5, world), generator(1)) for world in (0, 1)]
    found = audit(lambda world, trials, noise, rng: outputs[world][:trials], epsilon=1.0, trials=1500)
    assert found.verdict == "consistent"
    assert len(set(outputs[0])) > 10
