"""One command from a running trial to the board: from the service's store, its ledger, or what it publishes."""

from __future__ import annotations

import json
from collections import Counter
from random import Random

import pytest
import yaml
from running_service import QUEUE, listening
from typer.testing import CliRunner

from fairveil.bandits.nash.stopping import separation
from fairveil.cli import app
from fairveil.errors import PrivacyError, SpecError
from fairveil.lab.handover import report_on_ledger, report_on_loop, report_on_store
from fairveil.lab.handover.document import STOOD_IN
from fairveil.lab.handover.registry_entry import deployment_of, registry_entry
from fairveil.lab.handover.write import to_markdown
from fairveil.loop import ManualClock, Store
from fairveil.loop.accept import policy_of
from fairveil.loop.config import read_spec
from fairveil.loop.public import public_view
from fairveil.loop.waiting import standings, under_way
from fairveil.service.app import Service
from fairveil.service.settings import Settings

TRIAL = {
    "name": "trial-7",
    "policy": {"name": "private-nash", "epsilon": 2.0},
    "actions": ["usual care", "new drug"],
    "reward": {"low": 0.0, "high": 10.0, "wait": "60s", "missing": "public"},
    "person": {"max_events": 2},
}
run = CliRunner().invoke


def play(store, clock, rounds=200):
    """A trial in which the new drug helps more often; the last rounds have no outcome yet."""
    loop = store.create(**TRIAL)
    for number in range(rounds):
        reply = loop.decide(f"e-{number}", subject=f"p-{number}")
        if number < rounds - 5:
            loop.reward(f"e-{number}", 10.0 if number % (2 + 2 * (reply.action == 0)) == 0 else 0.0)
        if number % 20 == 19:
            loop.tick()
    return loop


@pytest.fixture
def folder(tmp_path):
    clock = ManualClock()
    with Store.open(f"sqlite:///{tmp_path}/data/store.db", clock=clock) as store:
        play(store, clock)
    return tmp_path / "data"


def lines(document):
    return to_markdown(document)


def test_a_store_gives_decided_and_learned_rounds_names_person_and_checked_ledger(folder):
    with Store.open(f"sqlite:///{folder}/store.db") as store:
        loop = store.loop("trial-7")
        learned = int(loop.facts.policy.rounds_by_arm(loop.status().state).sum())
        decided = loop.status().round
        document = report_on_store(store, "trial-7")
    text = lines(document)
    assert 0 < learned < decided
    assert ("decided", f"{decided:,}") in document.figures
    assert ("learned", f"{learned:,}") in document.figures
    assert "| usual care |" in text
    assert "arm 0" not in text
    assert "mean outcome, from 0 to 10" in text
    assert "at most 2 times: epsilon 4" in text
    assert "fairveil ledger verify trial-7.db" in text
    assert "head " in text


CHANCE, MISSING = (0.4, 0.5, 0.7), 0.15


def late_trial(folder, missing, rounds=200, release="arrivals", clock=None):
    """Three arms, answers after 20 to 40 rounds, 15 in 100 never, windows of 50: what was given, and who is silent."""
    clock, random, due = clock or ManualClock(), Random(3), []
    given, silent = Counter(), Counter()
    store = Store.open(f"sqlite:///{folder}/store.db", clock=clock)
    loop = store.create(
        "late",
        policy={"name": "private-nash", "epsilon": 1.0, "release": release},
        actions=["usual care", "low dose", "high dose"],
        reward={"low": 0.0, "high": 1.0, "wait": "50s", "missing": missing},
        person={"max_events": 1},
    )
    for number in range(rounds):
        arm = loop.decide(f"e-{number}", subject=f"p-{number}").action
        given[arm] += 1
        if random.random() >= MISSING:
            due.append((number + random.randint(20, 40), number, float(random.random() < CHANCE[arm])))
        elif number < rounds - 50:
            silent[arm] += 1
        for _, event, value in [one for one in due if one[0] <= number]:
            loop.reward(f"e-{event}", value)
        due = [one for one in due if one[0] > number]
        clock.advance(1)
        store.tick()
    return store, given, silent


def grid(document, place):
    return [list(row) for row in document.sections[place].grids[0].rows]


@pytest.mark.parametrize("missing", ["public", "default"])
def test_a_board_sees_by_option_who_was_given_it_who_waits_and_who_never_answered(tmp_path, missing):
    store, given, silent = late_trial(tmp_path, missing)
    with store:
        document = report_on_store(store, "late")
        table = public_view(store, "late").loops["late"]
    *rows, total = grid(document, 0)
    counted = [[int(cell) for place, cell in enumerate(row[1:]) if place != 1] for row in rows]
    assert [row[0] for row in rows] == ["usual care", "low dose", "high dose"]
    assert [row[0] for row in counted] == [given[arm] for arm in range(3)]
    assert [row[2] for row in rows] == [f"{given[arm] / 200:.1%}" for arm in range(3)]
    assert all(row[0] == sum(row[1:]) for row in counted)  # the columns add up to what was given
    assert total[1] == "200"
    assert [int(cell) for cell in total[3:]] == [sum(column) for column in list(zip(*counted))[1:]]
    learned = sum(row[1] for row in counted)
    assert ("learned", str(learned)) in document.figures
    text = lines(document)
    assert f"200 rounds were decided: {learned} " in text
    assert [row[2] for row in counted] == [line["answered"] for line in table["waiting"]]
    assert sum(row[3] for row in counted) >= 20  # nobody of the last 20 can have answered
    if missing == "public":
        assert [row[4] for row in counted] == [silent[arm] for arm in range(3)]
        assert ("never answered", str(sum(silent.values()))) in document.figures
        assert document.sections[0].grids[0].head[-1] == "never answered"
        arm = table["published"]["arms"][2]
        assert f"{arm['lowest']:.3g} to {arm['highest']:.3g}" == grid(document, 1)[2][-1]
        assert "More than a tenth of the rounds of an arm have no answer" in text
    else:
        assert "never answered" not in text
        assert "Whether and when somebody did is protected in this loop" in text


@pytest.mark.parametrize("missing", ["public", "default"])
def test_rounds_of_apprentice_mode_are_not_called_lost(tmp_path, missing):
    with Store.open(f"sqlite:///{tmp_path}/store.db", clock=ManualClock()) as store:
        loop = store.create(
            "news",
            policy={"name": "private-nash", "epsilon": 1.0},
            actions=["sports", "culture"],
            reward={"low": 0.0, "high": 1.0, "wait": "50s", "missing": missing},
            person={"max_events": 1},
            mode="apprentice",
        )
        for number in range(20):
            loop.decide(f"e-{number}", subject=f"p-{number}", baseline=number % 2)
        document = report_on_store(store, "news")
    *_, total = grid(document, 0)
    assert int(total[-1]) > 0
    assert document.sections[0].grids[0].head[-1] == {"public": "never answered", "default": "not learned"}[missing]
    assert "apprentice mode showed another option than the policy's own" in lines(document)


def test_blocks_say_what_is_not_released_and_that_silence_is_inside(tmp_path):
    store, given, _ = late_trial(tmp_path, "public", rounds=120, release="blocks")
    with store:
        document = report_on_store(store, "late")
    *rows, _ = grid(document, 0)
    assert [int(row[1]) for row in rows] == [given[arm] for arm in range(3)]
    assert all(int(row[1]) == int(row[3]) + int(row[4]) for row in rows)
    assert "whoever never answered is among those" in lines(document)


def test_a_trial_that_is_over_has_everybody_published_or_silent(tmp_path):
    clock = ManualClock()
    store, given, _ = late_trial(tmp_path, "public", clock=clock)
    with store:
        store.loop("late").set_mode("frozen")
        clock.advance(60)
        store.tick()
        *rows, total = grid(report_on_store(store, "late"), 0)
    assert [int(row[1]) for row in rows] == [given[arm] for arm in range(3)]
    assert all(int(row[1]) == sum(map(int, row[3:])) for row in rows)
    assert total[4:6] == ["0", "0"]  # nobody waits any more


def test_rounds_of_the_loop_before_are_told_apart(tmp_path):
    store, _, _ = late_trial(tmp_path, "public")
    with store:
        left = standings(public_view(store, "late").loops["late"])
        loop = store.create(
            "later",
            policy={"name": "private-nash", "epsilon": 1.0},
            actions=["usual care", "low dose", "high dose"],
            reward={"low": 0.0, "high": 1.0, "wait": "50s", "missing": "public"},
            start_from="late",
        )
        for number in range(10):
            loop.decide(f"n-{number}")
        found = standings(public_view(store, "later").loops["later"])
        text = lines(report_on_store(store, "later"))
    assert sum(row.given for row in found) == 10
    assert all(row.given == row.learned + row.waiting + row.open + row.closed - row.before for row in found)
    assert [row.before for row in found] == [row.learned + row.closed + row.open for row in left]
    assert "of these from before" in text


def test_planned_rounds_of_an_open_block_are_not_rounds(folder):
    """What the service publishes by arm adds up to what is released, never to more than was decided."""
    with Store.open(f"sqlite:///{folder}/store.db") as store:
        table = public_view(store, "trial-7").loops["trial-7"]
    assert sum(arm["rounds"] for arm in table["published"]["arms"]) <= table["rounds"]
    assert sum(arm["rounds"] for arm in table["published"]["arms"]) == table["rounds"] - under_way(table)


def test_the_same_numbers_from_the_store_the_ledger_and_the_routes(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    by_store = run(app, ["report", str(folder), "--out", "store.md"])
    assert by_store.exit_code == 0, by_store.output
    by_ledger = run(app, ["report", str(folder / "ledgers" / "trial-7.db"), "--out", "ledger.md"])
    assert by_ledger.exit_code == 0, by_ledger.output
    (tmp_path / "loop.json").write_text(json.dumps(TRIAL))
    copy = tmp_path / "copy.db"  # a ledger that was handed out without its store
    copy.write_bytes((folder / "ledgers" / "trial-7.db").read_bytes())
    alone = run(app, ["report", str(copy), "--policy", "loop.json", "--out", "copy.md"])
    assert alone.exit_code == 0, alone.output
    with Store.open(f"sqlite:///{folder}/store.db") as store, listening(Service(store, Settings())) as address:
        over = run(app, ["report", "--url", address, "--loop", "trial-7", "--out", "url.md"])
        assert over.exit_code == 0, over.output
        view = public_view(store, "trial-7")
        tables = view.loops["trial-7"], view.budgets["trial-7"]
    assert f"curl {address}/v1/ledgers/trial-7/verify" in (tmp_path / "url.md").read_text()
    asked = lines(report_on_loop(*tables, source="tables", url="http://s", token=True))
    assert "curl -H 'Authorization: Bearer TOKEN' http://s/v1/ledgers/trial-7/verify" in asked
    pages = {name: (tmp_path / f"{name}.md").read_text() for name in ("store", "ledger", "copy", "url")}
    assert pages["store"] == pages["ledger"]
    rows = {name: [row for row in text.splitlines() if row.startswith("| new drug |")] for name, text in pages.items()}
    assert rows["store"] == rows["url"]
    mean = {name: float(row[-1].split(" | ")[1]) for name, row in rows.items()}
    assert mean["store"] == pytest.approx(10 * mean["copy"], rel=1e-2)  # a ledger knows no units of rewards,
    assert "given to" in pages["url"]  # and not who was given what
    assert "given to" not in pages["copy"]
    assert "a ledger holds published answers alone" in pages["copy"]
    for text in pages.values():
        for title in ("What was decided", "What is known", "What was spent", "What is promised", "How to check"):
            assert title in text


def test_the_stopping_rule_is_said_to_be_used(folder):
    with Store.open(f"sqlite:///{folder}/store.db") as store:
        loop = store.loop("trial-7")
        text = lines(report_on_store(store, "trial-7", anytime=True))
        found = separation(loop.facts.policy, loop.status().state)
        path, _ = store.driver.ledger("trial-7")
        policy = loop.facts.policy
    assert "The stopping rule was used." in text
    assert f"{10 * found.rows[1, 0]:.3g}" in text
    names = {"arm 0": "usual care", "arm 1": "new drug"}
    ledger = lines(report_on_ledger(path, policy, names=names, loop="trial-7", anytime=True))
    assert "The stopping rule was used." in ledger
    assert all(STOOD_IN in told for told in (text, ledger)), "no proof covers what stands in for an outcome"


def test_estimates_of_a_loop_that_limits_people_say_what_stands_in_for_an_outcome(folder):
    with Store.open(f"sqlite:///{folder}/store.db") as store:
        view = public_view(store, "trial-7")
    for person, said in (({"max_events": 2}, True), ({"sticky": True}, True), ({}, False)):
        document = report_on_loop({**view.loops["trial-7"], "person": person}, view.budgets["trial-7"], source="tables")
        assert (STOOD_IN in lines(document)) == said


def test_candidates_over_the_published_tables():
    clock = ManualClock()
    with Store.open("sqlite:///queue-store/store.db", clock=clock) as store:
        loop = store.create(**QUEUE)
        for number in range(60):
            candidates = [{"group": group, "features": [0.1 * number % 1, 0.5, 0.2]} for group in ("a", "b")]
            loop.decide(f"e-{number}", candidates=candidates)
            loop.reward(f"e-{number}", 1.0)
        clock.advance(120)
        loop.tick()
        view = public_view(store, "queue")
        table = json.loads(json.dumps(view.loops["queue"]))
        document = report_on_loop(table, view.budgets["queue"], source="tables")
        said = loop.facts.policy.estimates(loop.status().state).to_dict()
    text = lines(document)
    assert "How often each group was chosen" in text
    first = next(item for item in said["items"] if item["value"] is not None)
    assert f"| {first['name']} | {first['value']:.3g} |" in text


def test_a_window_says_its_promise_first_and_its_weights_in_declared_units():
    """The ledger counts rho, from which no more than 5.4 follows; promised is 5, by the curve of the noise itself."""
    clock, random = ManualClock(), Random(5)
    with Store.open("sqlite:///window-store/store.db", clock=clock) as store:
        loop = store.create(
            "window",
            policy={"name": "batched-priv-fairx", "epsilon": 5.0, "delta": 1e-5, "horizon": 10_000, "reward_std": 0.5},
            features=[{"name": name, "low": -1, "high": 1} for name in ("price", "match")],
            reward={"low": 0, "high": 1, "wait": "1s", "missing": "default"},
        )
        for number in range(120):
            items = [{"features": [random.uniform(-1, 1) for _ in range(2)]} for _ in range(3)]
            loop.decide(f"e-{number}", candidates=items)
        clock.advance(5)
        loop.tick()
        view = public_view(store, "window")
        table = json.loads(json.dumps(view.loops["window"]))
        document = report_on_loop(table, view.budgets["window"], source="tables")
    assert document.figures[0] == ("promise", "epsilon 5, delta 1e-05")
    text = lines(document)
    assert "The promise below is smaller, epsilon 5: it follows from the noise that is drawn" in text
    assert "feature (what one more of it adds to the outcome)" in text
    assert "The model has no constant" in text
    assert "a standard deviation of 0.5, as declared (reward_std)" in text
    assert "Gram matrix" not in text.partition("What is promised")[0]


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_an_entry_of_the_registry_says_flavour_unit_parameters_and_what_is_not_protected(folder, tmp_path):
    told = run(app, ["report", str(folder), "--out", "r.md", "--registry", "entry.yaml"])
    assert told.exit_code == 0, told.output
    entry = yaml.safe_load((tmp_path / "entry.yaml").read_text())
    found = entry["deployment"]
    assert entry["tier"] == 3
    assert found["dp_flavor"]["name"] == "Pure DP"
    assert found["privacy_loss"]["privacy_parameters"] == {"epsilon": 2.0, "person_level": {"epsilon": 4.0}}
    assert found["model"]["model_name"] == "Central"
    assert any("arrived is public" in words for words in found["dp_flavor"]["unprotected_quantities"])
    assert "spent" in found["accounting"]["composition"]
    assert set(found) == {
        "product",
        "dp_flavor",
        "privacy_loss",
        "model",
        "accounting",
        "implementation",
        "resources",
    }


@pytest.mark.parametrize("source", ["store", "tables", "ledger"])
def test_what_is_handed_over_counts_what_reports_have_cost(tmp_path, source):
    """Everything that is published had cost an event 3, and a board and the registry were told epsilon 1."""
    clock = ManualClock()
    spec = {**TRIAL, "policy": {"name": "private-nash", "epsilon": 1.0}, "groups": ["a"], "person": {}}
    with Store.open(f"sqlite:///{tmp_path}/data/store.db", clock=clock) as store:
        loop = store.create(**spec, reports={"spare": 2.0})
        for number in range(20):
            loop.decide(f"e-{number}")
            loop.reward(f"e-{number}", 1.0)
        clock.advance(61)
        store.tick()
        loop.release("fairness", epsilon=2.0)
        view = public_view(store, "trial-7")
        if source == "store":
            document = report_on_store(store, "trial-7")
        elif source == "tables":
            document = report_on_loop(view.loops["trial-7"], view.budgets["trial-7"], source="what is published")
        else:
            ledger = tmp_path / "data" / "ledgers" / "trial-7.db"
            document = report_on_ledger(ledger, loop.facts.policy, loop="trial-7")
    found = registry_entry(deployment_of(document))["deployment"]
    assert found["privacy_loss"]["privacy_parameters"] == {"epsilon": 3.0}
    assert found["dp_flavor"]["bound_on_output_distance"] == {"epsilon": 3.0}
    text = lines(document)
    assert "at most 20.1 times as likely" in text
    assert "epsilon = 3" in text


@pytest.mark.parametrize("reports", [False, True])
def test_a_report_on_a_ledger_counts_the_lives_of_its_loop(tmp_path, reports):
    """Under a new key of ids every event was learned (and reported) once more; a board was told epsilon 1, not 3."""
    clock, url, keyed = ManualClock(), f"sqlite:///{tmp_path}/data/store.db", tmp_path / "key-"
    spec = {**TRIAL, "policy": {"name": "private-nash", "epsilon": 1.0}, "person": {}}
    spec |= {"groups": ["a"], "reports": {"spare": 1.0}} if reports else {}
    for life in range(3):
        with Store.open(url, clock=clock, key_file=f"{keyed}{life}", new_key=life > 0) as store:
            loop = store.loop("trial-7") if life else store.create(**spec)
            for number in range(20):
                loop.decide(f"e-{number}")
                loop.reward(f"e-{number}", 1.0)
            clock.advance(61)
            store.tick()
            if reports and life == 0:
                loop.release("fairness", epsilon=1.0)
            policy, table = loop.facts.policy, public_view(store, "trial-7").loops["trial-7"]
    document = report_on_ledger(tmp_path / "data" / "ledgers" / "trial-7.db", policy, loop="trial-7")
    told = (table["total_guarantee"] or table["guarantee"])["epsilon"]
    assert told == (6.0 if reports else 3.0)
    found = registry_entry(deployment_of(document))["deployment"]
    assert found["privacy_loss"]["privacy_parameters"] == {"epsilon": told}
    assert "key of ids was lost 2 time(s)" in lines(document)


def test_what_protects_nobody_is_not_registered():
    loop = {
        "name": "x", "policy": {"name": "private-nash", "arms": 2, "epsilon": 1.0}, "guarantee": None, "rounds": 0,
        "published": {"arms": []}, "open_blocks": [], "created": "2026-01-01", "version": 0, "mode": "online",
        "reward": {"low": 0, "high": 1}, "ledger": "x", "simulated": True,
    }  # fmt: skip
    budget = {
        "spent": "0", "limit": "1", "reserved": "0", "remaining": "1", "epsilon": 0.0, "delta": 0.0, "unit": "",
        "accounts": [],
    }  # fmt: skip
    document = report_on_loop(loop, budget, source="tables")
    assert "protects nobody" in document.banner
    with pytest.raises(PrivacyError, match="registered"):
        registry_entry(deployment_of(document))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "what should the report be on"),
        (["--url", "http://127.0.0.1:1"], "which loop"),
        (["rows.csv"], "this is a CSV file"),
        (["data/store.db", "--loop", "other"], "which loop"),
        (["data/ledgers/trial-7.db", "--policy", "wrong.json"], "no account of this ledger belongs to this policy"),
        (["data", "--registry", "entry.txt"], "YAML"),
        (["--url", "http://127.0.0.1:1", "--loop", "trial-7", "--anytime"], "does not go with"),
    ],
)
def test_mistakes_get_a_sentence(words, said, folder, tmp_path):
    (tmp_path / "rows.csv").write_text("usual care,new drug\n0,1\n")
    wrong = {**TRIAL, "policy": {"name": "private-nash", "epsilon": 1.0}}
    (tmp_path / "wrong.json").write_text(json.dumps(wrong))
    problem = run(app, ["report", *words]).exception
    assert isinstance(problem, SpecError)
    assert said in str(problem)


def test_another_loop_does_not_read_the_numbers(folder):
    policy = policy_of(read_spec({**TRIAL, "policy": {"name": "private-nash", "epsilon": 2.0}}))
    with pytest.raises(SpecError, match="no account"):
        report_on_ledger(folder / "ledgers" / "trial-7.db", policy, loop="trial-8")
