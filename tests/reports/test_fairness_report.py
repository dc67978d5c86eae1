"""Reports without a service: what they list, what they leave open, what they cost, how they are written down."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest

from fairveil.data.logs import Log
from fairveil.errors import BudgetError, InputError, SpecError
from fairveil.ledger import Ledger, Limit
from fairveil.privacy.noise import SeededNoise, ZeroNoise
from fairveil.reports import (
    Evaluation,
    FairnessReport,
    PlaceRows,
    Price,
    as_csv,
    as_json,
    budget_for,
    half_widths,
    rounds,
    trial,
)
from fairveil.reports.quotes import dry_run

NAMES = ("north", "south")


def screening(count=2000, names=NAMES, seed=3):
    rng = np.random.default_rng(seed)
    groups = [[names[g] for g in rng.integers(0, 2, 4)] for _ in range(count)]
    return rounds(groups, rng.integers(0, 4, count).tolist(), (rng.random(count) < 0.6) * 1.0, names)


def test_without_noise_every_figure_is_what_happened():
    report, rows = FairnessReport(NAMES, rho=0.02), screening()
    found = report.release(rows, ZeroNoise())
    for g, group in enumerate(found["groups"]):
        shown, chosen = rows.shown[:, g].sum(), (rows.group == g).sum()
        assert (group["shown"], group["chosen"]) == (shown, chosen)
        assert group["rate"]["value"] == pytest.approx(chosen / shown)
        assert group["mean"]["value"] == pytest.approx(rows.reward[rows.group == g].mean(), abs=1e-5)
        assert group["rate"]["realised"][0] < chosen / shown < group["rate"]["realised"][1]
        assert group["rate"]["expected"][0] < group["rate"]["realised"][0]
        assert group["simultaneous"][1] > group["rate"]["expected"][1]
    assert sum(group["chosen"] for group in found["groups"]) == pytest.approx(len(rows))
    values = [group["rate"]["value"] for group in found["groups"]]
    assert found["gap"]["value"] == pytest.approx(max(values) - min(values))
    assert found["gap"]["pair"][0] == NAMES[int(np.argmax(values))]
    assert found["ratio"]["value"] == pytest.approx(min(values) / max(values))


def test_noisy_sums_keep_the_public_total():
    report = FairnessReport(("a", "b", "c"), epsilon=0.5)
    rows = PlaceRows(group=np.zeros(300, int), shown=np.ones((300, 3), int), reward=np.ones(300))
    found = report.release(rows, SeededNoise(4))
    assert sum(group["chosen"] for group in found["groups"]) == pytest.approx(300)


def test_every_declared_group_is_listed_also_where_nobody_is():
    report = FairnessReport(("a", "b", "unknown"), rho=0.02, group_privacy="private", most_shown=3)
    rows = PlaceRows(group=np.zeros(500, int), shown=np.tile([2, 1, 0], (500, 1)), reward=np.ones(500))
    found = report.release(rows, SeededNoise(1))
    assert [group["name"] for group in found["groups"]] == ["a", "b", "unknown"]
    last = found["groups"][2]
    assert last["status"] == "unestimable"
    assert last["rate"] == {"value": None, "expected": [0.0, 1.0], "realised": [0.0, 1.0]}
    assert found["gap"]["left_out"] == ["unknown"]
    public = FairnessReport(("a", "b", "unknown"), rho=0.02).release(rows, SeededNoise(1))
    assert public["groups"][2]["status"] == "nobody was shown"


def test_margins_of_crossed_groups_are_sums_of_cells():
    report = FairnessReport({"sex": ["f", "m"], "age": ["young", "old"]}, rho=0.05)
    found = dry_run(report, 4000)
    assert found["simulated"] is True
    by_name = {group["name"]: group for group in (*found["groups"], *found["margins"])}
    assert by_name["sex=f"]["chosen"] == pytest.approx(
        by_name["sex=f, age=young"]["chosen"] + by_name["sex=f, age=old"]["chosen"]
    )
    width = [row["rate"]["realised"][1] - row["rate"]["realised"][0] for row in (by_name["sex=f"], found["groups"][0])]
    assert width[0] < width[1]


def test_a_trial_by_arm_and_group_on_a_log():
    rng = np.random.default_rng(5)
    arms, where = rng.integers(0, 2, 4000), np.array(NAMES)[rng.integers(0, 2, 4000)]
    log = Log(("x", "y"), arms, (rng.random(4000) < np.where(arms == 1, 0.7, 0.3)) * 1.0, np.full(4000, 0.5))
    for privacy in ("public", "private"):
        report = FairnessReport(NAMES, rho=0.05, family="nash", actions=log.arms, group_privacy=privacy)
        found = report.release(trial(log, where, NAMES), SeededNoise(6))
        for group in found["groups"]:
            values = {arm["action"]: arm["mean"]["expected"] for arm in group["arms"]}
            assert values["x"][0] < 0.3 < values["x"][1]
            assert values["y"][0] < 0.7 < values["y"][1]
        assert found["gap"]["high"] < 0.1


def test_exposure_beside_what_is_deserved():
    report = FairnessReport(NAMES, rho=0.05, family="exposure")
    played = np.tile([0.8, 0.2], (5000, 1))
    found = report.release(PlaceRows(played=played, deserved=np.tile([0.5, 0.5], (5000, 1))), SeededNoise(2))
    assert found["gap"]["pair"] == ["north", "south"]
    assert found["gap"]["low"] < 0.6 < found["gap"]["high"]
    assert found["groups"][0]["difference"]["realised"][0] > 0.25


def test_exposure_where_some_places_count_for_nobody():
    """Shares are of the places that count, whose number is read from noisy sums alone."""
    report = FairnessReport(NAMES, rho=0.05, family="exposure", blanks=True)
    live = np.arange(5000) % 5 != 0
    played, deserved = (np.where(live[:, None], law, 0.0) for law in ([0.8, 0.2], [0.5, 0.5]))
    rows = PlaceRows(group=np.where(live, 0, -1), played=played, deserved=deserved)
    found = report.release(rows, SeededNoise(2))
    north = found["groups"][0]
    assert north["played"]["realised"][0] < 0.8 < north["played"]["realised"][1]
    assert north["difference"]["realised"][0] < 0.3 < north["difference"]["realised"][1]
    assert found["distance"]["low"] < 0.6 < found["distance"]["high"]
    assert "north got .3" in found["words"][0]
    empty = PlaceRows(group=np.full(40, -1), played=np.zeros((40, 2)), deserved=np.zeros((40, 2)))
    silent = report.release(empty, SeededNoise(4))
    assert {group["status"] for group in silent["groups"]} == {"unestimable"}
    assert silent["gap"]["pair"] is None
    assert silent["distance"] == {"value": None, "low": 0.0, "high": 2.0}


@pytest.mark.parametrize("blanks", [False, True])
def test_realised_intervals_of_exposure_cover(blanks):
    """300 draws of the noise; four standard errors of .95 reach .90."""
    report = FairnessReport(("a", "b", "c"), rho=0.02, family="exposure", blanks=blanks)
    rng = np.random.default_rng(5)
    rows = PlaceRows(group=np.zeros(400, int), played=rng.dirichlet([2, 1, 1], 400),
                     deserved=rng.dirichlet([1, 1, 1], 400))  # fmt: skip
    truth = (rows.played - rows.deserved).mean(axis=0)
    hits = np.zeros(3)
    for sums in report.draws(rows, SeededNoise(6), 300):
        groups = report.read(sums, report.public(rows))["groups"]
        ends = np.array([group["difference"]["realised"] for group in groups])
        hits += (ends[:, 0] <= truth) & (truth <= ends[:, 1])
    assert (hits / 300 >= 0.90).all()


@pytest.mark.parametrize("blanks", [False, True])
def test_margins_of_exposure_are_sums_of_its_cells_and_cover(blanks):
    """300 draws of the noise; four standard errors of .95 reach .90, and nothing is twice as wide as it must be."""
    crossed = {"sex": ["f", "m"], "age": ["young", "old"]}
    report = FairnessReport(crossed, rho=0.02, family="exposure", blanks=blanks)
    rng = np.random.default_rng(7)
    rows = PlaceRows(group=np.zeros(400, int), played=rng.dirichlet([4, 1, 1, 1], 400),
                     deserved=rng.dirichlet([1, 1, 1, 1], 400))  # fmt: skip
    apart = (rows.played - rows.deserved).mean(axis=0)
    truth = np.array([apart[:2].sum(), apart[2:].sum(), apart[::2].sum(), apart[1::2].sum()])
    hits = np.zeros(4)
    for sums in report.draws(rows, SeededNoise(8), 300):
        margins = report.read(sums, report.public(rows))["margins"]
        ends = np.array([one["difference"]["realised"] for one in margins])
        hits += (ends[:, 0] <= truth) & (truth <= ends[:, 1])
    assert [one["name"] for one in margins] == ["sex=f", "sex=m", "age=young", "age=old"]
    assert (hits / 300 >= 0.90).all()
    assert (hits / 300 < 1.0).any()


def test_margins_of_a_trial_are_sums_of_its_cells_and_cover():
    report = FairnessReport({"sex": ["f", "m"], "age": ["young", "old"]}, rho=0.5, family="nash", actions=("x", "y"))
    rng = np.random.default_rng(1)
    group = rng.integers(0, 4, 4000)
    reward = (rng.random(4000) < np.where(group < 2, 0.3, 0.7)).astype(float)
    found = report.release(PlaceRows(group=group, arm=rng.integers(0, 2, 4000), reward=reward), SeededNoise(2))
    margins = {one["name"]: one for one in found["margins"]}
    assert list(margins) == ["sex=f", "sex=m", "age=young", "age=old"]
    for name, mean in (("sex=f", 0.3), ("sex=m", 0.7), ("age=young", 0.5), ("age=old", 0.5)):
        low, high = margins[name]["mean"]["expected"]
        assert low < mean < high
        assert high - low < 0.1
    assert margins["sex=f"]["of"] == ["sex=f, age=young", "sex=f, age=old"]


def test_means_are_on_the_scale_of_the_rewards():
    rows = PlaceRows(group=np.zeros(400, int), shown=np.tile([1, 0], (400, 1)), reward=np.full(400, 0.25))
    found = FairnessReport(NAMES, rho=0.5, low=-10.0, high=10.0).release(rows, ZeroNoise())
    assert found["groups"][0]["mean"]["value"] == pytest.approx(-5.0, abs=1e-4)


def test_a_release_under_a_ledger_is_charged_once_and_repeated_for_ever(tmp_path):
    report, rows = FairnessReport(NAMES, rho=0.02), screening(200)
    with Ledger.create(tmp_path / "ledger.db", limit=Limit.zcdp(0.03)) as ledger:
        first = as_json(report.release_under(ledger, "year-1", rows))
        assert as_json(report.release_under(ledger, "year-1", rows)) == first
        assert ledger.spent.units == ledger.limit.charge(report.event()).units
        with pytest.raises(BudgetError):
            report.release_under(ledger, "year-2", rows)
        value = Evaluation(("uniform",), (2.0,), rho=0.01)
        weights = np.ones((200, 1))
        again = [as_json(value.release_under(ledger, "value", weights, rows.reward)) for _ in range(2)]
        assert again[0] == again[1]
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        assert as_json(report.release_under(ledger, "year-1", rows)) == first


def test_quotes_and_their_inverse():
    report = FairnessReport(NAMES, rho=0.02)
    quoted = half_widths(report, 2000, {"north": 6000, "south": 400})
    assert quoted[0]["at"]["0.1"] < quoted[1]["at"]["0.1"]
    found = report.release(screening(), SeededNoise(1))["groups"][0]["rate"]["expected"]
    half = half_widths(report, 2000)[0]["at"]
    assert half["0.1"] < (found[1] - found[0]) / 2 < 1.02 * half["0.5"]
    price = budget_for(report, 0.03, 2000, {"north": 6000, "south": 4000})
    assert max(max(row["at"].values()) for row in half_widths(
        FairnessReport(NAMES, rho=price.rho), 2000, {"north": 6000, "south": 4000})) <= 0.03  # fmt: skip
    assert budget_for(FairnessReport(NAMES, epsilon=1.0), 0.03, 2000).epsilon is not None
    with pytest.raises(SpecError, match="sampling alone"):
        budget_for(report, 0.0001, 2000)


def test_an_evaluation_that_would_say_nothing_is_known_before_it_is_charged():
    general = Evaluation(("uniform", "arm"), (10.0, 40.0), rho=0.01)
    assert general.says_nothing(1000) == ["arm"]
    assert general.says_nothing(50_000) == []
    one, two = Evaluation(("u",), (10.0,), rho=0.01), Evaluation(("u", "v"), (10.0, 10.0), rho=0.01)
    assert two.vector.std == pytest.approx(one.vector.std * 2**0.5, rel=1e-9)


def test_unbiased_where_the_log_is_the_law_itself():
    """All kinds of rows as often as the law says, without noise: the value to 1e-9 plus the grid's 2^-20."""
    chosen = np.repeat([0, 1], [600, 400])
    outcomes = np.concatenate([np.repeat([1.0, 0.0], [300, 300]), np.repeat([1.0, 0.0], [100, 300])])
    log = Log(("a", "b"), chosen, outcomes, np.where(chosen == 0, 0.6, 0.4))
    asked = Evaluation(("mix",), (2.0,), rho=0.01)
    weights = asked.weights(log, {"mix": {"name": "mixture", "shares": [0.2, 0.8]}})
    exact = asked.release(weights, log.outcomes, ZeroNoise())["targets"][0]["value"]
    assert exact == pytest.approx(0.2 * 0.5 + 0.8 * 0.25, abs=2.0 * 2**-20)
    fine = 0.5 + np.mean(weights[:, 0] * (log.outcomes - 0.5))
    assert fine == pytest.approx(0.3, abs=1e-9)


def test_documents_are_one_text_and_safe_cells():
    names = ("=cmd()", "+1", "@x", "ok")
    rows = PlaceRows(group=np.arange(40) % 4, shown=np.ones((40, 4), int), reward=np.ones(40))
    found = FairnessReport(names, rho=0.5).release(rows, SeededNoise(1))
    assert json.loads(as_json(found)) == found
    cells = [cell for line in csv.reader(io.StringIO(as_csv(found))) for cell in line]
    assert not any(cell.startswith(("=", "+", "@")) for cell in cells)
    assert not any(cell.startswith("-") and not cell[1:].replace(".", "").replace("e-", "").isdigit() for cell in cells)
    assert "'=cmd()" in cells


def test_words_name_both_intervals_and_delta():
    words = FairnessReport(NAMES, rho=0.02).release(screening(), SeededNoise(2))["words"]
    assert any("in this period it was between" in one and "behind it" in one for one in words)
    assert "delta 1e-06" in words[-1]
    assert "delta" not in FairnessReport(NAMES, epsilon=0.5).release(screening(), SeededNoise(2))["words"][-1]


@pytest.mark.parametrize(
    "given, path",
    [
        ({"groups": ("a", "b")}, "epsilon"),
        ({"groups": ("a", "b"), "rho": 0.1, "epsilon": 1.0}, "epsilon"),
        ({"groups": ("a", "a"), "rho": 0.1}, "groups"),
        ({"groups": (), "rho": 0.1}, "groups"),
        ({"groups": ("a", "b"), "rho": 0.1, "family": "nash"}, "actions"),
        ({"groups": ("a", "b"), "rho": 0.1, "level": 1.5}, "level"),
        ({"groups": ("a", "b"), "rho": 0.1, "group_privacy": "private"}, "most_shown"),
    ],
)
def test_mistakes_are_named(given, path):
    with pytest.raises(SpecError) as caught:
        FairnessReport(**given)
    assert caught.value.path == path


def test_bad_rows_are_named_without_their_values():
    with pytest.raises(InputError, match="no declared group") as caught:
        rounds([["secret-7"]], [0], None, NAMES)
    assert "secret" not in str(caught.value)
    with pytest.raises(InputError, match="who was shown"):
        FairnessReport(NAMES, rho=0.1).release(PlaceRows(group=np.zeros(3, int)), ZeroNoise())
    private = FairnessReport(NAMES, rho=0.1, group_privacy="private", most_shown=2)
    with pytest.raises(InputError, match="more candidates than declared"):
        private.release(PlaceRows(group=np.zeros(1, int), shown=np.array([[2, 1]])), ZeroNoise())
    assert Price(rho=0.02).words == "rho 0.02"
