"""Exponents and constants of O(.) statements: what holds, and that a planted failure is seen."""

import math

import pytest

from fairveil.lab.artefact import Claim
from fairveil.lab.papers import dp_ncb_theorems as theorems
from fairveil.lab.papers import fairx_theorems
from fairveil.lab.rates import Point, exponent, growth_below, keeps_its_constant, keeps_one_constant, within
from fairveil.randomness import generator
from fairveil.running.runner import run_many

SIZES = (1e3, 1e4, 1e5, 1e6)


def points(power, error=0.0, factor=1.0):
    return [Point(size, factor * size**power, error * size**power) for size in SIZES]


def root(size):
    return size**-0.5


def test_the_exponent_and_its_error():
    slope, error = exponent(points(-0.7, 0.1))
    assert slope == pytest.approx(-0.7)
    x = [math.log(size) for size in SIZES]
    middle = sum(x) / 4
    assert error == pytest.approx(0.1 / math.sqrt(sum((value - middle) ** 2 for value in x)))


@pytest.mark.parametrize(("power", "verdict"), [(-0.6, "holds"), (-0.4, "does not hold")])
def test_a_constant_is_kept_or_not(power, verdict):
    assert keeps_its_constant("", "", points(power, 0.001), root).verdict == verdict


def test_a_constant_that_is_exactly_kept_is_undecided_and_three_sizes_are_refused():
    assert keeps_its_constant("", "", points(-0.5, 0.01), root).verdict == "undecided"
    with pytest.raises(ValueError, match="4"):
        keeps_its_constant("", "", points(-0.5)[:3], root)


def test_one_constant_serves_all_instances():
    """An instance may rise towards the constant of the others, and none may pass it."""
    calm, rising = (points(-0.6, 0.001, 3.0), root), (points(-0.4, 0.001, 0.05), root)
    assert keeps_one_constant("", "", [calm, rising]).verdict == "holds"
    assert keeps_its_constant("", "", *rising).verdict == "does not hold"
    assert keeps_one_constant("", "", [calm, (points(-0.4, 0.001, 3.0), root)]).verdict == "does not hold"


def test_growth_and_spread():
    assert growth_below("", "", points(0.9, 0.001)).verdict == "holds"
    assert growth_below("", "", points(1.1, 0.001)).verdict == "does not hold"
    assert within("", "", (1.0, 1.1), 1.25).verdict == "holds"
    assert within("", "", (1.0, 1.4), 1.25).verdict == "does not hold"


def test_all_parts_must_hold_and_chance_is_shared():
    near = Claim.difference("", "", 2.1, 1.0, 0.0, 0.0)
    assert near.verdict == "holds"
    assert Claim.every("", "", [near] * 5).verdict == "undecided"
    against = Claim.difference("", "", 0.0, 0.1, 1.0, 0.0)
    assert Claim.every("", "", [near, against]).verdict == "does not hold"


def test_an_illustration_is_not_counted_and_can_still_fail():
    assert Claim.illustration("", "", 1.0, "algebra").verdict == "illustration"
    assert Claim.illustration("", "", -1.0, "algebra").verdict == "does not hold"


def planted(policy):
    """Theorem 1's measuring code on another policy."""
    found = run_many(
        {
            f"{theorems.GDP} @ {rounds}": theorems.at(policy, theorems.bernoulli(theorems.MEANS), rounds, 8)
            for rounds in (1_000, 4_000, 16_000, 64_000)
        },
        workers=1,
    )
    return keeps_its_constant("", "", theorems.measured(found, theorems.GDP), theorems.global_bound)


def test_uniform_play_is_refuted_by_the_measuring_code_of_theorem_1():
    assert planted({"name": "random"}).verdict == "does not hold"


def test_uniform_play_is_refuted_by_the_sweep_of_instances():
    drawn = theorems.drawn(2)
    specs = {
        f"{theorems.GDP}, instance {number} @ {rounds}": theorems.at(
            {"name": "random"}, theorems.bernoulli(on.means), rounds, 2
        )
        for number, on in enumerate(drawn)
        for rounds in (1_000, 4_000, 16_000, 64_000)
    }
    assert theorems.swept(run_many(specs, workers=1), theorems.GDP).verdict == "does not hold"
    assert drawn == theorems.drawn(5)[:2]


def test_algorithm_1_as_printed_is_uniform_play_below_its_phase_length():
    assert planted(theorems.POLICIES[theorems.GDP_PRINTED]).verdict == "does not hold"


def test_the_price_of_an_unknown_horizon():
    """Nash regret at T = 10^6 on the published instance, 16 runs."""
    artefact = theorems.AnytimeFactor()
    specs = {
        label: {**spec, "runs": 16} for label, spec in artefact.specs("quick").items() if label.endswith("@ 1000000")
    }
    found = run_many(specs, workers=1)
    regret = {name: theorems.measured(found, name)[0].value for name in (*artefact.pairs, *artefact.pairs.values())}
    assert regret[theorems.GDP] == pytest.approx(0.157, abs=0.008)
    assert regret[theorems.GDP_ANY] == pytest.approx(0.314, abs=0.012)
    assert regret[theorems.LDP] == pytest.approx(0.258, abs=0.008)
    assert regret[theorems.LDP_ANY] == pytest.approx(0.363, abs=0.012)


def test_lemma_3_holds_and_a_wrong_constant_is_seen():
    rng = generator(5)
    sums = [fairx_theorems.potential(rng, 200) for _ in range(20)]
    assert all(total <= ratio <= most for total, ratio, most in sums)
    assert any(total > 0.25 * ratio for total, ratio, _ in sums)


def test_where_theorem_8_says_something():
    """4 L/gamma in front: at the paper's setting it is above the largest regret at every horizon that can be run."""
    steep = 10.0
    for rounds in (10**3, 10**6, 10**9, 10**12):
        assert fairx_theorems.over_the_largest(rounds, steep, fairx_theorems.theorem_8(rounds)) > 800
    here, later = (
        fairx_theorems.over_the_largest(rounds, fairx_theorems.FLAT, fairx_theorems.decided(rounds))
        for rounds in (16_000, 32_000)
    )
    assert here > 1 > later


def test_synchronisations_of_section_4_1():
    assert fairx_theorems.most_synchronisations(100_000, 10, 5) == math.ceil(500 * math.log(20_001) ** 2)


def test_lemma_2_holds_for_gdp_ncb_and_not_for_ldp_ncb_as_stated():
    held, failed = theorems.good_event()
    assert (held.verdict, failed.verdict) == ("holds", "does not hold")
    draws = generator(9).laplace(size=2_000_000)
    assert (abs(draws) > math.sqrt(8 * 3.1 * math.log(10))).mean() == pytest.approx(theorems.first_report(10), rel=0.1)
