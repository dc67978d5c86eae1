"""Thresholds against independent high-precision solutions, printed spot values and brute force."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from fairveil.dynamics import measure, optimal_thresholds, population
from fairveil.dynamics.assumptions import searched
from fairveil.dynamics.strategic import best_thresholds, solve
from fairveil.randomness import generator

NORMALS = {
    "a": {"share": 0.7, "qualified": 0.62, "features": {"0": ["normal", -5, 5], "1": ["normal", 5, 5]}},
    "b": {"share": 0.3, "qualified": 0.31, "features": {"0": ["normal", -3, 4], "1": ["normal", 4, 4]}},
}
BETAS = {
    "a": {"share": 0.88, "qualified": 0.758, "features": {"0": ["beta", 1.23, 12.34], "1": ["beta", 2.57, 1.24]}},
    "b": {"share": 0.12, "qualified": 0.338, "features": {"0": ["beta", 1.18, 15.99], "1": ["beta", 1.84, 2.32]}},
}


def high_precision(spec):
    """(pdf, cdf) of a distribution in 40 digits, written independently of the kernels."""
    if spec[0] == "normal":
        m, s = map(mp.mpf, spec[1:])
        return lambda x: mp.npdf(x, m, s), lambda x: mp.ncdf(x, m, s)
    a, b = (mp.mpf(str(v)) for v in spec[1:])
    norm = mp.beta(a, b)
    return (
        lambda x: x ** (a - 1) * (1 - x) ** (b - 1) / norm,
        lambda x: mp.betainc(a, b, 0, x, regularized=True),
    )


def reference(groups, kind, gain, loss, start):
    """Solve both equations (equal rate, first-order condition) of lemma 7 with mpmath."""
    with mp.workdps(40):
        rows = []
        for table in groups.values():
            f0, f1 = (high_precision(table["features"][y]) for y in "01")
            rows.append((mp.mpf(str(table["share"])), mp.mpf(str(table["qualified"])), f0, f1))
        weight = {"dp": lambda a: a, "tpr": lambda a: mp.mpf(1), "fpr": lambda a: mp.mpf(0)}[kind]

        def level(row, x):
            _, alpha, f0, f1 = row
            return weight(alpha) * f1[1](x) + (1 - weight(alpha)) * f0[1](x)

        def slope(row, x):
            n, alpha, f0, f1 = row
            top = gain * alpha * f1[0](x) - loss * (1 - alpha) * f0[0](x)
            return n * top / (weight(alpha) * f1[0](x) + (1 - weight(alpha)) * f0[0](x))

        found = mp.findroot(
            lambda x, y: (level(rows[0], x) - level(rows[1], y), slope(rows[0], x) + slope(rows[1], y)),
            tuple(mp.mpf(round(v, 3)) for v in start),
            tol=1e-30,
            maxsteps=60,
        )
        return [float(v) for v in found]


@pytest.mark.parametrize("groups", [NORMALS, BETAS], ids=["normal", "beta"])
@pytest.mark.parametrize("kind", ["dp", "tpr", "fpr"])
def test_fair_thresholds_to_1e8(groups, kind):
    people = population(groups, {"gain": 1.0, "loss": 1.3})
    ours = optimal_thresholds(people, "eqopt" if kind != "dp" else "dp", kind if kind != "dp" else "tpr")[0]
    np.testing.assert_allclose(ours, reference(groups, kind, 1.0, mp.mpf("1.3"), ours), rtol=0, atol=1e-8)


@pytest.mark.parametrize("groups", [NORMALS, BETAS], ids=["normal", "beta"])
def test_free_thresholds_to_1e8(groups):
    ours = optimal_thresholds(population(groups))[0]
    for s, table in enumerate(groups.values()):
        with mp.workdps(40):
            f0, f1 = (high_precision(table["features"][y])[0] for y in "01")
            alpha = mp.mpf(str(table["qualified"]))
            root = mp.findroot(lambda x: alpha * f1(x) - (1 - alpha) * f0(x), mp.mpf(round(float(ours[s]), 3)))  # noqa: B023
        assert ours[s] == pytest.approx(float(root), abs=1e-8)


@pytest.mark.parametrize("kind", ["none", "dp", "eqopt"])
def test_strategic_thresholds_to_1e8(kind):
    groups = {name: {**table, "cost": ["beta", 10, 2]} for name, table in BETAS.items()}
    people = population(groups)
    ours = best_thresholds(people, kind)[0]
    with mp.workdps(40):
        rows = []
        for table in groups.values():
            f0, f1 = (high_precision(table["features"][y]) for y in "01")
            rows.append((mp.mpf(str(table["share"])), mp.mpf(str(table["qualified"])), f0, f1))
        density, below = high_precision(["beta", 10, 2])

        def slope(row, x):
            n, alpha, f0, f1 = row
            z = f0[1](x) - f1[1](x)
            push = (1 - alpha) * (below(z) + z * density(z))
            own = (1 - alpha) * f0[0](x) - alpha * f1[0](x) - push * (f0[0](x) - f1[0](x))
            rate = {"none": mp.mpf(1), "dp": alpha * f1[0](x) + (1 - alpha) * f0[0](x), "eqopt": f1[0](x)}[kind]
            return n * own / rate

        def level(row, x):
            _, alpha, f0, f1 = row
            return f1[1](x) if kind == "eqopt" else alpha * f1[1](x) + (1 - alpha) * f0[1](x)

        start = [mp.mpf(round(float(v), 4)) for v in ours]
        if kind == "none":
            reach = mp.mpf("1e-4")
            found = [
                mp.findroot(lambda x, row=row: slope(row, x), (v - reach, v + reach), solver="anderson", tol=1e-28)
                for row, v in zip(rows, start, strict=True)
            ]
        else:
            found = mp.findroot(
                lambda x, y: (level(rows[0], x) - level(rows[1], y), slope(rows[0], x) + slope(rows[1], y)),
                tuple(start),
                tol=1e-28,
            )
    np.testing.assert_allclose(ours, [float(v) for v in found], rtol=0, atol=1e-8)


def test_spot_values():
    people = population(
        {
            "a": {"qualified": 0.6, "features": {"0": ["truncnorm", 4, 5, -8, 19], "1": ["truncnorm", 20, 6, 5, 35]}},
            "b": {"qualified": 0.4, "features": {"0": ["truncnorm", 8, 3, -6, 25], "1": ["truncnorm", 27, 6, 9, 43]}},
        }
    )
    assert optimal_thresholds(people)[0] == pytest.approx([10.846810, 15.329994], abs=1e-6)
    assert optimal_thresholds(people, "simple")[0] == pytest.approx([13.231619] * 2, abs=1e-6)
    assert optimal_thresholds(population(BETAS))[0] == pytest.approx([0.220277, 0.207436], abs=1e-6)


def brute_force(people, kind):
    """Best total over 20,001 levels (or common thresholds), by interpolation of tabulated quantiles."""
    rate = {"dp": None, "tpr": 1, "fpr": 0}
    total = 0.0
    levels = np.linspace(1e-6, 1 - 1e-6, 20001)
    for s in range(people.groups):
        f0, f1 = people.feature(0, s, 0), people.feature(0, s, 1)
        alpha = people.qualified[0, s]
        low, high = min(f0.reach[0], f1.reach[0]), max(f0.reach[1], f1.reach[1])
        x = np.linspace(low, high, 200001)
        if kind == "simple":
            x = np.linspace(-30, 30, 20001)
            theta = x
        else:
            w = alpha if rate[kind] is None else rate[kind]
            theta = np.interp(levels, w * f1.cdf(x) + (1 - w) * f0.cdf(x), x)
        total = total + people.share[0, s] * (
            people.gain[0] * alpha * f1.sf(theta) - people.loss[0] * (1 - alpha) * f0.sf(theta)
        )
    return float(np.max(total))


@pytest.mark.parametrize("kind", ["simple", "dp", "tpr", "fpr"])
def test_no_level_does_better(kind):
    rng = generator(3, kind)
    for _ in range(6):
        groups = {}
        for name in "abc":
            std = float(rng.uniform(1.5, 6))
            groups[name] = {
                "share": float(rng.uniform(0.1, 1)),
                "qualified": float(rng.uniform(0.1, 0.9)),
                "features": {
                    "0": ["normal", float(rng.uniform(-6, -1)), std],
                    "1": ["normal", float(rng.uniform(1, 6)), std],
                },
            }
        people = population(groups, {"gain": 1.0, "loss": float(rng.uniform(0.5, 2))})
        fairness = kind if kind in ("simple", "dp") else "eqopt"
        theta = optimal_thresholds(people, fairness, kind if fairness == "eqopt" else "tpr")
        seen = measure(people, theta)
        ours = float((people.share * seen.utility).sum())
        assert ours >= brute_force(people, kind) - 1e-7
        if kind != "simple":
            rates = seen.rate(kind)[0]
            assert np.ptp(rates) < 1e-12


def test_search_agrees_with_first_order_condition():
    people = population(NORMALS)
    for fairness in ("none", "simple", "dp", "eqopt"):
        np.testing.assert_allclose(
            best_thresholds(people, fairness), optimal_thresholds(people, fairness), atol=1e-9, rtol=0
        )


def test_a_guess_changes_nothing():
    people = population(NORMALS)
    for fairness in ("dp", "eqopt"):
        cold = optimal_thresholds(people, fairness)
        for shift in (-2.0, 0.1, 40.0):
            np.testing.assert_allclose(optimal_thresholds(people, fairness, guess=cold + shift), cold, atol=1e-10)


def test_a_guess_on_a_jump_is_left_again():
    """Group a's decision sits on the end of f0's support, where its density jumps, until the shares have moved on."""
    a = {"0": ["truncnorm", 2.49, 5.57, -12.51, 14.25], "1": ["truncnorm", 19.82, 4.52, 4.06, 34.82]}
    b = {"0": ["truncnorm", 1.58, 5.17, -13.42, 18.22], "1": ["truncnorm", 20.93, 5.28, 7.35, 35.93]}
    groups = {"a": {"qualified": 0.3, "features": a}, "b": {"qualified": 0.22, "features": b}}
    first = np.linspace(0.6, 0.74, 401)
    people = population([groups] * first.size).with_rates(share=np.stack([first, 1.0 - first], axis=1))
    cold = optimal_thresholds(people, "dp")
    assert 200 < (np.abs(cold[:, 0] - 14.25) < 1e-9).sum() < 300
    warm = cold[:1]
    for k in range(first.size):
        warm = optimal_thresholds(people.select(np.array([k])), "dp", guess=warm)
        np.testing.assert_allclose(warm[0], cold[k], atol=1e-11)


@pytest.mark.parametrize("fairness", ["none", "simple", "eqopt", "dp"])
def test_unchecked_features_are_searched(fairness):
    """Deviations 5 and 3: f1/f0 falls above 10.6, so the ends of the line say nothing about the best threshold."""
    a = {"qualified": 0.5, "features": {"0": ["normal", -5, 5], "1": ["normal", 5, 3]}}
    b = {"qualified": 0.4, "features": {"0": ["normal", -4, 5], "1": ["normal", 6, 4]}}
    people = searched(population([{"a": a, "b": b}, NORMALS]))
    assert people.several.tolist() == [True, False]
    found = optimal_thresholds(people, fairness, guess=np.array([[100.0, 100.0], [0.0, 0.0]]))
    plain = population(NORMALS)
    np.testing.assert_allclose(found[1:], optimal_thresholds(plain, fairness), atol=1e-9)
    levels = np.linspace(0.001, 0.999, 4001)
    grid = np.linspace(-20.0, 20.0, 4001)
    many = people.select(np.zeros(grid.size, dtype=int))
    if fairness in ("none", "simple"):
        theta = np.stack([grid, grid], axis=1)
    else:
        rate = measure(many, np.stack([grid, grid], axis=1)).rate(fairness)
        theta = np.stack([np.interp(levels, 1.0 - rate[:, s], grid) for s in (0, 1)], axis=1)
    loss = measure(many, theta).loss * people.share[0]
    least = loss.min(axis=0).sum() if fairness == "none" else loss.sum(axis=1).min()
    ours = float((measure(people, found).loss * people.share)[0].sum())
    assert least - 1e-5 <= ours <= least + 1e-9


def test_unchecked_features_with_equal_loss():
    a = {"qualified": 0.5, "features": {"0": ["normal", -5, 5], "1": ["normal", 5, 3]}}
    b = {"qualified": 0.4, "features": {"0": ["normal", -2, 5], "1": ["normal", 2, 4]}}
    people = searched(population({"a": a, "b": b}))
    own, equal = optimal_thresholds(people), optimal_thresholds(people, "eqloss")
    loss = measure(people, equal).loss[0]
    assert loss[0] == pytest.approx(loss[1], abs=1e-12)
    assert loss[1] == pytest.approx(measure(people, own).loss.max(), abs=1e-12)
    assert equal[0, 0] < own[0, 0]


def test_equal_loss_on_either_side():
    people = population(NORMALS)
    below, above = optimal_thresholds(people, "eqloss"), optimal_thresholds(people, "eqloss-above")
    for theta in (below, above):
        loss = measure(people, theta).loss[0]
        assert loss[0] == pytest.approx(loss[1], abs=1e-12)
    free = optimal_thresholds(people)[0]
    moved = np.flatnonzero(np.abs(below[0] - free) > 1e-6)
    assert moved.size == 1
    assert below[0, moved[0]] < free[moved[0]] < above[0, moved[0]]


def test_kinks_of_uniform_costs_are_found():
    """U[0, c] with c below the largest benefit: the utility has kinks, and the best threshold can sit on one."""
    groups = {
        "a": {
            "qualified": 0.5,
            "features": {"0": ["normal", -5, 3], "1": ["normal", 5, 3]},
            "cost": ["uniform", 0, 0.4],
        }
    }
    people = population(groups)
    x = np.linspace(-30, 30, 400001)
    f0, f1 = people.feature(0, 0, 0), people.feature(0, 0, 1)
    gap = f0.cdf(x) - f1.cdf(x)
    table = 0.5 * f1.sf(x) - 0.5 * f0.sf(x) - 0.5 * gap * np.clip(gap / 0.4, 0, 1)
    assert float(solve(people).total[0]) >= table.max() - 1e-10


def test_histogram_features():
    edges = np.linspace(0, 1, 11).tolist()
    low, high = [5, 4, 4, 3, 3, 2, 1, 1, 0.5, 0.2], [0.2, 0.4, 0.8, 1, 2, 2.5, 3, 4, 5, 5]
    groups = {
        name: {"qualified": rate, "features": {"0": ["histogram", edges, low], "1": ["histogram", edges, high]}}
        for name, rate in (("a", 0.7), ("b", 0.4))
    }
    people = population(groups)
    theta = optimal_thresholds(people, "dp")
    seen = measure(people, theta)
    assert np.ptp(seen.accepted[0]) < 1e-9
    assert float((people.share * seen.utility).sum()) >= brute_force(people, "dp") - 1e-6


def test_one_threshold_for_groups_on_very_different_scales_is_the_best_one():
    """A cell of the scan over group a's reach (-233 to 0.4) holds all of group b: the peak in it was missed."""
    wide = {"0": ["normal", 0.0123377, 7.4296168], "1": ["normal", 0.13304, 7.4296168]}
    narrow = {"0": ["beta", 3.15966, 3.52628], "1": ["beta", 3.82044, 2.56104]}
    people = population(
        {
            "a": {"share": 0.2, "qualified": 0.62473, "features": wide},
            "b": {"share": 0.8, "qualified": 0.59899, "features": narrow},
        }
    )
    found = optimal_thresholds(people, "simple")
    assert found[0] == pytest.approx([0.424] * 2, abs=2e-3)
    assert float(measure(people, found).loss[0] @ [0.2, 0.8]) == pytest.approx(0.377275, abs=2e-6)


def test_a_level_is_found_from_a_guess_beside_a_pole():
    """Group b's own threshold is at 1e-60, where the density is so large that far steps are tiny."""
    groups = {
        "a": {
            "share": 0.9165385, "qualified": 0.44189176,
            "features": {"0": ["beta", 1.7000142, 12.6204495], "1": ["beta", 4.2670468, 3.7591625]},
        },
        "b": {
            "share": 0.0834615, "qualified": 0.89099844,
            "features": {"0": ["beta", 0.6079461, 2.8556883], "1": ["beta", 0.6114169, 0.9517764]},
        },
    }  # fmt: skip
    people = population(groups, {"gain": 2.8852103, "loss": 1.4273964})
    found = optimal_thresholds(people, "dp")
    assert found[0] == pytest.approx([0.24126, 0.32834], abs=2e-5)
    seen = measure(people, found)
    assert np.ptp(seen.accepted[0]) < 1e-12
    assert float((people.share * seen.utility).sum()) >= brute_force(people, "dp") - 1e-6
