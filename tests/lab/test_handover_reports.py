"""Reports to hand over: only what was released, in plain words, marked where nothing real was protected."""

import json
import re

import pytest
from typer.testing import CliRunner

import fairveil
from fairveil import Ledger, SeededNoise, registry
from fairveil.bandits.ledgered import drive
from fairveil.bandits.protocol import Feedback, Round
from fairveil.bandits.simulate import Streams
from fairveil.cli import app
from fairveil.errors import PrivacyError, SpecError
from fairveil.lab.handover import report_on_ledger, report_on_result, write_document
from fairveil.lab.handover.classifiers import LAB
from fairveil.lab.handover.document import estimates_section
from fairveil.lab.handover.results import banner_of_all
from fairveil.lab.handover.write import to_html, to_markdown
from fairveil.ledger.account import releases_into
from fairveil.ledger.verify import releases
from fairveil.privacy.events import NothingEvent
from fairveil.privacy.guarantee import Neighbours
from fairveil.privacy.limits import Limit
from fairveil.proof.laws.policies import fitting
from fairveil.randomness import generator

ROWS = [[float((7 * t + 3 * arm) % 5 < 2 + arm) for arm in range(3)] for t in range(300)]
RECORDED = {
    "task": "bandit",
    "rounds": 300,
    "noise": "secure",
    "policy": {"name": "private-nash", "epsilon": 1.0},
    "environment": {"name": "table", "rewards": ROWS},
}


def trial(file, policy, simulated=False):
    """300 rounds under a ledger; returns the last state."""
    rng, state = generator(4), policy.start()
    noise = SeededNoise(1) if simulated else None
    with Ledger.create(file, limit=Limit.for_policy(policy), unit="one patient", simulated=simulated) as ledger:
        for t in range(300):
            state = policy.open(state, t, rng)
            arm = policy.decide(state, Round(t), rng).arm
            state = policy.learn(state, Feedback(t, arm, float(rng.random() < (0.2, 0.5, 0.8)[arm])))
            state = drive(policy, state, t + 1, ledger, noise=noise)
    return state


@pytest.fixture
def policy():
    return registry.build("policy", {"name": "private-nash", "arms": 3, "epsilon": 1.0}, "policy")


def test_a_ledger_gives_back_what_the_state_said(tmp_path, policy):
    state = trial(tmp_path / "trial.db", policy)
    again = policy.restored(releases(tmp_path / "trial.db", "policy"))
    assert policy.estimates(again) == policy.estimates(state)
    assert policy.rounds_by_arm(again).tolist() == policy.rounds_by_arm(state).tolist()


@pytest.mark.parametrize(
    "name", ["adap-ucb", "gdp-ncb", "batched-private-fair-greedy", "batched-priv-fairx", "priv-fairx"]
)
def test_every_policy_is_restored_from_its_ledger(name, tmp_path):
    policy, world = fitting(name)
    assert not isinstance(policy.event(), NothingEvent)
    streams, neighbours = Streams.of(5, 0, SeededNoise(2)), Neighbours.REPLACE_INTERACTION_ROWS_FIXED
    with Ledger.create(tmp_path / "one.db", limit=Limit.covering(policy.event()), simulated=True) as ledger:
        place, state = world.prepare(streams.world), policy.start()
        for t in range(200):
            state = policy.open(state, t, streams.explore)
            shown = place.show(t, streams.world)
            arm = policy.decide(state, shown, streams.explore).arm
            state = policy.learn(state, Feedback(t, arm, place.reward(shown, arm, streams.world), shown))
            state = drive(policy, state, t + 1, ledger, noise=streams.noise, neighbours=neighbours)
    again = policy.restored(releases(tmp_path / "one.db", "policy"))
    assert policy.estimates(again).to_dict() == policy.estimates(state).to_dict()


def test_the_page_says_everything_in_its_order_and_marks_nothing_real(tmp_path, policy):
    trial(tmp_path / "trial.db", policy)
    document = report_on_ledger(tmp_path / "trial.db", policy, names={"arm 0": "usual <care>"})
    page, text = to_html(document), to_markdown(document)
    assert "usual &lt;care&gt;" in page
    assert "<script" not in page
    assert "http://" not in re.sub(r'xmlns="[^"]*"', "", page)
    order = ["decided", "known", "Fairness", "spent", "promised", "public", "not protected", "check"]
    found = [next(i for i, section in enumerate(document.sections) if word in section.title) for word in order]
    assert found == sorted(found)
    assert document.banner == ""
    assert "at most 73% sure" in text
    assert "fairveil ledger verify trial.db" in text
    assert "Not released" in text
    assert "evaluation" not in text


def test_a_simulated_ledger_is_marked_and_without_a_policy_nothing_is_interpreted(tmp_path, policy):
    trial(tmp_path / "sim.db", policy, simulated=True)
    document = report_on_ledger(tmp_path / "sim.db")
    assert "protects nobody" in document.banner
    assert document.sections[0].withheld
    assert not any(section.drawings for section in document.sections)


def test_another_policy_does_not_read_the_numbers(tmp_path, policy):
    trial(tmp_path / "trial.db", policy)
    other = registry.build("policy", {"name": "private-nash", "arms": 3, "epsilon": 2.0}, "policy")
    with pytest.raises(SpecError, match="no account"):
        report_on_ledger(tmp_path / "trial.db", other)


def test_reports_on_recorded_data_hold_no_evaluation_number():
    result = fairveil.run(RECORDED)
    assert result["metrics"]["evaluation"] is True

    def reports() -> list[str]:
        marked = {**result, "meta": {**result["meta"], "simulated": True}}
        return [to_markdown(report_on_result(one)) for one in (result, marked)]

    text, study = before = reports()
    secret = {"nash_regret": [0.123456789], "average_regret": [0.987654321], "best_mean": 0.55555555}
    result["metrics"].update(secret)
    result["metrics"]["lab"]["interval_coverage"] = [0.77777777] * 3
    assert reports() == before
    for word in ("regret  ", "coverage", "evaluation"):
        assert word not in text
    assert "option" in text
    assert "What is known" in text
    assert "Do not hand this out" in study


def test_simulated_results_are_marked_and_show_lab_numbers_apart():
    world = {"name": "bernoulli", "means": [0.2, 0.8]}
    result = fairveil.run({**RECORDED, "noise": "seeded", "environment": world})
    document = report_on_result(result)
    assert "invented" in document.banner
    [lab] = [section for section in document.sections if "simulated" in section.title]
    assert "Lab numbers" in lab.marked
    assert "the noise in this report are invented" in document.banner
    drawn = fairveil.run({**RECORDED, "environment": world})
    assert "only the noise is not" in report_on_result(drawn).banner
    exact = fairveil.run({**RECORDED, "noise": "seeded", "environment": world, "policy": {"name": "ucb"}})
    assert "no noise is added" in report_on_result(exact).banner
    assert banner_of_all([result, drawn, exact]).startswith("Simulated: the people and the outcomes in these runs")
    bare = fairveil.run({**RECORDED, "policy": {"name": "ucb"}, "noise": "seeded"})
    assert "No privacy promise" in report_on_result(bare).banner
    assert banner_of_all([bare, exact]) == f"{report_on_result(bare).banner} {report_on_result(exact).banner}"


def test_groups_are_not_counted_in_other_families(tmp_path):
    spec = {
        "task": "bandit",
        "rounds": 400,
        "policy": {"name": "batched-private-fair-greedy", "epsilon": 5.0, "delta": 1e-5},
        "environment": {"name": "synthetic-census", "people_per_group": 300},
    }
    document = report_on_result(fairveil.run(spec))
    decided = next(section for section in document.sections if "decided" in section.title)
    assert decided.withheld
    assert not decided.grids
    page = write_document(document, tmp_path / "merit.html").read_text()
    assert "<polyline" in page


def test_a_report_on_generated_rows_says_so_and_never_speaks_of_recorded_ones():
    spec = {
        "task": "classify",
        "learner": {"name": "private-logistic", "epsilon": 1.0, "delta": 1e-5},
        "data": {"name": "synthetic-adult", "sensitive": ["sex"], "rows": 400},
    }
    document = report_on_result(fairveil.run(spec))
    assert "generated data set" in document.banner
    assert "recorded data" not in to_markdown(document)
    assert any(section.marked == LAB for section in document.sections)
    result = fairveil.run({**RECORDED, "noise": "seeded"})
    assert "on recorded data" in report_on_result(result).banner


def test_run_with_a_ledger_and_report_on_the_command_line(tmp_path):
    spec = tmp_path / "trial.json"
    spec.write_text(json.dumps(RECORDED))
    run = CliRunner()
    first = run.invoke(app, ["run", str(spec), "--ledger", str(tmp_path / "trial.db")])
    assert first.exit_code == 0, first.output
    again = run.invoke(app, ["run", str(spec), "--ledger", str(tmp_path / "trial.db")])
    assert isinstance(again.exception, PrivacyError)
    assert "this ledger already holds this run" in str(again.exception)
    assert "resume" not in str(again.exception)  # nothing of Python
    out = tmp_path / "report.html"
    made = run.invoke(app, ["report", str(tmp_path / "trial.db"), "--policy", str(spec), "--out", str(out)])
    assert made.exit_code == 0, made.output
    assert "What is promised" in out.read_text()
    assert "A replay: the policy decided over rows that had been recorded before" in out.read_text()
    result = tmp_path / "result.json"
    result.write_text(run.invoke(app, ["run", str(spec), "--json"]).stdout)
    made = run.invoke(app, ["report", str(result), "--out", str(tmp_path / "report.md")])
    assert made.exit_code == 0, made.output
    assert "A replay:" in (tmp_path / "report.md").read_text()
    wrong = run.invoke(app, ["report", str(result), "--policy", str(spec)])
    assert isinstance(wrong.exception, SpecError)
    assert isinstance(run.invoke(app, ["report", str(result), "--out", "page.docx"]).exception, SpecError)


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"noise": "seeded"}, "noise"),
        ({"environment": {"name": "bernoulli", "means": [0.1, 0.2, 0.3]}}, "environment.name"),
        ({"policy": {"name": "local-nash", "epsilon": 1.0}}, "policy.name"),
    ],
)
def test_what_a_ledger_cannot_stand_for_is_refused(change, path, tmp_path):
    policy = registry.build("policy", {"name": "private-nash", "arms": 3, "epsilon": 1.0}, "policy")
    with Ledger.create(tmp_path / "x.db", limit=Limit.for_policy(policy)) as ledger, releases_into(ledger):
        with pytest.raises((SpecError, PrivacyError)) as caught:
            fairveil.run({**RECORDED, **change})
        assert caught.value.path == path


def test_a_run_with_a_ledger_publishes_what_the_ledger_holds(tmp_path):
    policy = registry.build(
        "policy", {"name": "private-nash", "arms": 3, "epsilon": 1.0, "release": "arrivals"}, "policy"
    )
    file = tmp_path / "trial.db"
    with Ledger.create(file, limit=Limit.for_policy(policy)) as ledger, releases_into(ledger):
        result = fairveil.run(RECORDED)
    held = policy.estimates(policy.restored(releases(file, "policy"))).to_dict()["items"]
    published = [(item["value"], item["low"]) for item in result["metrics"]["estimates"]["items"]]
    assert [(item["value"], item["low"]) for item in held] == published
    assert result["metrics"]["releases"] == len(releases(file, "policy"))


def test_bounds_with_the_silent_ones_are_never_shown_inside_the_interval():
    item = {
        "what": "mean reward",
        "name": "a",
        "value": 0.0,
        "low": 0.0,
        "high": 0.848,
        "lowest": 0.1,
        "highest": 0.732,
    }
    found = {"confidence": 0.95, "items": [item, {**item, "highest": 0.9}], "tables": [], "notes": []}
    assert [row[-2:] for row in estimates_section(found).grids[0].rows] == [
        ("0 to 0.848", "0 to 0.848"),
        ("0 to 0.848", "0 to 0.9"),
    ]
