"""Plans in people: the same numbers as independent runs, by name, with warnings where a plan cannot work."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from fairveil import registry
from fairveil.bandits.nash.planning import LONGEST, WALKED, guessed_world
from fairveil.bandits.nash.private_nash import PrivateNash
from fairveil.bandits.quotes import chance
from fairveil.bandits.simulate import Case, start_run
from fairveil.cli import app
from fairveil.errors import SpecError
from fairveil.lab.handover.plans import report_on_plan
from fairveil.lab.handover.write import to_markdown

GUESS = {"usual care": 0.4, "new drug": 0.55, "low dose": 0.45}
POLICY = PrivateNash(arms=3, epsilon=0.1)


@pytest.fixture(scope="module")
def plan():
    return POLICY.plan(GUESS, 200, people=2_000)


def test_the_chance_to_name_the_best_arm_is_that_of_independent_runs(plan):
    """200 and 1,000 runs of other seeds; four standard errors of their difference are .12."""
    world, _ = guessed_world(GUESS)
    case = Case.of(POLICY, world, 2_000, seed=99)
    hits, on_best = 0, []
    for run in range(1_000):
        simulator = start_run(case, case.streams(run))
        on_best.append(int(simulator.advance(2_000).pulls[1]))
        hits += int(np.nanargmax(POLICY.arm_intervals(simulator.published())[:, 0])) == 1
    assert plan.asked.named.value == pytest.approx(hits / 1_000, abs=0.12)
    assert plan.asked.arms[1].people.value == pytest.approx(np.mean(on_best), abs=170)  # 4 x 540 x sqrt(1/200 + 1/1000)


def test_people_add_up_and_more_budget_or_people_never_hurt(plan):
    assert [arm.name for arm in plan.asked.arms] == list(GUESS)
    assert sum(arm.people.value for arm in plan.asked.arms) == pytest.approx(2_000)
    assert plan.asked.worse.value == pytest.approx(2_000 - plan.asked.arms[1].people.value)
    assert [row.epsilon for row in plan.by_epsilon] == [0.1, 0.2, 0.5, 1.0, 2.0, 5.0]
    assert plan.by_epsilon[0].worse.value > 2 * plan.by_epsilon[-1].worse.value
    assert plan.by_people[0].arms[1].half_width > 2 * plan.by_people[-1].arms[1].half_width
    assert all(row.wrong <= 0.05 for row in (*plan.by_epsilon, *plan.by_people, *plan.by_exploration))
    assert json.dumps(plan.to_dict(), allow_nan=False)


def test_a_plan_is_a_table_that_says_simulated(plan):
    table = plan.to_frame()
    assert table.attrs["kind"] == "simulated"
    assert len(table) == len(plan.by_epsilon) + len(plan.by_people) + len(plan.by_exploration)
    assert table["people on new drug"][0] == plan.by_epsilon[0].arms[1].people.value


def test_exploration_buys_separation_with_people_on_worse_arms(plan):
    rows = plan.by_exploration
    assert [row.exploration for row in rows] == [0.7, 2.0, 4.0, 8.0, 16.0]
    assert rows[0].needed is None
    assert plan.longest == LONGEST
    assert rows[-1].needed < rows[2].needed
    assert rows[-1].worse.value > rows[0].worse.value
    assert any("exploration = 16" in words and "few people on purpose" in words for words in plan.warnings)


LATE = {"delay": ["uniform", 20, 40], "missing": 0.05, "window": 150}


def test_waiting_is_said_and_told_from_noise():
    """The same plan with answers at once names the best arm nearly always: what is missing is not the noise's."""
    late = PrivateNash(arms=3, epsilon=1.0).plan([0.4, 0.5, 0.7], 40, people=150, feedback=LATE)
    words = "with answers after 20 to 40 people, 5 % never, windows of 150"
    page = to_markdown(report_on_plan(late))
    assert words in page.splitlines()[2]
    assert f"All of this is {words}." in page
    (told,) = [one for one in late.warnings if "largest estimate" in one]
    assert "waiting is the larger part" in told
    assert "noise" not in told
    noisy = PrivateNash(arms=3, epsilon=0.05).plan([0.4, 0.5, 0.7], 40, people=150, feedback={"delay": 1})
    (told,) = [one for one in noisy.warnings if "largest estimate" in one]
    assert "if answers came at once: more noise" in told
    prompt = PrivateNash(arms=3, epsilon=0.05).plan([0.4, 0.5, 0.7], 40, people=150)
    assert prompt.waiting == ""
    assert "answers" not in to_markdown(report_on_plan(prompt)).splitlines()[2]


def test_a_plan_by_arrival_does_not_pay_for_a_long_window():
    """A trial of 500, one in ten never answers: by blocks a window of 360 costs a quarter of the chance to name the
    best arm (.95 and .69 of 2,000 runs), by arrival nothing (.96 and .96). 100 runs; four standard errors are .08."""
    found = {}
    for window in (20, 360):
        late = {"delay": ["uniform", 4, 20], "missing": 0.1, "window": window}
        policy = PrivateNash(arms=3, epsilon=1.0, release="arrivals")
        plan = policy.plan([0.45, 0.6, 0.3], 100, people=500, feedback=late)
        found[window] = plan.asked.named.value
        assert plan.longest == WALKED
        assert sum(arm.people.value for arm in plan.asked.arms) == pytest.approx(500)
        assert "published when the last person is decided for" in to_markdown(report_on_plan(plan))
    assert found[20] == pytest.approx(0.96, abs=0.08)
    assert found[360] == pytest.approx(0.96, abs=0.08)


def test_a_lead_that_is_not_reached_is_no_number_of_people():
    silent = PrivateNash(arms=2, epsilon=1.0).plan([0.4, 0.7], 20, people=100, feedback={"missing": 0.15})
    page = report_on_plan(silent)
    assert silent.asked.needed is None
    assert page.figures[-1] == ("sure enough to stop by the end", "0% of runs")
    text = to_markdown(page)
    assert "asked for a lead of 0.15 over every other arm (option --difference; the guess has a lead of 0.3)" in text
    assert "A lead of 0.15 is not separated with chance 0.8 within 2 million people." in text
    assert ">2" not in text
    assert "not reached within 2 million people" in text
    assert "2,097,152" not in text
    assert "Behind ±: half the width of the 95 % interval" in text
    assert "with 15% silent the rule separates no lead below 0.18" in text
    reached = PrivateNash(arms=2, epsilon=1.0, exploration=16.0).plan([0.4, 0.7], 20, people=100, difference=0.3)
    assert report_on_plan(reached).figures[-1] == ("people for a lead of 0.3", f"{reached.asked.needed:,}")


def test_warnings_where_the_plan_cannot_work():
    late = POLICY.plan([0.4, 0.5, 0.6], 10, people=100, feedback={"delay": 80})
    assert any("most of it is over" in words for words in late.warnings)
    assert any("stays above the sampling error" in words for words in late.warnings)
    some = POLICY.plan([0.4, 0.5, 0.6], 10, people=300, feedback={"delay": 100})
    assert any("the first 100 people of 300" in words for words in some.warnings)
    same = POLICY.plan([0.5, 0.5, 0.5], 10, people=100)
    assert any("nothing to separate" in words for words in same.warnings)
    assert same.asked.worse.value == 0


def test_what_is_refused():
    for wrong in ({"difference": 0.0}, {"chance": 1.0}, {"level": 2.0}, {"people": 0}, {"runs": 0}):
        with pytest.raises(SpecError):
            POLICY.plan(GUESS, **{"runs": 10, "people": 100, **wrong})
    with pytest.raises(SpecError, match="another number of arms"):
        POLICY.plan([0.4, 0.5], 10, people=100)
    with pytest.raises(SpecError, match="never on people's data"):
        POLICY.plan({"name": "table", "rewards": [[0.0, 1.0, 1.0]]}, 10, people=100)
    for table in ({"name": "ucb", "arms": 3}, {"name": "oful", "features": 2}):
        with pytest.raises(SpecError, match="plan"):
            registry.build("policy", table, "policy").plan(GUESS, 10, people=100)


def test_a_share_of_runs_has_an_interval():
    assert chance(0, 10).low == 0.0
    assert chance(10, 10).high == pytest.approx(1.0)


SPEC = {"task": "bandit", "rounds": 500, "policy": {"name": "private-nash", "epsilon": 1.0}}


def test_the_command_prints_tables_json_and_a_page(tmp_path):
    file, page = tmp_path / "trial.json", tmp_path / "plan.html"
    file.write_text(json.dumps(SPEC))
    arms = ["--arm", "usual care=0.4", "--arm", "new drug=0.55"]
    shown = CliRunner().invoke(
        app, ["plan", str(file), *arms, "--runs", "20", "--out", str(page)], env={"COLUMNS": "80"}
    )
    assert shown.exit_code == 0, shown.output
    assert "usual care" in shown.stdout
    assert "on a worse arm" in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 80
    assert "<svg" in page.read_text()
    assert "new drug" in page.read_text()
    told = CliRunner().invoke(app, ["plan", str(file), *arms, "--runs", "20", "--json"])
    assert json.loads(told.stdout)["asked"]["arms"][1]["name"] == "new drug"
    assert json.loads(told.stdout)["release"] == "arrivals"
    stored = tmp_path / "plan.json"
    again = CliRunner().invoke(app, ["plan", str(file), *arms, "--runs", "20", "--out", str(stored)])
    assert again.exit_code == 0
    assert json.loads(stored.read_text()) == json.loads(told.stdout)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--arm", "new drug"], "a name and a mean"),
        (["--arm", "a=40", "--arm", "b=50"], "shares, not percentages"),
        (["--arm", "a=0.4", "--arm", "b=0.5", "--out", "plan.docx"], "written as one of these"),
    ],
)
def test_the_command_says_what_is_wrong(tmp_path, more, said):
    file = tmp_path / "trial.json"
    file.write_text(json.dumps(SPEC))
    problem = CliRunner().invoke(app, ["plan", str(file), *more]).exception
    assert isinstance(problem, SpecError)
    assert said in str(problem)


def test_an_arm_that_the_spec_does_not_name_is_refused(tmp_path):
    (tmp_path / "log.csv").write_text("drug,recovered\n" + "usual care,1\nnew drug,0\n" * 100)
    log = {"file": "log.csv", "arm": "drug", "arms": ["usual care", "new drug"], "outcome": "recovered"}
    world = {"name": "logged", "log": {**log, "low": 0.0, "high": 1.0}}
    file = tmp_path / "trial.json"
    file.write_text(json.dumps({**SPEC, "rounds": 50, "environment": world}))
    asked = ["plan", str(file), "--runs", "10", "--json", "--arm", "new drug=0.5", "--arm"]
    problem = CliRunner().invoke(app, [*asked, "usual=0.4"]).exception
    assert isinstance(problem, SpecError)
    assert "given 'usual'; allowed: usual care, new drug" in str(problem)
    assert CliRunner().invoke(app, [*asked, "usual care=0.4"]).exit_code == 0


def test_people_s_data_are_replaced_by_a_guess_with_their_names(tmp_path):
    (tmp_path / "arms.csv").write_text("usual care,new drug\n" + "0,1\n1,1\n" * 100)
    file = tmp_path / "trial.json"
    file.write_text(json.dumps({**SPEC, "rounds": 200, "environment": {"name": "table", "file": "arms.csv"}}))
    told = CliRunner().invoke(app, ["plan", str(file), "--runs", "10", "--json"])
    arms = json.loads(told.stdout)["asked"]["arms"]
    assert [arm["name"] for arm in arms] == ["usual care", "new drug"]
    assert [arm["guess"] for arm in arms] == [0.4, 0.6]


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"name": "bernoulli", "means": [0.4, 0.6]}, "nobody's data were read"),
        ({"name": "table", "rewards": [[0, 1], [1, 1]] * 100}, "the arms and their names were read and no outcome"),
    ],
)
def test_the_page_of_a_plan_says_what_was_read(tmp_path, environment, said):
    file = tmp_path / "trial.json"
    file.write_text(json.dumps({**SPEC, "rounds": 200, "environment": environment}))
    CliRunner().invoke(app, ["plan", str(file), "--runs", "10", "--out", str(tmp_path / "plan.md")])
    assert (tmp_path / "plan.md").read_text().count(said) == 2
