"""Claims get verdicts, comparisons get tests, the report is one file that says what it must."""

from dataclasses import replace

import numpy as np
import pytest
import vl_convert

import fairveil
from fairveil.errors import SpecError
from fairveil.lab import compare
from fairveil.lab import report as reports
from fairveil.lab.artefact import Chart, Claim, Heatmap, Line, Table, readable, say, time_axis
from fairveil.lab.plots import draw, draw_result, write_picture
from fairveil.lab.report import Report, Section, write_report
from fairveil.lab.result_charts import result_charts

LINES = (
    Line("a", (1.0, 10.0, 100.0), (3.0, 2.0, 1.0), (2.5, 1.5, 0.5), (3.5, 2.5, 1.5)),
    Line("b", (1.0, 10.0), (1.0, 2.0)),
)


def test_verdicts_follow_the_band():
    assert Claim("x", "y", 0.2, 0.1, 0.3).verdict == "holds"
    assert Claim("x", "y", -0.2, -0.3, -0.1).verdict == "does not hold"
    assert Claim("x", "y", 0.2, -0.1, 0.5).verdict == "undecided"
    assert Claim.exact("x", "y", 0.0).verdict == "does not hold"
    assert Claim.exact("x", "y", 1e-9).verdict == "holds"
    assert Claim.difference("b below a", "y", 1.0, 0.1, 0.5, 0.1).verdict == "holds"
    assert Claim.difference("b below a", "y", 1.0, 0.4, 0.5, 0.4).verdict == "undecided"


def test_report_is_one_offline_file(tmp_path):
    pictures = [
        Chart("Curves </script>", "round", "regret", LINES, log_x=True, log_y=True),
        Chart("Bars", "group", "share", (Line("p", ("g", "h"), (0.4, 0.6), (0.3, 0.5), (0.5, 0.7)),), kind="bars"),
        Heatmap("Map", "eps", "m", "gap", (1.0, 2.0), (3.0, 4.0), ((-1.0, 1.0), (0.5, 2.0))),
        Table("Numbers", ("name", "value"), (("<b>", 0.123456), ("none", None), ("flag", True))),
    ]
    section = Section("p/1", "Figure 1", pictures=pictures, claims=[Claim.exact("a < b", "s1", 1.0)], notes=["a note"])
    page = write_report([section], tmp_path / "index.html", title="Report").read_text()
    assert "http://" not in page.replace("http://www.w3.org", "") or 'src="http' not in page
    assert '<link rel="stylesheet"' not in page
    assert "&lt;b&gt;" in page, "cells are escaped"
    assert "Curves </script>" not in page, "titles cannot end the script"
    assert page.count("<svg") >= 3, "static figures for print and readers without script"
    assert "0.1235" in page
    assert "holds" in page


def test_a_page_that_grows_draws_a_section_once_and_ends_as_one_that_was_written_at_once(tmp_path, monkeypatch):
    sections = [
        Section(f"p/{n}", f"Figure {n}", pictures=[Chart(f"Curves {n}", "round", "regret", (LINES[n % 2], LINES[1]))])
        for n in range(3)
    ]
    drawn = []
    monkeypatch.setattr(reports, "draw", lambda picture, **given: drawn.append(picture.title) or draw(picture, **given))
    grown = Report(tmp_path / "grown.html", "Report")
    for section in sections:
        grown.add(section)
        page = grown.write().read_text()
        assert f"Curves {len(grown.parts) - 1}" in page
    assert drawn == ["Curves 0", "Curves 1", "Curves 2"]
    whole = write_report(sections, tmp_path / "whole.html", title="Report").read_text()
    assert page.partition("finished ")[0] == whole.partition("finished ")[0]


def test_the_axis_of_a_constant_shows_its_value():
    chart = draw(Chart("Loss", "step", "loss", (Line("a", (1.0, 2.0), (0.0688, 0.0688)),)))
    assert ">0.0688<" in vl_convert.vegalite_to_svg(chart.to_dict())


def test_a_yes_or_no_map_has_two_colours():
    def legend(values):
        chart = draw(Heatmap("Map", "x", "y", "holds", (1.0, 2.0), (3.0,), (values,)))
        return chart.to_dict()["layer"][0]["encoding"]["color"]

    assert legend((0.0, 1.0))["scale"]["domain"] == ["no", "yes"]
    assert legend((0.0, 0.5))["type"] == "quantitative"


def test_small_maps_show_their_numbers_and_large_ones_do_not():
    def texts(size):
        axis = tuple(float(i) for i in range(size))
        chart = draw(Heatmap("Map", "x", "y", "gap", axis, axis, tuple(tuple(x - 1.234 for x in axis) for _ in axis)))
        found = chart.to_dict()
        return [row["text"] for row in found["data"]["values"]] if "layer" in found else None

    assert texts(2) == ["\u22121.2", "\u22120.23"] * 2
    assert texts(20) is None


def test_a_map_of_many_cells_draws_as_many_as_a_page_shows():
    def drawn(rows, columns):
        values = tuple(tuple(i + j / 1000 for j in range(columns)) for i in range(rows))
        ends = tuple(map(float, range(columns))), tuple(map(float, range(rows)))
        return draw(Heatmap("Map", "x", "y", "gap", *ends, values)).to_dict()["data"]["values"]

    cells = drawn(401, 3)
    assert [cell["y"] for cell in cells[::3]] == list(range(0, 401, 4))
    assert all(cell["value"] == cell["y"] + cell["x"] / 1000 for cell in cells)
    assert [len(drawn(size, size)) for size in (1, 12, 13)] == [1, 144, 169]
    assert [len(drawn(2, size)) for size in (0, 120, 121, 241)] == [0, 240, 122, 162]


def test_numbers_are_written_for_people():
    said = [readable(x) for x in (15432.1, -1023.0, 0.0, -0.0, 0.012345678, 8.39e-6, -3e-11, 2.5e12, 1234567, 999.96)]
    minus = "\N{MINUS SIGN}"
    expected = [
        "15,432",
        f"{minus}1,023",
        "0",
        "0",
        "0.01235",
        "8.39 × 10⁻⁶",
        f"{minus}3 × 10⁻¹¹",
        "2.5 × 10¹²",
        "1,234,567",
    ]
    assert said == [*expected, "1000"]


def test_symbols_are_said_in_words_everywhere_and_only_where_they_stand_alone():
    words = {"n_a": "share of group a", "DP": "demographic parity", "census": "survey", "n_a limit": "long run"}
    chart = Chart("DP, n_a limit", "time", "n_a", (Line("DP-NCB", ("DP",), (0.5,)),))
    said = say(chart, words)
    assert (said.title, said.y_label) == ("demographic parity, long run", "share of group a")
    assert said.lines == (Line("DP-NCB", ("demographic parity",), (0.5,)),)
    assert say("synthetic-census and census", words) == "synthetic-census and survey"
    assert say(Claim.exact("DP holds", "theorem 1", 2.0), words).text == "demographic parity holds"
    assert say(chart, {}) is chart


def test_paths_keep_their_order_levels_are_drawn_and_dashes_are_the_lines_own():
    path = Line("a", (0.1, 0.9, 0.5), (1.0, 2.0, 3.0), dashed=True)
    spec = draw(Chart("Paths", "x", "y", (path, Line("b", (0.0,), (0.0,))), kind="paths", level=0.5)).to_dict()
    rule, curve = spec["layer"]
    assert rule["mark"]["type"] == "rule"
    assert rule["data"]["values"] == [{"level": 0.5}]
    assert curve["encoding"]["order"]["field"] == "place"
    assert [row["x"] for row in curve["data"]["values"] if row["name"] == "a"] == [0.1, 0.9, 0.5]
    assert curve["encoding"]["strokeDash"]["scale"]["range"] == [[5, 3], [1, 0]]


def test_maps_and_frames_share_a_range_when_told():
    one = Heatmap("Map", "x", "y", "share", (1.0, 2.0), (3.0,), ((0.2, 1e-9),), (0.0, 1.0))
    spec = draw(one).to_dict()
    assert spec["layer"][0]["encoding"]["color"]["scale"]["domain"] == [0.0, 1.0]
    assert [row["text"] for row in spec["data"]["values"]] == ["0.2", "≈0"]
    nothing = draw(replace(one, values=((0.0, 0.0),))).to_dict()
    assert [row["text"] for row in nothing["data"]["values"]] == ["0", "0"], "numbers, not yes or no"
    around = draw(replace(one, value_range=(-1.0, 0.5))).to_dict()
    assert around["layer"][0]["encoding"]["color"]["scale"]["domain"] == [-1.0, 1.0]
    frame = draw(Chart("Loss", "step", "loss", (Line("a", (1.0, 2.0), (0.2, 0.3)),), y_range=(0.0, 1.0))).to_dict()
    assert frame["encoding"]["y"]["scale"]["domain"] == [0.0, 1.0]


def test_a_log_axis_ends_where_its_curves_do_and_names_powers_of_ten():
    near = draw(Chart("Regret", "x", "y", (Line("a", (1.0, 2.0), (800.0, 5000.0)),), log_y=True)).to_dict()
    low, high = near["encoding"]["y"]["scale"]["domain"]
    assert 600 < low < 800
    assert 5000 < high < 6000
    far = draw(Chart("Ratio", "x", "y", (Line("a", (1.0, 2.0), (1e-3, 1e26)),), log_y=True)).to_dict()
    assert far["encoding"]["y"]["axis"]["labelExpr"].startswith("'10^'")


@pytest.mark.parametrize("suffix", [".html", ".svg", ".png"])
def test_a_result_is_drawn(tmp_path, suffix):
    result = fairveil.run({"task": "coins", "runs": 4})
    draw_result(result, tmp_path / f"plot{suffix}")
    assert (tmp_path / f"plot{suffix}").stat().st_size > 1000
    with pytest.raises(SpecError, match="cannot be drawn"):
        write_picture(None, tmp_path / "plot.gif")


TRIAL = {
    "task": "bandit", "rounds": 300, "runs": 3, "seed": 1, "policy": {"name": "private-nash", "epsilon": 1.0},
    "environment": {"name": "bernoulli", "means": [0.3, 0.7]},
}  # fmt: skip


def test_a_drawn_result_says_what_it_is_that_it_is_simulated_and_what_is_promised(tmp_path):
    draw_result(fairveil.run(TRIAL), tmp_path / "sim.html")
    page = (tmp_path / "sim.html").read_text()
    assert "<title>Result of a run: private-nash</title>" in page
    for words in ("Simulated: the people", "300 decisions by the policy private-nash", "at most 2.72"):
        assert words in page
    bare = fairveil.run({**TRIAL, "policy": {"name": "ncb"}})
    draw_result(bare, tmp_path / "bare.html")
    assert "No privacy promise" in (tmp_path / "bare.html").read_text()


def test_few_people_stand_on_a_linear_axis_and_many_on_a_logarithmic_one(tmp_path):
    assert time_axis(fairveil.run(TRIAL)) == ("people", False)
    assert time_axis(fairveil.run({**TRIAL, "rounds": 5_000})) == ("people", True)


def test_arms_have_the_names_that_the_spec_gives_them(tmp_path):
    (tmp_path / "arms.csv").write_text("usual care,new drug\n" + "0,1\n1,1\n0,0\n1,1\n" * 40)
    table = {"name": "table", "file": str(tmp_path / "arms.csv")}
    charts = result_charts(fairveil.run({**TRIAL, "rounds": 100, "environment": table}))
    named = {place for chart in charts for line in chart.lines for place in (line.name, *line.x)}
    assert {"usual care", "new drug"} <= named
    assert not {"arm 0", "arm 1"} & named


def test_grid_and_differences():
    specs = compare.grid({"task": "coins", "runs": 4}, {"seed": [1, 2], "block": [1, 2]})
    assert len(specs) == 4
    assert specs["seed=2, block=1"] == {"task": "coins", "runs": 4, "seed": 2, "block": 1}
    results = {name: fairveil.run(spec) for name, spec in specs.items()}
    rows = compare.differences(results, "mean")
    assert rows[0].difference == 0.0
    assert rows[0].p_value is None, "the reference is not tested against itself"
    assert rows[1].difference == 0.0, "the block size does not change the result"
    assert rows[1].p_value == pytest.approx(1.0)
    assert rows[2].low < rows[2].difference < rows[2].high
    with pytest.raises(SpecError, match="do not share"):
        compare.differences(results, "regret")
    with pytest.raises(SpecError, match="through tables"):
        compare.grid({"task": "coins"}, {"task.x": [1]})


def test_one_run_decides_nothing():
    results = {str(seed): fairveil.run({"task": "coins", "runs": 1, "seed": seed}) for seed in (1, 2)}
    found = compare.differences(results, "mean")[1]
    assert found.difference != 0
    assert (found.low, found.high, found.p_value) == (None, None, None)


def test_metrics_by_group_are_compared_and_lists_by_arm_are_not():
    result = {
        "spec": {"task": "participation", "runs": 1},
        "metrics": {"share": {"a": 0.4, "b": 0.6}, "pulls": [1, 2], "limit_residual": 0.0},
        "series": {"share_a": {"x": [1, 2], "y": [0.5, 0.4]}},
        "guarantee": None,
    }
    results = {"one": result, "two": {**result, "metrics": {**result["metrics"], "share": {"a": 0.3, "b": 0.7}}}}
    assert compare.shared_metrics(results) == ["limit_residual", "share.a", "share.b"]
    assert compare.default_metric(results) == "share.a"
    assert compare.differences(results, "share.a")[1].difference == pytest.approx(-0.1)
    [chart] = compare.charts(results, "share.a")
    assert chart.x_label == "step"
    assert not chart.log_x


def test_a_metric_without_a_course_is_drawn_by_the_course_of_its_task_and_a_series_is_a_metric():
    features = {"0": ["normal", -5, 5], "1": ["normal", 5, 5]}
    group = {"qualified": 0.5, "features": features}
    groups = {
        "a": {**group, "transitions": [[0.4, 0.5], [0.5, 0.9]]},
        "b": {**group, "transitions": [[0.1, 0.5], [0.5, 0.7]]},
    }
    spec = {"task": "qualification", "groups": groups, "steps": 4, "steps_per_year": 2.0}
    results = {rule: fairveil.run({**spec, "fairness": rule}) for rule in ("none", "eqopt", "dp")}
    [of_b] = compare.charts(results, "final.b")
    assert (of_b.x_label, [one.name for one in of_b.lines]) == ("years", ["none", "eqopt", "dp"])
    assert of_b.lines[0].x == (0.0, 0.5, 1.0, 1.5, 2.0)
    assert of_b.lines[2].y == tuple(results["dp"]["series"]["qualified_b"]["y"])
    assert [chart.title for chart in compare.charts(results, "gap")] == ["qualified a", "qualified b"]
    ends = [one.value for one in compare.differences(results, "qualified.b")]
    assert ends == pytest.approx([one.value for one in compare.differences(results, "final.b")], abs=1e-11)
    assert compare.difference_table(results, "final.b").title.startswith("final.b at the end")
    assert compare.difference_table(results, "gap").title.startswith("gap in the long run")
    with pytest.raises(SpecError, match="qualified_b"):
        compare.differences(results, "nothing")


def test_regret_is_drawn_against_what_a_grid_varies():
    spec = {
        "task": "bandit", "rounds": 60, "runs": 3, "seed": 1, "policy": {"name": "private-nash", "epsilon": 1.0},
        "environment": {"name": "bernoulli", "means": [0.2, 0.8]}, "feedback": {"delay": ["uniform", 1, 5]},
    }  # fmt: skip
    varied = {"feedback.window": [20, 5], "policy.release": ["arrivals", "blocks"]}
    results = {name: fairveil.run(made) for name, made in compare.grid(spec, varied).items()}
    chosen = "feedback.window=20, policy.release=blocks"
    values = {found.name: found.value for found in compare.differences(results, "nash_regret")}
    [chart] = compare.against(results, "nash_regret")
    assert (chart.title, chart.x_label) == ("nash regret against window", "window")
    assert [(line.name, line.x) for line in chart.lines] == [
        ("policy.release=arrivals", (5.0, 20.0)), ("policy.release=blocks", (5.0, 20.0)),
    ]  # fmt: skip
    for line in chart.lines:
        for x, y, low, high in zip(line.x, line.y, line.low, line.high):
            assert (y, low < y < high) == (values[f"feedback.window={x:g}, {line.name}"], True)
    drawn = compare.charts(results, "nash_regret")
    assert chart in drawn
    assert "epsilon" not in {one.x_label for one in drawn}  # one epsilon in all runs
    results["more"] = {**results[chosen], "guarantee": {**results[chosen]["guarantee"], "epsilon": 2.0}}
    assert "epsilon" in {one.x_label for one in compare.charts(results, "nash_regret")}
    assert compare.against({"first": next(iter(results.values()))}, "nash_regret") == []  # nothing is varied


def test_pareto_front_keeps_what_nothing_beats():
    def result(epsilon, regret, established=True):
        promise = {"epsilon": epsilon, "established": established}
        return {"guarantee": promise, "metrics": {"regret": [regret]}, "series": {"regret": {"x": [1], "y": [regret]}}}

    results = {"a": result(1.0, 5.0), "b": result(2.0, 3.0), "c": result(2.0, 4.0), "printed": result(0.1, 0.1, False)}
    assert compare.pareto_front(results, "regret") == ["a", "b"]


@pytest.mark.parametrize("runs", [2, 3, 10])
def test_equal_means_are_told_apart_one_time_in_twenty(runs):
    """4000 pairs of equal laws: the band misses zero for 5 % of them (within 1.4 %), however few the runs."""
    rng = np.random.default_rng(3)
    draws = rng.normal(size=(4000, 2, runs))
    missed = 0
    for pair in draws:
        results = {
            name: {
                "spec": {"runs": runs},
                "metrics": {"loss": float(values.mean()), "loss_std": float(values.std(ddof=1))},
                "series": {},
                "guarantee": None,
            }
            for name, values in zip("ab", pair)
        }
        found = compare.differences(results, "loss")[1]
        assert (found.p_value < 0.05) == (found.low > 0 or found.high < 0)
        missed += found.p_value < 0.05
    assert missed / 4000 < 0.064


def test_the_table_says_what_many_tests_need():
    results = {str(seed): fairveil.run({"task": "coins", "runs": 4, "seed": seed}) for seed in range(1, 6)}
    assert "all 4 together at 5 % need p below 0.013" in compare.difference_table(results, "mean").title
    pair = dict(list(results.items())[:2])
    assert "together" not in compare.difference_table(pair, "mean").title


def test_no_front_is_drawn_where_less_is_not_better():
    def result(epsilon, share):
        promise = {"epsilon": epsilon, "established": True}
        return {
            "guarantee": promise,
            "metrics": {"share": {"a": share}},
            "series": {},
            "spec": {"task": "participation", "runs": 1},
        }

    results = {"one": result(1.0, 0.5), "two": result(2.0, 0.4)}
    assert compare.pareto_front(results, "share.a") == []
    assert [line.name for line in compare.charts(results, "share.a")[0].lines] == ["one", "two"]


def test_accuracy_against_the_gap_has_private_points_by_epsilon_beside_fairlearns():
    def result(learner, accuracy, gap, epsilon):
        spec = {"task": "classify", "runs": 4, "learner": {"name": learner, "fairness": "equal-opportunity"}}
        metrics = {"accuracy": accuracy, "accuracy_std": 0.02, "discrimination": {"equal-opportunity": gap}}
        promise = None if epsilon is None else {"epsilon": epsilon, "established": True}
        return {"spec": spec, "metrics": metrics, "guarantee": promise, "series": {}}

    results = {"ours": result("private-fair", 0.81, 0.01, 1.0), "fairlearn": result("fairlearn", 0.83, 0.02, None)}
    chart = compare.frontier(results, "equal-opportunity")
    assert [(one.name, one.x, one.y) for one in chart.lines] == [
        ("ours (eps 1)", (0.01,), (0.81,)), ("fairlearn", (0.02,), (0.83,)),
    ]  # fmt: skip
    assert chart.lines[0].low[0] == pytest.approx(0.81 - 1.96 * 0.01)
    assert chart.y_label == "accuracy"
