"""MABWiser's four verbs on top of the step API, with the policy's guarantee."""

import copy
import math
import pickle

import numpy as np
import pytest

from fairveil import Ledger
from fairveil.bandits.facade import SIMULATED, Bandit
from fairveil.errors import FairveilError, InputError, SpecError
from fairveil.privacy.limits import Limit

HISTORY = (["a", "b", "a", "c", "b", "c"], [1, 0, 1, 0, 1, 0])


def played(bandit, chances, rounds=600, seed=3):
    rng = np.random.default_rng(seed)
    for _ in range(rounds):
        arm = bandit.predict()
        bandit.partial_fit([arm], [float(rng.random() < chances[arm])])
    return bandit


@pytest.mark.parametrize("name", ["ucb", "thompson", "kl-ucb"])
def test_without_privacy_expectations_are_the_means_of_history(name):
    """What MABWiser 2.7's EpsilonGreedy gives for the same history: {'a': 1.0, 'b': 0.5, 'c': 0.0}."""
    bandit = Bandit(["a", "b", "c"], name, seed=1).fit(*HISTORY)
    assert bandit.predict_expectations() == {"a": 1.0, "b": 0.5, "c": 0.0}
    assert bandit.guarantee() is None
    bandit.partial_fit(["c", "c"], [1, 1])
    assert bandit.predict_expectations()["c"] == 0.5
    assert bandit.fit(["c"], [1]).predict_expectations()["c"] == 1.0


def test_ucb_predicts_what_mabwiser_s_ucb1_predicts():
    """mean + sqrt(2 ln N / n), recomputed by hand, on histories without ties."""
    rng = np.random.default_rng(2)
    for _ in range(20):
        arms = np.concatenate([np.arange(3), rng.integers(0, 3, 40)])
        rewards = rng.random(43).round(3)
        index = [rewards[arms == a].mean() + math.sqrt(2 * math.log(44) / (arms == a).sum()) for a in range(3)]
        assert Bandit([0, 1, 2], "ucb", seed=0).fit(arms.tolist(), rewards).predict() == int(np.argmax(index))


@pytest.mark.parametrize("name", ["private-nash", "adap-ucb", "local-nash", "ldp-ucb"])
def test_private_policies_learn_their_own_predictions(name):
    chances = {"x": 0.1, "y": 0.9}
    bandit = played(Bandit(["x", "y"], {"name": name, "epsilon": 2.0}, seed=1), chances)
    assert bandit.guarantee().established
    found = bandit.predict_expectations()
    assert found["y"] > found["x"]
    assert np.mean([bandit.predict() == "y" for _ in range(30)]) > 0.5


@pytest.mark.parametrize("name", ["private-nash", "adap-ucb", "local-nash"])
def test_history_is_released_once_an_arm_and_play_goes_on(name):
    bandit = Bandit(["x", "y"], {"name": name, "epsilon": 2.0}, seed=1)
    history = ["x"] * 200 + ["y"] * 200, [0.0] * 200 + [1.0] * 200
    bandit.fit(*history)
    assert bandit.state["released"][0] == 2
    assert bandit.predict_expectations()["y"] > 0.6
    for _ in range(3):
        bandit.partial_fit([bandit.predict()], [1.0])
    bandit.partial_fit(*history)  # while a block is open: its other rounds are skipped
    assert bandit.state["released"][0] >= 5
    assert bandit.state["counts"].sum() >= (400 if name == "adap-ucb" else 800)  # adap-ucb keeps the last block only
    played(bandit, {"x": 0.1, "y": 0.9}, 50)


def test_results_may_come_later_and_in_another_order():
    bandit = Bandit(["x", "y"], {"name": "private-nash", "epsilon": 2.0}, seed=1)
    asked = [bandit.predict() for _ in range(40)]
    bandit.partial_fit(asked[::-1], [1.0] * 40)
    assert bandit.state["counts"].sum() > 20


def test_a_ledger_is_charged_once(tmp_path):
    table = {"name": "private-nash", "epsilon": 1.0}
    with Ledger.create(tmp_path / "b.db", limit=Limit.pure(1.0)) as ledger:
        bandit = played(Bandit(["x", "y"], table, ledger=ledger), {"x": 0.1, "y": 0.9}, 40)
        assert ledger.spent.units == 1_000_000
        assert bandit.state["released"][0] >= 2


def test_what_is_refused():
    with pytest.raises(SpecError):
        Bandit(["a", "a"], "ucb")
    with pytest.raises(SpecError):
        Bandit(["a"], {"name": "fair-greedy"})
    bandit = Bandit(["a", "b"], "ucb", seed=1)
    for decisions, rewards in ((["a"], [2.0]), (["a"], [0.1, 0.2]), (["z"], [0.1])):
        with pytest.raises(InputError):
            bandit.fit(decisions, rewards)
    own = Bandit(["a", "b"], {"name": "gdp-ncb", "epsilon": 1.0, "horizon": 100}, seed=1)
    with pytest.raises(InputError, match="own decisions only"):
        own.fit(["a"], [1.0])


PRIVATE = [{"name": name, "epsilon": 1.0} for name in ("private-nash", "adap-ucb", "local-nash")]
LONG = (["x"] * 60 + ["y"] * 60, [0.5] * 60 + [1.0] * 60)


@pytest.mark.filterwarnings("ignore::fairveil.privacy.tally.RefitWarning")
@pytest.mark.parametrize("table", PRIVATE, ids=lambda table: table["name"])
def test_history_that_is_released_again_is_counted_again(table):
    """A nightly fit on all that there is drew every reward once more, and said "epsilon 1, established"."""
    bandit = Bandit(["x", "y"], table)
    seen = []
    for _ in range(3):
        seen.append(tuple(bandit.fit(*LONG).predict_expectations().values()))
        told = bandit.guarantee()
        assert (told.epsilon, told.established) == (float(len(seen)), len(seen) == 1)
    assert len(set(seen)) > 1, "each is drawn for itself"
    bandit.partial_fit(["x"] * 5, [1.0] * 5)
    assert bandit.guarantee().epsilon == 3.0, "results of the same life are in releases of their own"


@pytest.mark.filterwarnings("ignore::fairveil.privacy.tally.RefitWarning")
def test_a_copy_that_goes_on_is_counted():
    """Rewards that wait for their release are in both, and are drawn by both."""
    bandit = Bandit(["x", "y"], PRIVATE[0])
    bandit.partial_fit([bandit.predict() for _ in range(2)], [1.0, 1.0])
    other = copy.copy(bandit)
    other.outstanding = copy.deepcopy(bandit.outstanding)
    for one in (bandit, other):
        while one.state["released"][0] == 0:
            one.partial_fit([one.predict()], [1.0])
    assert {(one.guarantee().epsilon, one.guarantee().established) for one in (bandit, other)} == {(2.0, False)}
    for copied in (copy.deepcopy, pickle.dumps):
        with pytest.raises(FairveilError, match="noise cannot be pickled"):
            copied(bandit)


def test_a_ledger_refuses_history_again_and_seeded_noise_is_said(tmp_path):
    with Ledger.create(tmp_path / "b.db", limit=Limit.pure(1.0)) as ledger:
        bandit = Bandit(["x", "y"], PRIVATE[0], ledger=ledger).fit(*LONG)
        with pytest.raises(FairveilError, match="released its first block"):
            bandit.fit(*LONG)
        assert (bandit.guarantee().epsilon, bandit.guarantee().established) == (1.0, True)
        assert SIMULATED not in bandit.guarantee().notes
    assert SIMULATED in Bandit(["x", "y"], PRIVATE[0], seed=1).guarantee().notes
