"""Rules, groups and people are called by words where somebody reads who has not written the spec."""

import json
from pathlib import Path

import pytest

import fairveil
from fairveil.cli import main
from fairveil.errors import SpecError
from fairveil.fairness.notions import NOTIONS, rules
from fairveil.lab import compare
from fairveil.lab.compare import shared_metrics, shared_series
from fairveil.lab.handover.results import run_in_words
from fairveil.lab.plain import MEASURED, check_metric, rule_in_words, words_of
from fairveil.lab.result_charts import result_charts

FEATURES = {"0": ["truncnorm", 4.0, 5.0, -8.0, 19.0], "1": ["truncnorm", 20.0, 6.0, 5.0, 35.0]}
GROUPS = {
    name: {"arrivals": 100.0, "qualified": share, "features": FEATURES} for name, share in (("a", 0.6), ("b", 0.4))
}
SPEC = {"task": "participation", "steps": 12, "steps_per_year": 6, "groups": GROUPS}


def test_a_rule_has_the_words_of_its_notion_and_its_name():
    assert rule_in_words({"task": "participation", "fairness": "dp"}) == "demographic parity (dp)"
    assert rule_in_words({"task": "strategic", "fairness": "eqopt", "rate": "fpr"}) == "equal false positives (eqopt)"
    assert rule_in_words({"task": "participation"}) == ""
    for rule in rules("participation"):
        said = rule_in_words({"task": "participation", "fairness": rule})
        assert said.removesuffix(f" ({rule})") in {notion.words for notion in NOTIONS}


def test_a_run_says_who_it_is_about_under_which_rule_and_how_long():
    spec = {**SPEC, "fairness": "dp", "runs": 1, "seed": 0}
    assert run_in_words(spec) == (
        "Who stays (participation) under demographic parity (dp): 12 steps (2 years), 1 run, seed 0."
    )
    assert run_in_words({"task": "coins", "runs": 3, "seed": 1}) == "Task coins: 3 runs, seed 1."


def test_a_drawn_result_counts_people_not_numbers():
    titles = [chart.title for chart in result_charts(fairveil.run({**SPEC, "fairness": "dp"}))]
    assert "people" in titles
    assert "numbers" not in titles


def test_one_exact_run_is_no_mean_over_runs():
    results = {rule: fairveil.run({**SPEC, "fairness": rule}) for rule in ("none", "dp")}
    assert compare.difference_table(results, "numbers.a").title == "numbers.a at the end"
    words = words_of(results, "numbers.a")
    assert words["numbers.a"] == "people of group a"
    assert words["fairness=dp"] == "demographic parity (dp)"
    assert words_of(results, "gap") == {key: said for key, said in words.items() if key != "numbers.a"}
    coins = {str(seed): fairveil.run({"task": "coins", "runs": 4, "seed": seed}) for seed in (1, 2)}
    assert compare.difference_table(coins, "mean").title.startswith("mean at the end, mean over runs")


def test_the_page_of_a_comparison_speaks_and_its_table_to_work_with_has_the_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "years.json").write_text(json.dumps(SPEC))
    with pytest.raises(SystemExit) as done:
        main(["compare", "years.json", "--vary", "fairness=none,dp", "--engine", "serial", "--out", "years",
              "--export", "years.csv", "--export", "years.svg"])  # fmt: skip
    assert done.value.code == 0
    page = (tmp_path / "years/index.html").read_text()
    assert "<h2>share of group a: 2 runs</h2>" in page
    assert "demographic parity (dp)</td>" in page
    assert "Last values: no constraint (none)" in page
    for raw in ("share.a", "fairness=dp", "mean over runs", "under the rule"):
        assert raw not in page, raw
    assert "demographic parity (dp)" in (tmp_path / "years.svg").read_text()
    head, *rows = (tmp_path / "years.csv").read_text().splitlines()
    assert head.startswith("run,share.a,")
    assert [row.partition(",")[0] for row in rows] == ["fairness=none", "fairness=dp"]


def test_every_metric_that_can_be_compared_is_known_before_a_run():
    records = json.loads((Path(__file__).parents[1] / "golden" / "records.json").read_text())
    for one in records.values():
        if "metrics" in one and one["spec"].get("task") in {task.split("/")[0] for task in MEASURED}:
            held = {"run": one}
            for metric in {*shared_metrics(held), *shared_series(held)}:
                check_metric([one["spec"]], metric)
            with pytest.raises(SpecError, match="do not share"):
                check_metric([one["spec"]], "nonsense")
    check_metric([{"task": "coins"}, {"task": "bandit", "environment": {"name": "no such world"}}], "nonsense")
