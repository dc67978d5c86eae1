"""The paper's algorithms: exact laws, sensitivities over all small data sets, theory, oracles."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import chisquare
from sklearn.tree import DecisionTreeClassifier

from fairveil.classify import (
    ExponentialFair,
    FairNRClassifier,
    FollowPerturbedLeader,
    PrivateGame,
    required_samples,
    theory_rounds,
)
from fairveil.classify.game.exponential import Game, Printed, Sound
from fairveil.classify.game.hypotheses import Linear, Stumps, ThresholdPairs, errors, violations
from fairveil.errors import InputError, PrivacyError, SpecError
from fairveil.fairness.groups import Counter
from fairveil.fairness.subgroups import subgroup_violation
from fairveil.privacy.noise import SeededNoise, ZeroNoise
from fairveil.randomness import generator


def _table(rows: int = 400):
    rng = generator(3)
    x = rng.integers(0, 2, (rows, 3)).astype(float)
    groups = rng.integers(0, 2, rows)
    labels = ((x[:, 0] + rng.random(rows)) > 0.8).astype(int)
    counter = Counter(groups, labels, 2)
    return Stumps(3).table(x, groups, counter), counter.people.astype(float), x, groups, labels


def test_the_pick_follows_the_exact_law() -> None:
    table, people, *_ = _table()
    sound = Sound(0.6, 1.0, replaced=True)
    noise = SeededNoise(1)
    sizes = sound.sizes(people[:, 1].astype(np.int64), noise)
    mechanism = sound.mechanism(sizes, 400)
    loss = sound.utility(table, people, sizes, 400)
    weights = np.exp(-0.9 * 0.6 * loss / (2 * sound.sensitivity(sizes, 400)))
    expected = weights / weights.sum()
    assert mechanism.probabilities(-loss) == pytest.approx(expected, rel=1e-4)
    picked = np.bincount(mechanism.releases(-loss, noise, 20_000), minlength=len(loss))
    assert chisquare(picked, expected * 20_000).pvalue > 1e-4


@pytest.mark.parametrize("replaced", [True, False])
def test_given_the_noisy_sizes_no_data_set_moves_the_utility_by_more(replaced) -> None:
    """Every small data set and every neighbour: three people of two groups, one hypothesis by its decisions."""
    kinds = [(g, y, h) for g in (0, 1) for y in (0, 1) for h in (0, 1)]
    sound, sizes, rows = Sound(1.0, 1.5, replaced), np.array([2, 1]), 3

    def loss(people: tuple) -> float:
        counted = [kind for kind in people if kind is not None]
        groups, labels, decided = (np.array([kind[i] for kind in counted], int) for i in range(3))
        counter = Counter(groups, labels, 2)
        table = counter.count(decided)[None, :, :, 1]
        return float(sound.utility(table, counter.people.astype(float), sizes, rows)[0])

    bound, worst = sound.sensitivity(sizes, rows), 0.0
    for others in itertools.combinations_with_replacement(kinds, 2):
        values = [loss((*others, kind)) for kind in (kinds if replaced else [*kinds, None])]
        if replaced:
            worst = max(worst, max(values) - min(values))
        else:
            worst = max(worst, *(abs(value - values[-1]) for value in values))
    assert worst <= bound
    assert worst > 0.4 * bound


def test_it_refuses_by_its_noisy_sizes_only() -> None:
    """Tiny true groups are no reason; a tiny budget is, and only released numbers decide."""
    sound = Sound(0.01, 1.0, replaced=False)
    assert sound.mechanism(np.array([500, 800]), 10_000).sensitivity > 0
    with pytest.raises(PrivacyError, match="noisy group sizes"):
        sound.mechanism(np.array([1, 800]), 10_000)
    table, people, *_ = _table()
    people[1] = 0
    table[:, 1] = 0
    assert Sound(5.0, 1.0, False).pick(table, people, 400, SeededNoise(0))[0] < 6


def test_the_printed_scale_is_negative_on_a_small_group() -> None:
    printed = Printed(2.0)
    scale = printed.scale(np.array([2, 300]), 1000, ZeroNoise())
    assert scale == pytest.approx(2 / (2 - math.sqrt(1000) - 1) + 1 / 1000)
    assert scale < 0
    large = printed.scale(np.array([300, 300]), 1000, ZeroNoise())
    assert large > 0
    for size, preferred in ((1, 1), (1000, 0)):  # bad rules are preferred when the sign flips
        people = size * np.array([[300.0, 2.0], [400.0, 300.0]])
        table = size * np.array([[[0.0, 2.0], [0.0, 300.0]], [[300.0, 0.0], [400.0, 300.0]]])
        rows = int(people.sum())
        assert printed.utility(table, people, rows).argmin() == 0
        assert printed.pick(table, people, rows, ZeroNoise())[0] == preferred


def test_classes_of_rules_count_what_they_decide() -> None:
    _, people, x, groups, labels = _table()
    counter = Counter(groups, labels, 2)
    score = generator(1).random((400, 1))
    for rules, inputs in ((Stumps(3), x), (Linear(3, 10), x), (ThresholdPairs(2), score)):
        table = rules.table(inputs, groups, counter)
        for h in (0, rules.size // 3, rules.size - 1):
            decided = rules.accepts(inputs, groups, np.array([h]))[0]
            assert (table[h] == counter.count(decided)[:, :, 1]).all()
            assert errors(table, people)[h] == (decided != labels).sum()
    with pytest.raises(SpecError, match="at most 4"):
        ThresholdPairs(5)


def test_the_weighted_violation_costs_less_than_one_row() -> None:
    """n Phi over all data sets of four people and their neighbours: below 1 for rows replaced and rows taken out."""
    kinds = [(g, y, h) for g in (0, 1) for y in (0, 1) for h in (0, 1)]
    members = np.array([[True, False], [False, True]])

    def scaled(people: tuple) -> np.ndarray:
        groups, labels, decided = (np.array([kind[i] for kind in people], int) for i in range(3))
        counter = Counter(groups, labels, 2)
        return violations(counter.count(decided)[None, :, :, 1], counter.people.astype(float), members, 1)[0]

    worst = {"replaced": 0.0, "taken out": 0.0}
    for others in itertools.combinations_with_replacement(kinds, 4):
        base = scaled(others)
        found = np.array([scaled((*others, kind)) for kind in kinds])
        worst["taken out"] = max(worst["taken out"], float(np.abs(found - base).max()))
        worst["replaced"] = max(worst["replaced"], float((found.max(axis=0) - found.min(axis=0)).max()))
    assert worst["taken out"] < 1
    assert worst["replaced"] <= 1


def test_the_game_costs_rho_and_its_players_get_half_each() -> None:
    game = Game(60, 5.0, 0.02, 10_000)
    assert 0.95 * 0.02 < game.cost() <= 0.02
    assert game.rate == pytest.approx(math.sqrt(0.06) * 10_000 / (6 * 60**1.5))
    learner = PrivateGame(1.0, hypotheses="stumps")
    assert learner.guarantee().epsilon == pytest.approx(1.0, rel=1e-6)


def test_the_game_lowers_the_violation() -> None:
    rng = generator(9)
    rows = 20_000
    groups = (rng.random(rows) < 0.4).astype(int)
    labels = (rng.random(rows) < np.where(groups == 1, 0.7, 0.2)).astype(int)
    score = np.clip(0.3 * labels + 0.7 * rng.beta(2, 2, rows), 0, 1)[:, None]
    counter = Counter(groups, labels, 2)
    rules = ThresholdPairs(2)
    table, people, members = rules.table(score, groups, counter), counter.people.astype(float), np.eye(2, dtype=bool)
    best = int(np.argmin(errors(table, people)))
    plays = Game(60, 5.0, 0.05, rows).play(table, people, members, SeededNoise(2))
    mixed = np.abs(violations(table[plays].mean(axis=0)[None], people, members, rows)).max()
    assert mixed < 0.5 * np.abs(violations(table, people, members, rows)[best]).max() + 0.002


@pytest.mark.parametrize(
    ("n", "values"),
    [
        (1000, (4.7e6, 2.2e7, 1.0e14, 4.1e5, 0.011, 1.5e5)),
        (10_000, (1.5e7, 3.1e7, 4.5e14, 8.7e4, 0.0011, 1.3e5)),
        (100_000, (4.7e7, 4.1e7, 1.9e15, 1.8e4, 0.00011, 1.05e5)),
    ],
)
def test_the_theory_asks_for_the_impossible(n, values) -> None:
    found = theory_rounds(n, 0.1, 0.05, 5, 1.0, 1e-5)
    assert tuple(found.to_dict().values())[:6] == pytest.approx(values, rel=0.04)  # two digits are printed
    wrong = math.log(2 / 0.05)
    rounds = 4 * math.sqrt(n) * wrong / 0.1**4
    demanded = 24 * math.sqrt(math.log(2 * rounds / 0.05) * 5 * math.log(n)) * (1 + math.log(n))
    demanded *= math.sqrt(math.log(1e5)) / (0.01 * math.sqrt(math.sqrt(n) * wrong))
    assert found.epsilon_demanded == pytest.approx(demanded, rel=0.02)
    assert found.epsilon_typeset * math.sqrt(1 + math.log(n)) == pytest.approx(found.epsilon_demanded)
    assert n != 100_000 or found.epsilon_typeset == pytest.approx(2.96e4, rel=0.01)


def test_the_sample_size_meets_its_own_terms_and_grows_as_it_should() -> None:
    n = required_samples(390, 0.1, 0.05, 0.5, 0.04, 0.04)
    assert n > 4 / (0.04 * 0.5) ** 2
    assert n >= 144 * (math.log(390) + math.log(20) + math.log(20)) / (0.01 * 0.04)
    assert required_samples(390, 0.05, 0.05, 0.5, 0.04, 0.04) > 3.5 * n
    assert required_samples(390, 0.1, 0.05, 0.5, 0.01, 0.01) > 3.5 * n
    with pytest.raises(SpecError, match="alpha"):
        required_samples(10, 0.0, 0.05, 1.0, 0.1, 0.1)


def test_the_sound_leader_notes_each_loss_once_and_the_printed_one_says_what_it_is() -> None:
    hypotheses = np.array([[0, 0, 1], [1, 1, 0]])
    sound = FollowPerturbedLeader(hypotheses, 1.0, 1e-5, rounds=4, sensitivity=0.1)
    assert sound.guarantee().established
    assert sound.guarantee().epsilon == pytest.approx(1.0, rel=1e-6)
    assert sound.event().rho == pytest.approx(sound.form.rho)
    state, noise = sound.start(), SeededNoise(1)
    for _ in range(4):
        state = sound.observe(state, [0.0, 0.0, 0.1], noise)
    assert len({sound.play(state, SeededNoise(s)) for s in range(5)}) == 1  # further plays draw nothing
    with pytest.raises(InputError, match="over"):
        sound.observe(state, [0.0, 0.0, 0.1], noise)
    wide = FollowPerturbedLeader(np.ones((1, 4000)), 1.0, 1e-5, rounds=4, sensitivity=0.1)
    total = wide.observe(wide.start(), np.zeros(4000), SeededNoise(2)).total
    assert total.std() == pytest.approx(0.1 * math.sqrt(4 / (2 * sound.form.rho)), rel=0.03)
    printed = FollowPerturbedLeader(hypotheses, 1.0, 1e-5, rounds=4, sensitivity=0.1, variant="printed")
    assert not printed.guarantee().established
    assert printed.form.laplace_scale == pytest.approx(0.1 * math.sqrt(4 * math.log(1e5)))
    with pytest.raises(SpecError, match="zeros and ones"):
        FollowPerturbedLeader([[0.5]], 1.0, 1e-5, 1, 1.0)


def test_fair_nr_closes_the_worst_subgroup_with_every_oracle() -> None:
    rng = generator(7)
    rows = 3000
    sensitive = {"s": rng.choice(["a", "b"], rows), "r": rng.choice(["u", "v"], rows)}
    worse = (sensitive["s"] == "a") & (sensitive["r"] == "u")
    y = (rng.random(rows) < 0.4).astype(int)
    x = np.stack([y + rng.normal(size=rows), worse + 0.3 * rng.normal(size=rows), rng.random(rows)], axis=1) / 4
    x[:, 0] += 0.2 * worse
    found = []
    for rounds in (5, 60):
        model = FairNRClassifier(rounds=rounds, random_state=0).fit(x, y, sensitive_features=sensitive)
        found.append(model.violation_)
    assert found[1] < 0.6 * found[0]
    assert len(model.plays_) == 180
    for oracle in (DecisionTreeClassifier(max_depth=2), "exact", Stumps(3)):
        model = FairNRClassifier(rounds=3, oracle=oracle, random_state=0).fit(x, y, sensitive_features=sensitive)
        assert model.predict_proba(x).shape == (rows, 2)
    from sklearn.neighbors import KNeighborsClassifier

    for oracle in (KNeighborsClassifier(), "magic"):
        with pytest.raises(SpecError, match="oracle"):
            FairNRClassifier(rounds=1, oracle=oracle).fit(x, y, sensitive_features=sensitive)


def _unequal(rows: int = 2000):
    """People of one intersection are accepted too often."""
    rng = generator(8)
    sensitive = {"s": rng.choice(["a", "b"], rows), "r": rng.choice(["u", "v"], rows)}
    worse = (sensitive["s"] == "a") & (sensitive["r"] == "u")
    y = (rng.random(rows) < 0.4).astype(int)
    x = np.stack([y + rng.normal(size=rows) + 0.8 * worse, worse + 0.3 * rng.normal(size=rows)], axis=1) / 4
    return x, y, sensitive


def test_false_negatives_are_false_positives_of_flipped_labels() -> None:
    x, y, sensitive = _unequal()
    facts = {"rounds": 20, "random_state": 0}
    missed = FairNRClassifier(errors="false-negatives", **facts).fit(x, y, sensitive_features=sensitive)
    flipped = FairNRClassifier(**facts).fit(x, 1 - y, sensitive_features=sensitive)
    assert missed.decision_chance(x) == pytest.approx(1 - flipped.decision_chance(x))
    assert missed.violation_ == flipped.violation_
    assert missed.violation_ == pytest.approx(subgroup_violation(1 - y, 1 - missed.decision_chance(x), sensitive))
    alarms = FairNRClassifier(**facts).fit(x, y, sensitive_features=sensitive)
    assert missed.violation_ < subgroup_violation(1 - y, 1 - alarms.decision_chance(x), sensitive)


def test_the_auditor_answers_over_thresholds_of_the_attributes() -> None:
    x, y, sensitive = _unequal()
    found = {}
    for kind in ("intersections", "thresholds"):
        model = FairNRClassifier(rounds=40, subgroups=kind, random_state=0).fit(x, y, sensitive_features=sensitive)
        assert model.violation_ == pytest.approx(subgroup_violation(y, model.decision_chance(x), sensitive, kind))
        found[kind] = len(model.subgroups_.names)
    assert found == {"intersections": 8, "thresholds": 12}
    with pytest.raises(SpecError, match="class of subgroups"):
        FairNRClassifier(rounds=1, subgroups="circles").fit(x, y, sensitive_features=sensitive)


def test_infinite_classes_and_wrong_variants_are_refused() -> None:
    for change, word in (
        ({"hypotheses": "forests"}, "hypotheses"),
        ({"variant": "old"}, "variant"),
        ({"weight": 0.0}, "weight"),
    ):
        with pytest.raises(SpecError, match=word):
            ExponentialFair(1.0, **change)
    with pytest.raises(SpecError, match="neighbours"):
        ExponentialFair(1.0, hypotheses="threshold-pairs", neighbours="replace-row")
