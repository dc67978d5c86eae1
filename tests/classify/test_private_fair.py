"""private-fair: what it learns, what it says about itself, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from fairveil import data
from fairveil.classify import PrivateFair, PrivateFairClassifier
from fairveil.classify.fair.auditor import AwareMargin, BlindMargin, Plays, gaps, votes
from fairveil.classify.fair.score import memberships
from fairveil.classify.fair.zones import choose_blocks
from fairveil.errors import InputError, SpecError
from fairveil.fairness.metrics import chances_of, gaps_of, group_rates
from fairveil.fairness.notions import Notion
from fairveil.privacy.noise import SecureNoise, ZeroNoise
from fairveil.randomness import generator

NOTIONS = ["demographic-parity", "equal-opportunity", "equalized-odds", "false-positive"]
SEX = ("Female", "Male")


def _people(rows: int = 12_000, seed: int = 0):
    sample = data.load("synthetic-adult", seed=seed, rows=rows)
    whole = sample.encode(bins=8)
    blind = sample.encode([name for name in sample.features if name != "sex"], bins=8)
    return {"aware": whole, "blind": blind}, sample["income"], sample["sex"]


PEOPLE = _people()


def _fitted(awareness: str = "aware", people=PEOPLE, **given):
    encoded, y, sex = people
    chosen = encoded[awareness]
    given = {"epsilon": 3.0, "groups": SEX, "random_state": 1} | given
    model = PrivateFairClassifier(awareness=awareness, norm_bound=chosen.norm_bound, **given)
    model.fit(chosen.matrix, y, sensitive_features=sex)
    return model, model.decision_chance(chosen.matrix, sensitive_features=sex)


@pytest.mark.parametrize("awareness", ["aware", "blind"])
@pytest.mark.parametrize("fairness", NOTIONS)
def test_it_closes_the_gap_it_is_asked_to_close_and_says_so(fairness, awareness) -> None:
    _, y, sex = PEOPLE
    model, chance = _fitted(awareness, fairness=fairness)
    rates = group_rates(y, chance, sex)
    plain = gaps_of(group_rates(y, _fitted(fairness="none")[1], sex))[fairness]
    assert gaps_of(rates)[fairness] < min(0.05, plain / 2)
    error = float(np.abs(chance - y).mean())
    assert error < 0.24
    assert model.error_ == pytest.approx(error, abs=0.01)
    assert model.discrimination_[fairness] == pytest.approx(gaps_of(rates)[fairness], abs=0.04)
    for g, name in enumerate(SEX):
        said = model.report_["by_group"][name]
        assert said["selected_low"] <= rates.selected[g] <= said["selected_high"]


def test_rates_are_those_of_many_draws() -> None:
    encoded, _, sex = PEOPLE
    model, chance = _fitted()
    assert ((chance > 0) & (chance < 1)).any()
    drawn = [model.predict(encoded["aware"].matrix, sensitive_features=sex, random_state=s) for s in range(60)]
    assert np.abs(np.mean(drawn, axis=0) - chance).max() < 0.35
    assert abs(np.mean(drawn) - chance.mean()) < 0.002
    again = model.predict(encoded["aware"].matrix, sensitive_features=sex, random_state=0)
    assert (again == drawn[0]).all()
    both = model.predict_proba(encoded["aware"].matrix, sensitive_features=sex)
    assert np.allclose(both.sum(axis=1), 1)
    assert (both[:, 1] == chance).all()
    assert np.corrcoef(model.score_proba(encoded["aware"].matrix)[:, 1], chance)[0, 1] > 0.7
    assert len(model.plays_) == len(model.weights_) == 100


def test_slack_is_used_and_kept() -> None:
    _, y, sex = PEOPLE
    errors, gap = [], []
    for slack in (0.0, 0.05, 0.1):
        _, chance = _fitted(fairness="demographic-parity", slack=slack)
        errors.append(float(np.abs(chance - y).mean()))
        gap.append(gaps_of(group_rates(y, chance, sex))["demographic-parity"])
    assert errors[0] > errors[1] > errors[2]
    assert gap[1] < 0.05 + 0.01
    assert gap[2] < 0.1 + 0.01


def test_replaced_rows_cost_twice_and_one_play_is_no_mixture() -> None:
    model, chance = _fitted(neighbours="replace-row", randomised=False)
    assert set(np.unique(chance)) == {0.0, 1.0}
    assert len(model.plays_) == 1
    assert model.guarantee_.neighbours == "replace-row"
    assert PrivateFair(2.0, neighbours="replace-row").plan(2).mu < 0.52 * PrivateFair(2.0).plan(2).mu


def test_without_noise_the_game_ends_near_equality() -> None:
    _, y, sex = PEOPLE
    _, chance = _fitted(noise=ZeroNoise(), random_state=None)
    assert gaps_of(group_rates(y, chance, sex))["equal-opportunity"] < 0.01


def test_secure_noise_fits_and_is_not_simulated() -> None:
    model, _ = _fitted(random_state=None, rounds=20)
    assert not model.simulated_
    assert not any("simulation" in note for note in model.guarantee_.notes)
    assert isinstance(model._source("x"), SecureNoise)


@pytest.mark.parametrize("awareness", ["aware", "blind"])
@pytest.mark.parametrize("what", ["one class", "one group", "no positives in a group", "few rows"])
def test_nothing_private_is_refused(what, awareness) -> None:
    """Whether a class, a group or a group's positives are there is private: it fits and the report says what it can."""
    encoded, y, sex = _people(40 if what == "few rows" else 1500, seed=3)
    y, sex = y.copy(), sex.copy()
    if what == "one class":
        y[:] = 0
    if what == "one group":
        sex[:] = "Male"
    if what == "no positives in a group":
        y[sex == "Female"] = 0
    for fairness in NOTIONS:
        model, chance = _fitted(awareness, (encoded, y, sex), fairness=fairness, epsilon=1.0, rounds=20)
        chances_of(chance)
        assert model.report_["error"] is not None
    if what in ("one group", "no positives in a group"):
        assert "Female" in model.report_["unestimable"]["true_positive"]


def test_small_groups_share_a_block_and_the_report_names_it() -> None:
    rng = generator(5)
    sizes = [6000, 3000, 600, 30, 20]
    names = np.repeat(["a", "b", "c", "d", "e"], sizes)
    x = rng.normal(size=(len(names), 2)) / 3
    y = (x[:, 0] + 0.2 * (names == "a") + 0.2 * rng.normal(size=len(names)) > 0.1).astype(int)
    model = PrivateFairClassifier(1.0, random_state=0, groups=("a", "b", "c", "d", "e"))
    model.fit(x, y, sensitive_features=names)
    assert sorted(map(len, model.blocks_)) == [1, 1, 3]
    assert ("c", "d", "e") in model.blocks_
    assert model.multipliers_.shape == (1, len(model.blocks_))
    blind = PrivateFairClassifier(1.0, awareness="blind", random_state=0, block_models=1).fit(
        x, y, sensitive_features=names
    )
    assert len(blind.blocks_) == 2
    assert any("read from the data" in note for note in blind.guarantee_.notes)


def test_blocks_put_the_smallest_together() -> None:
    sizes = np.array([[0, 5.0], [0, -3.0], [0, 100.0], [0, 20.0]])
    found = choose_blocks(sizes, Notion.of("equal-opportunity"), 10, None)
    assert found.of[0] == found.of[1] == found.of[3]
    assert found.count == 2
    assert choose_blocks(sizes[:2], Notion.of("equal-opportunity"), 1e9, None).count == 2
    assert choose_blocks(sizes, Notion.of("equal-opportunity"), 0, 2).count == 2


def test_a_blind_rule_that_knows_every_block_is_the_aware_one() -> None:
    """With certain memberships the two margins agree: one formula."""
    rng = generator(1)
    score, member = rng.random(200), rng.integers(0, 3, 200)
    sure = np.eye(3)[member]
    for name in NOTIONS:
        notion = Notion.of(name)
        plays = Plays(rng.normal(size=(5, len(notion.labels), 3)), rng.normal(size=(5, len(notion.labels))))
        aware, blind = AwareMargin(notion, score, member), BlindMargin(notion, score, (sure, sure))
        assert (votes(aware, plays) == votes(blind, plays)).all()


def test_memberships_are_probabilities() -> None:
    rng = generator(2)
    rows = rng.normal(size=(50, 3))
    found = memberships(rng.normal(size=(2, 4)) * 5, [0, 2], 3, rows, 1)
    assert np.allclose(found.sum(axis=1), 1)
    assert (found > 0).all()


def test_gaps_are_distances_to_the_overall_rate() -> None:
    counted = np.array([[[0, 0], [10, 30]], [[0, 0], [30, 30]]], float)
    gap, sizes = gaps(counted, counted.sum(axis=2), (1,))
    assert sizes.tolist() == [40.0, 60.0]
    assert gap == pytest.approx([0.15, -0.1])


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"epsilon": "1"}, "epsilon"),
        ({"epsilon": 1e-6, "norm_bound": 1e6}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"slack": 1.0}, "slack"),
        ({"slack": -0.1}, "slack"),
        ({"rounds": 19}, "rounds"),
        ({"count_parts": (0.2, 0.2, 0.2)}, "count_parts"),
        ({"fairness": "equal-oportunity"}, "equal-opportunity"),
        ({"awareness": "half"}, "awareness"),
        ({"neighbours": "add-remove-row"}, "neighbours"),
        ({"groups": ("a", "a")}, "groups"),
        ({"groups": tuple(str(i) for i in range(1001))}, "groups"),
        ({"norm_bound": 0.0}, "norm_bound"),
        ({"retrainings": 0}, "retrainings"),
    ],
)
def test_wrong_parameters_are_named_before_any_data(change, word) -> None:
    with pytest.raises(SpecError, match=word):
        PrivateFairClassifier(**{"epsilon": 1.0, **change}).learner()


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"y": [0, 2] * 10}, "classes"),
        ({"y": [0.5, 1.0] * 10}, "Unknown label|classes"),
        ({"sensitive_features": ["a", "c"] * 10}, "a, b"),
        ({"sensitive_features": ["a"] * 19}, "20 rows"),
        ({"sensitive_features": None}, "sensitive_features"),
        ({"sensitive_features": {str(i): ["a"] * 20 for i in range(5)}}, "1 to 4"),
        ({"sensitive_features": ["a", None] * 10}, "missing"),
        ({"sample_weight": np.ones(20)}, "sensitivity"),
        ({"X": np.zeros((0, 2)), "y": [], "sensitive_features": []}, "0 sample"),
        ({"X": np.full((20, 2), np.nan)}, "NaN"),
        ({"X": np.full((20, 2), np.inf)}, "inf"),
    ],
)
def test_wrong_data_is_refused_without_a_private_value(change, word) -> None:
    given = {"X": np.ones((20, 2)), "y": [0, 1] * 10, "sensitive_features": ["a", "b"] * 10} | change
    model = PrivateFairClassifier(1.0, groups=("a", "b"), random_state=0)
    with pytest.raises(ValueError, match=word):
        model.fit(given.pop("X"), given.pop("y"), **given)


def test_an_aware_rule_asks_for_the_group_and_names_the_other_kind() -> None:
    model, _ = _fitted()
    with pytest.raises(InputError, match="blind"):
        model.predict(PEOPLE[0]["aware"].matrix)
    with pytest.raises(InputError, match="Female, Male"):
        model.predict(PEOPLE[0]["aware"].matrix[:1], sensitive_features=["other"])


def test_more_than_a_thousand_groups_are_refused() -> None:
    model = PrivateFairClassifier(1.0, random_state=0)
    with pytest.raises(InputError, match="1000"):
        model.fit(np.zeros((1001, 1)), np.arange(1001) % 2, sensitive_features=np.arange(1001))
