"""Tables and charts say what they are, and raw ones do not leave a run under a ledger."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import fairveil
from fairveil.bandits.estimates import Estimate, Estimates
from fairveil.errors import InputError, PrivacyError
from fairveil.fairness.metrics import GroupReport, group_rates
from fairveil.frames import frame_of
from fairveil.lab.artefact import Chart, Line
from fairveil.lab.demo import CHAPTERS
from fairveil.lab.pictures import frame, plot
from fairveil.lab.plots import PALETTE, draw, draw_result, page_colours, write_picture
from fairveil.lab.result_charts import allocation_charts, result_charts
from fairveil.ledger import Ledger, Limit
from fairveil.ledger.account import releases_into
from fairveil.proof.engine.attack import Finding

TRIAL = {
    "task": "bandit",
    "rounds": 200,
    "runs": 3,
    "policy": {"name": "private-nash", "epsilon": 1.0},
    "environment": {"name": "bernoulli", "means": [0.2, 0.8]},
}


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(1)
    groups = rng.choice(["a", "b", "c"], 400)
    return rng.integers(0, 2, 400), rng.integers(0, 2, 400), groups


def titles(chart) -> list[str]:
    return [one["title"] for one in chart.to_dict()["vconcat"]]


def test_rates_are_those_of_fairlearns_metric_frame(people):
    from fairlearn.metrics import MetricFrame, selection_rate
    from sklearn.metrics import recall_score

    truth, decision, groups = people
    theirs = MetricFrame(
        metrics={"selected": selection_rate, "true_positive": recall_score},
        y_true=truth,
        y_pred=decision,
        sensitive_features=groups,
    )
    ours = group_rates(truth, decision, groups)
    for name in ("selected", "true_positive"):
        np.testing.assert_allclose(ours.by_group[name], theirs.by_group[name])
        assert ours.difference()[name] == pytest.approx(theirs.difference()[name])
        assert ours.ratio()[name] == pytest.approx(theirs.ratio()[name])
    table = ours.to_frame()
    assert (table["selected_low"] < table["selected"]).all()
    assert (table["selected"] < table["selected_high"]).all()


def test_a_rate_of_nobody_has_neither_interval_nor_ratio():
    rates = group_rates([0, 0, 0], [1, 0, 0], ["a", "a", "b"])
    assert rates.to_frame()[["true_positive", "true_positive_low"]].isna().all(axis=None)
    assert rates.ratio()["true_positive"] is None
    assert rates.difference()["true_positive"] is None


def test_every_table_and_chart_says_what_it_is(people):
    report = GroupReport("private", error=0.2, by_group=group_rates(*people).to_frame().set_index("group").T.to_dict())
    estimates = Estimates((Estimate("mean reward", "arm 0", 0.5, 0.4, 0.6),), 0.95)
    run = fairveil.run(TRIAL)
    found = {"raw": group_rates(*people), "private": report, "simulated": run}
    for kind, one in (*found.items(), ("private", estimates), ("simulated", {"first": run, "second": run})):
        assert frame(one).attrs["kind"] == kind
        assert frame(one).attrs["title"].endswith(f"({kind})")
        assert all(title.endswith(f"({kind})") for title in titles(plot(one)))
    assert titles(estimates.plot()) == titles(plot(estimates))


def test_numbers_of_recorded_people_are_raw_unless_noise_from_the_system_covers_each():
    recorded = {**TRIAL, "runs": 1, "rounds": 60, "environment": {"name": "table", "rewards": [[0.2, 0.8]] * 60}}
    secure = fairveil.run({**recorded, "noise": "secure"})
    counted = {**secure, "meta": {**secure["meta"], "evaluation": True}}
    exact = fairveil.run({**recorded, "policy": {"name": "ucb"}})
    for kind, result in (("private", secure), ("raw", counted), ("raw", exact), ("raw", fairveil.run(recorded))):
        assert frame(result).attrs["kind"] == kind
    assert secure["metrics"]["lab"]["best_mean"] == pytest.approx(0.8)
    assert not frame(secure)["metric"].str.startswith("lab").any()


def test_a_table_keeps_its_mark_and_whatever_else_is_said_of_it():
    assert frame_of([{"a": 1}], "numbers", "raw", seed=3).attrs == {"title": "numbers (raw)", "kind": "raw", "seed": 3}


def test_a_fitted_classifier_is_drawn_by_its_rates_and_intervals(tmp_path):
    data = {"name": "synthetic-adult", "sensitive": ["sex"], "rows": 800}
    result = fairveil.run({"task": "classify", "learner": {"name": "logistic"}, "data": data})
    draw_result(result, tmp_path / "rates.html")
    page = (tmp_path / "rates.html").read_text()
    assert "rates by group, held-out people, counted without noise" in page
    assert all(words in page for words in ("true positive", "Female", "<h1>Result of a run: logistic</h1>"))


def test_an_audit_is_a_table():
    found = Finding(0.7, "sum > 3", 1, 500, 200, 1000, 1000, 1.0, 0.0, 0.95)
    [row] = frame(found).to_dict("records")
    assert (row["verdict"], row["epsilon_lower"], row["claimed_epsilon"]) == ("consistent", 0.7, 1.0)
    assert frame(found).attrs["kind"] == "simulated"


def test_a_page_of_one_chart_says_its_title_once_and_speaks_of_curves_only_where_there_are_some(people, tmp_path):
    group_rates(*people).plot().save(tmp_path / "rates.html")
    page = (tmp_path / "rates.html").read_text()
    title = page.split("<h1>")[1].split("</h1>")[0]
    figure = page.split("<figure")[1].split("</figure>")[0]
    assert f">{title}</text>" not in figure
    assert "order of the legend" not in page


def test_a_saved_chart_opens_without_a_network_and_is_dark_in_the_dark(people, tmp_path):
    group_rates(*people).plot().save(tmp_path / "rates.html")
    page = (tmp_path / "rates.html").read_text()
    assert "prefers-color-scheme: dark" in page
    assert not re.search(r"<script[^>]+src=", page)
    group_rates(*people).plot().save(str(tmp_path / "rates.json"))
    assert json.loads((tmp_path / "rates.json").read_text())["vconcat"]


def test_regret_has_its_band_and_its_rounds():
    table = frame(fairveil.run(TRIAL))
    regret = table[table["metric"] == "average_regret"]
    assert regret["at"].iloc[-1] == 200
    assert (regret["low"] <= regret["value"]).all()


def test_raw_tables_and_charts_are_refused_inside_a_run_under_a_ledger(people, tmp_path):
    rates = group_rates(*people)
    raw = GroupReport("raw", error=0.1, discrimination={"equal-opportunity": 0.1})
    with Ledger.create(tmp_path / "ledger.db", limit=Limit.pure(1.0)) as ledger, releases_into(ledger):
        for show in (rates.to_frame, rates.plot, raw.to_frame, raw.plot, lambda: rates.by_group):
            with pytest.raises(PrivacyError, match="do not leave a run under a ledger"):
                show()
        assert GroupReport("private", error=0.1, discrimination={}).to_frame().attrs["kind"] == "private"
    assert len(rates.to_frame()) == 3


def test_a_report_stays_plain_data(people):
    import pickle

    report = GroupReport("private", error=0.2, discrimination={"equal-opportunity": 0.1})
    assert json.loads(json.dumps(report)) == report
    again = pickle.loads(pickle.dumps(report))
    assert again == report
    assert again.kind == "private"


def test_what_cannot_be_shown_is_refused_in_words():
    with pytest.raises(InputError, match="neither a result"):
        frame(3)
    with pytest.raises(InputError, match="nothing to draw"):
        plot(Estimates((), 0.95))


def test_one_name_has_one_colour_through_a_page():
    first = Chart("one", "x", "y", (Line("theirs", (1,), (1.0,)), Line("ours", (1,), (2.0,))))
    second = Chart("two", "x", "y", (Line("ours (eps 1)", (1,), (2.0,)), Line("third", (1,), (2.0,))), kind="points")
    colours = page_colours([first, second])
    assert colours == {"theirs": PALETTE[0], "ours": PALETTE[1], "third": PALETTE[2]}
    scale = draw(second, colours=colours).to_dict()["encoding"]["color"]["scale"]
    assert scale["range"] == [PALETTE[1], PALETTE[2]]


def test_ours_has_one_colour_in_every_chart_of_the_tour():
    pages = [Chart(one.name, "x", "y", tuple(Line(name, (1,), (1.0,)) for name in one.specs)) for one in CHAPTERS]
    colours = page_colours(pages)
    for role in ("ours", "as published"):
        seen = set()
        for page in pages:
            scale = draw(page, colours=colours).to_dict()["encoding"]["color"]["scale"]
            seen |= {tone for name, tone in zip(scale["domain"], scale["range"]) if name.startswith(role)}
        assert len(seen) == 1


def test_a_chart_of_many_names_never_shows_a_colour_twice():
    many = Chart("many", "x", "y", tuple(Line(str(i), (1,), (1.0,)) for i in range(12)))
    few = Chart("few", "x", "y", tuple(Line(str(i), (1,), (1.0,)) for i in (0, 10)))
    colours = page_colours([many, few])
    assert colours["0"] == colours["10"]
    scale = draw(few, colours=colours).to_dict()["encoding"]["color"]["scale"]
    assert len(set(scale["range"])) == 2


def test_a_line_that_covers_another_is_dashed_and_none_lies_on_the_frame():
    years = (1.0, 2.0, 3.0)
    lines = [Line("none", years, (0.5, 0.7, 1.0)), Line("dp", years, (0.5, 0.7, 1.0)), Line("half", years, (0.5,) * 3)]
    encoding = draw(Chart("shares", "years", "share", tuple(lines))).to_dict()["encoding"]
    assert encoding["strokeDash"]["scale"]["range"] == [[1, 0], [5, 3], [1, 0]]
    assert encoding["y"]["scale"]["padding"] > 0, "half lies on the lower edge from end to end"
    apart = [Line("a", years, (1.0, 2.0, 3.0)), Line("b", years, (3.0, 2.0, 1.0))]
    encoding = draw(Chart("apart", "years", "share", tuple(apart))).to_dict()["encoding"]
    assert "strokeDash" not in encoding
    assert "padding" not in encoding["y"]["scale"]


def test_time_is_in_the_unit_of_the_spec_and_groups_stand_side_by_side():
    groups = {name: {"arrivals": 100.0, "qualified": share, "features": {"0": ["truncnorm", 4.0, 5.0, -8.0, 19.0],
              "1": ["truncnorm", 20.0, 6.0, 5.0, 35.0]}} for name, share in (("a", 0.6), ("b", 0.4))}  # fmt: skip
    spec = {"task": "participation", "fairness": "dp", "steps": 60, "groups": groups}
    plain, years = fairveil.run(spec), fairveil.run({**spec, "steps_per_year": 6})
    assert plain["metrics"] == years["metrics"]
    assert "steps_per_year" not in plain["spec"]
    shares = {chart.title: chart for chart in result_charts(years)}["share"]
    assert [one.name for one in shares.lines] == ["a", "b"]
    assert (shares.x_label, shares.log_x, shares.lines[0].x[-1]) == ("years", False, 10.0)
    assert {(chart.x_label, chart.log_x) for chart in result_charts(plain)} == {("step", False)}


def test_a_simulated_stream_shows_its_last_two_weeks_large_beside_the_truth_and_all_of_it_in_means():
    stream = {"task": "stream", "data": {"name": "seasonal", "rows": 2000},
              "releaser": {"name": "private-kalman", "epsilon": 1.0, "delta": 1e-7, "seasons": [24, 168]}}  # fmt: skip
    result = fairveil.run(stream)
    recent, whole, error = result_charts(result)
    assert recent.title == "released and true: the last 336 steps; shaded: the interval"
    assert [(one.name, len(one.x), one.x[-1], bool(one.low)) for one in recent.lines] == [
        ("released", 336, 1999, True),
        ("true", 336, 1999, False),
    ]
    assert whole.title == "all 2,000 steps, in whole cycles of 24 steps: means"
    assert {(one.name, len(one.x)) for one in whole.lines} == {("released", 83), ("true", 83)}
    assert {one.name for one in error.lines} == {"released", "plain"}
    assert error.lines[1].y[-1] == pytest.approx(result["series"]["error"]["y"][-1])
    short = {**stream, "data": {"name": "seasonal", "rows": 200}}
    assert [chart.title.partition(";")[0] for chart in result_charts(fairveil.run(short))] == [
        "released and true: all 200 steps",
        "error, released and without a filter (plain): all 200 steps",
    ]


def test_allocation_over_time_is_drawn_where_it_was_simulated():
    spec = {"task": "bandit", "rounds": 500, "policy": {"name": "private-nash", "epsilon": 5.0},
            "environment": {"name": "bernoulli", "means": [0.2, 0.8]}}  # fmt: skip
    result = fairveil.run(spec)
    (chart,) = allocation_charts(result)
    assert [one.name for one in chart.lines] == ["arm 0", "arm 1"]
    assert all(abs(sum(shares) - 1.0) < 1e-9 for shares in zip(*(one.y for one in chart.lines), strict=True))
    assert allocation_charts({**result, "meta": {"simulated": False}}) == []


def test_pictures_are_dark_for_those_who_ask_and_whole_on_paper(tmp_path):
    chart = draw(Chart("regret", "round", "regret", (Line("ours", (1.0, 2.0), (0.5, 0.1)),)))
    for suffix in (".html", ".svg"):
        write_picture(chart, tmp_path / f"chart{suffix}")
        page = (tmp_path / f"chart{suffix}").read_text()
        assert "@media screen and (prefers-color-scheme: dark)" in page
    assert "break-inside: avoid" in (tmp_path / "chart.html").read_text()
