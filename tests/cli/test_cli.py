"""The command line as a person meets it: help with examples, results, errors with exit codes."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from fairveil import registry
from fairveil.cli import app, common, main
from fairveil.lab.papers import MEASURED

RUNNER = CliRunner()
SPEC = """
task = "bandit"
rounds = 500
runs = 3
[policy]
name = "adap-ucb"
epsilon = 1.0
[environment]
name = "bernoulli"
means = [0.2, 0.8]
"""


@pytest.fixture
def run(capsys):
    """Call the command line in this process: what it printed, after checking its exit code."""

    def call(*arguments, code=0):
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        shown = capsys.readouterr()
        assert (ended.value.code or 0) == code, shown.out + shown.err
        return SimpleNamespace(stdout=shown.out, stderr=shown.err)

    return call


@pytest.fixture
def spec(tmp_path):
    (tmp_path / "first.toml").write_text(SPEC)
    return tmp_path / "first.toml"


def all_commands():
    names = [[command.name] for command in app.registered_commands]
    for group in app.registered_groups:
        names.append([group.name])
        names += [[group.name, c.name or c.callback.__name__] for c in group.typer_instance.registered_commands]
    return names


@pytest.mark.parametrize("command", all_commands(), ids=" ".join)
def test_every_command_has_help_with_an_example(command):
    shown = RUNNER.invoke(app, [*command, "--help"])
    assert shown.exit_code == 0
    assert "Example" in shown.output


def test_version_and_bare_call():
    assert "fairveil 0." in RUNNER.invoke(app, ["--version"]).output
    assert "run" in RUNNER.invoke(app, []).output


def test_run_prints_guarantee_and_metrics(run, spec, tmp_path):
    shown = run("run", spec, "--plot", tmp_path / "plot.svg").stdout
    assert "pure global privacy, epsilon 1" in shown
    assert "nash_regret" in shown
    assert "simulated" in shown
    assert (tmp_path / "plot.svg").exists()


def test_a_run_warns_of_groups_whose_ranks_are_still_unsure(run, tmp_path):
    file = tmp_path / "people.toml"
    budget = 'name = "batched-private-fair-greedy"\nepsilon = 1.0\ndelta = 1e-5\n'
    world = '[environment]\nname = "synthetic-census"\n'
    file.write_text(f'task = "bandit"\nrounds = 300\n[policy]\n{budget}{world}')
    result = json.loads(run("run", file, "--json").stdout)
    unsure = result["metrics"]["unsure_groups"]
    assert unsure
    shown = " ".join(run("run", file).stdout.split())
    assert f"warning: ranks of {', '.join(unsure)} are still unsure (rank_uncertainty above 0.05)" in shown


def test_run_json_is_the_result_and_engines_agree(run, spec):
    serial = json.loads(run("run", spec, "--json").stdout)
    processes = json.loads(run("run", spec, "--json", "--engine", "processes", "--workers", 2).stdout)
    assert {key: serial[key] for key in ("spec", "guarantee", "metrics", "series")} == {
        key: processes[key] for key in ("spec", "guarantee", "metrics", "series")
    }
    assert json.loads(run("run", spec, "--json", "--seed", 9).stdout)["spec"]["seed"] == 9


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (("epsilon = 1.0", "epsilon = -1.0"), "policy.epsilon"),
        (("epsilon = 1.0", "epsilon = nan"), "policy.epsilon"),
        (("epsilon = 1.0", 'epsilon = "1"'), "policy.epsilon"),
        (("epsilon = 1.0", "epsilon = 5e-324"), "policy.epsilon"),
        (("epsilon = 1.0", "epsilom = 1.0"), "policy.epsilom"),
        (('"adap-ucb"', '"adapucb"'), "policy.name"),
        (('"bernoulli"', '"bernouli"'), "environment.name"),
        (("means = [0.2, 0.8]", "means = [0.2, 1.8]"), "environment.means"),
        (("means = [0.2, 0.8]", "means = []"), "environment.means"),
        (("rounds = 500", "rounds = 0"), "rounds"),
        (("rounds = 500", "rounds = 500\ncheckpoints = [3, 2]"), "checkpoints"),
        (("rounds = 500", "rounds = 500\nhorizon = 2"), "horizon"),
    ],
)
def test_a_wrong_spec_exits_2_and_names_the_path(run, spec, change, path):
    spec.write_text(SPEC.replace(*change))
    done = run("run", spec, "--json", code=2)
    problem = json.loads(done.stdout)
    assert problem["error"] == "spec"
    assert problem["path"].startswith(path)
    assert "error" in done.stderr


def test_missing_and_unreadable_files_exit_2(run, tmp_path):
    assert "does not exist" in run("run", tmp_path / "no.toml", code=2).stderr
    assert "is a folder" in run("run", tmp_path, code=2).stderr
    (tmp_path / "bad.toml").write_text("task = ")
    assert "cannot be read" in run("run", tmp_path / "bad.toml", code=2).stderr
    (tmp_path / "bytes.toml").write_bytes(bytes(range(128, 256)))
    assert "cannot be read" in run("run", tmp_path / "bytes.toml", code=2).stderr
    (tmp_path / "list.json").write_text("[1, 2]")
    assert "a spec is a table" in run("run", tmp_path / "list.json", code=2).stderr


def test_what_cannot_work_is_refused_before_the_run(run, spec, tmp_path, monkeypatch):
    monkeypatch.setattr("fairveil.running.runner.run", lambda *_, **__: pytest.fail("it ran"))
    assert "cannot be drawn" in run("run", spec, "--plot", tmp_path / "plot.doc", code=2).stderr
    assert "for the ray engine" in run("run", spec, "--address", "10.0.0.5:6379", code=2).stderr


def test_a_place_that_cannot_be_written_exits_7_without_a_trace(run, spec, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    for option in ("--plot", "--store"):
        done = run("run", spec, option, blocked / "x.svg", code=7)
        assert done.stderr.startswith("error store: ")
        assert "Traceback" not in done.stderr
    assert "cannot be written" in run("compare", spec, "--out", blocked, "--engine", "serial", code=7).stderr
    assert "cannot be written" in run("demo", "--out", blocked, "--workers", 1, code=7).stderr
    kept = tmp_path / "kept"
    run("run", spec, "--store", kept)
    name = next(kept.glob("bandit/*")).name
    assert (
        "cannot be written" in run("results", "export", name, "--store", kept, "--file", blocked / "x", code=7).stderr
    )


def test_a_refusal_of_the_file_system_anywhere_is_one_line(run, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device", "somewhere")

    monkeypatch.setattr("fairveil.cli.explain.everything", full)
    assert run("list", code=7).stderr.startswith("error store: the file system refused: No space left on device")


def test_logs_stay_clean_where_nobody_watches(run, spec):
    assert run("run", spec).stderr == ""


def test_a_run_is_shown_with_the_end_of_courses_and_all_arms(run, spec):
    shown = run("run", spec).stdout
    assert "at the last checkpoint (500)" in shown
    [shares] = [line for line in shown.splitlines() if "pull_share" in line]
    assert shares.count("0.") == 2, "one share for each arm"
    assert "last of" not in shown


def test_nothing_empty_is_shown(capsys):
    from rich.console import Console

    from fairveil.cli.run import show

    metrics = {"loss": 0.5, "gap": [None, None], "lost": [], "by_group": {"f": None}}
    item = {"what": "weight", "name": "age", "value": 1.0, "low": None, "high": None}
    metrics["estimates"] = {"confidence": 0.95, "items": [item]}
    meta = {"simulated": True, "cpu_seconds": 0.0, "wall_seconds": 0.0, "peak_mb": 0.0}
    spec = {"task": "bandit", "seed": 1, "runs": 1}
    show({"spec": spec, "guarantee": None, "metrics": metrics, "series": {}, "meta": meta}, Console(width=80))
    shown = capsys.readouterr().out
    assert "loss" in shown
    assert not [word for word in ("gap", "lost", "by_group", " from ", " to ") if word in shown], shown


def test_a_key_that_is_missing_names_what_explains_it(run, tmp_path):
    spec = tmp_path / "q.toml"
    spec.write_text('task = "qualification"\nsteps = 5\n[groups.a]\nshare = 0.5\n[groups.b]\nshare = 0.5\n')
    assert "fairveil explain qualification says" in run("run", spec, code=2).stderr
    told = " ".join(run("explain", "task:qualification").stdout.split())
    assert "keys of groups.NAME" in told
    assert "[[unqualified rejected, accepted], [qualified rejected, accepted]]" in told
    spec.write_text('task = "bandit"\nrounds = 5\npolicy.name = "adap-ucb"\nenvironment.name = "bernoulli"\n')
    assert "fairveil explain adap-ucb says" in run("run", spec, code=2).stderr


def test_list_and_explain(run):
    listed = json.loads(run("list", "policy", "--json").stdout)
    by_name = {row["name"]: row for row in listed}
    assert by_name["adap-ucb"]["guarantee"] == "pure global"
    assert by_name["ucb"]["guarantee"] == ""
    shown = run("explain", "adap-ucb").stdout
    for word in ("epsilon", "required", "guarantee", "Reference"):
        assert word in shown
    assert "did you mean" in run("explain", "adap-ucx", code=2).stderr
    assert "did you mean policy" in run("list", "polici", code=2).stderr


def test_everything_registered_is_listed_in_full_and_explained(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    listed = json.loads(run("list", "--json").stdout)
    shown = run("list").stdout
    kinds = {row["kind"] for row in listed}
    assert kinds >= {
        "task",
        "policy",
        "environment",
        "mechanism",
        "sum",
        "learner",
        "dataset",
        "artefact",
        "audit-pair",
    }
    for row in listed:
        assert row["name"] in shown, "a name is never cut: people copy it"
        told = run("explain", f"{row['kind']}:{row['name']}").stdout
        assert "FieldInfo" not in told
        assert "PydanticUndefined" not in told


def test_brackets_in_a_summary_are_text_not_markup(run):
    assert "equal public bins of [low, high]" in " ".join(run("explain", "sum:histogram").stdout.split())
    assert "of [low, high]" in " ".join(run("list", "sum").stdout.split())


def test_sums_show_what_they_cost_and_tasks_their_keys(run):
    rows = json.loads(run("list", "sum", "--json").stdout)
    assert {row["guarantee"] for row in rows} == {"gaussian"}
    assert "GaussianEvent" in run("explain", "tree").stdout
    for key in ("rounds", "checkpoints", "environment", "seeded or secure"):
        assert key in run("explain", "bandit").stdout
    assert "number above 0, or none" in run("explain", "tree").stdout


def test_compare_and_results(run, spec, tmp_path):
    out = tmp_path / "out"
    shown = run("compare", spec, "--vary", "policy.epsilon=0.5,2", "--out", out, "--engine", "serial").stdout
    assert "policy.epsilon=0.5" in shown
    assert "Pareto" in shown
    page = (out / "index.html").read_text()
    assert "the specs differ in" in page
    assert re.search(r"decisions by the policy \S+ on \S+, [\d,]+ runs?, seed \d+", page)
    assert re.search(r"environment\.means</td><td[^>]*>\[", page), "what was run is said"
    assert "adap-ucb" in run("results", "list", "--store", out / "results").stdout
    names = sorted(path.parent.name for path in (out / "results").rglob("provenance.json"))
    assert "policy" in run("results", "diff", names[0], names[1], "--store", out / "results").stdout
    exported = run("results", "export", names[0], "--store", out / "results").stdout
    assert exported.splitlines()[0] == "series,x,y,low,high"
    assert len(exported.splitlines()) > 10
    slip = run(
        "compare", spec, "--vary", "policy.epsilon=0.5,2", "--metric", "nash_regert", "--engine", "serial", code=2
    ).stderr
    assert "did you mean nash_regret" in slip
    assert "Traceback" not in slip
    missing = tmp_path / "not made"
    run("compare", spec, "--metric", "nash_regert", "--out", missing, "--engine", "serial", code=2)
    assert not missing.exists(), "refused before any run"
    assert "no result" in run("results", "diff", "zz", "zz", "--store", out / "results", code=2).stderr


def test_compare_is_about_the_family_s_regret_and_tests_only_where_runs_differ(run, spec, tmp_path):
    arguments = ("--vary", "policy.epsilon=0.5,2", "--out", tmp_path / "out", "--engine", "serial")
    assert "nash_regret at the end" in run("compare", spec, *arguments).stdout
    spec.write_text(SPEC.replace("runs = 3", "runs = 1"))
    assert "no test" in run("compare", spec, *arguments).stdout
    assert "pull_share" not in run("compare", spec, "--metric", "nonsense", *arguments, code=2).stderr


def test_an_audit_of_a_name_without_a_pair_says_what_to_do(run):
    assert "register a pair of worlds" in run("audit", "oful", code=2).stderr
    assert "did you mean laplace" in run("audit", "laplac", code=2).stderr


def test_empty_results_say_where_they_would_be(run, tmp_path):
    assert f"no results in {tmp_path}" in run("results", "list", "--store", tmp_path).stdout


def test_reproduce_lists_and_suggests(run):
    assert "nothing was named" in run("reproduce", code=2).stderr
    assert "did you mean dp-ncb" in run("reproduce", "dpncb", code=2).stderr
    shown = run("reproduce", "--list").stdout
    assert "dp-ncb/b" in shown
    names = {row["name"] for row in json.loads(run("list", "artefact", "--json").stdout)}
    assert {name for name, costs in MEASURED.items() if "quick" in costs} == names
    assert "dp-ncb/" in run("reproduce", "dp-ncb/bb", code=2).stderr
    assert "scale" in run("reproduce", "dp-ncb/b", "--scale", "huge", code=2).stderr


def test_tables_fit_eighty_columns(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for command in (("list", "policy"), ("reproduce", "--list"), ("explain", "tree")):
        lines = run(*command).stdout.splitlines()
        assert all(len(line) <= 80 for line in lines)
    words = [line.split() for line in run("reproduce", "--list").stdout.splitlines()[4:] if line.strip()]
    assert sum(len(line) == 1 for line in words) < 0.1 * len(words), "no column of single words"


def test_help_is_short_to_ask_for_and_names_complete(run, monkeypatch):
    assert "Example: fairveil explain" in run("explain", "-h").stdout
    assert "--install-completion" in run("--help").stdout
    assert common.names("private-n") == ["private-nash"]
    assert common.names("policy:ldp-") == ["policy:ldp-ncb", "policy:ldp-ucb"]
    assert common.kinds("pol") == ["policy"]
    assert "dp-ncb/b" in common.artefacts("dp-ncb")
    assert common.data_sets("ad") == ["adult"]


def test_a_comparison_is_exported_as_asked(run, spec, tmp_path):
    files = [tmp_path / f"made.{kind}" for kind in ("json", "csv", "svg", "pdf")]
    given = [word for file in files for word in ("--export", file)]
    run("compare", spec, "--vary", "policy.epsilon=0.5,2", "--out", tmp_path / "out", "--engine", "serial", *given)
    document = json.loads(files[0].read_text())
    assert [row["epsilon"] for row in document["rows"]] == [0.5, 2.0]
    assert set(document["results"]) == {"policy.epsilon=0.5", "policy.epsilon=2"}
    assert files[1].read_text().splitlines()[0].startswith("run,")
    assert files[2].read_text().startswith("<svg")
    assert files[3].read_bytes().startswith(b"%PDF")
    assert ".csv" in run("compare", spec, "--export", tmp_path / "made.doc", code=2).stderr


def test_what_can_be_written_is_written_before_an_error_says_what_can_be_drawn(run, tmp_path):
    group = {"qualified": 0.5, "features": {"0": ["normal", -5, 5], "1": ["normal", 5, 5]}, "cost": ["uniform", 0, 1]}
    table = {"task": "strategic", "groups": {"a": group, "b": {**group, "qualified": 0.3}}, "points": 256}
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps(table))
    files = ["--export", tmp_path / "memo.svg", "--export", tmp_path / "memo.csv", "--out", tmp_path / "out"]
    asked = ["--vary", "fairness=none,dp", "--metric", "unfairness.dp", "--engine", "serial"]
    said = run("compare", spec, *asked, *files, code=2).stderr
    assert "nothing to draw" in said
    assert "utility_a" in said
    assert (tmp_path / "memo.csv").read_text().startswith("run,unfairness.dp")
    assert (tmp_path / "out" / "index.html").exists()


def test_a_stored_result_shows_its_budget(run, spec, tmp_path):
    said = run("run", spec, "--store", tmp_path).stdout
    [folder] = (tmp_path / "bandit").iterdir()
    assert f"result: {folder}" in said
    assert f"fairveil results export {folder.name} --store {tmp_path}" in said
    assert f"result: {folder}" in run("run", spec, "--store", tmp_path, "--json").stderr
    assert "epsilon 1" in run("results", "list", "--store", tmp_path).stdout


def test_tables_break_no_words_and_have_no_empty_columns(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    table = {"task": "bandit", "rounds": 100, "policy": {"name": "private-nash", "epsilon": 1.0},
             "environment": {"name": "bernoulli", "means": [0.2, 0.8]}}  # fmt: skip
    Path("spec.json").write_text(json.dumps(table))
    for words in (["compare", "spec.json", "--vary", "policy.epsilon=0.2,1,5", "--engine", "serial"],
                  ["run", "spec.json"]):  # fmt: skip
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 0
    told = capsys.readouterr().out
    assert all(f"policy.epsilon={value}" in told for value in ("0.2", "1", "5"))
    assert "std over runs" not in told


def test_a_plug_in_without_examples_is_listed_and_explained(tmp_path, capsys):
    (tmp_path / "mine.py").write_text(
        "from fairveil.bandits.protocol import Policy\n"
        "from fairveil.configuration import configuration\n"
        "from fairveil.fields import Count\n"
        "from fairveil.registry import register\n"
        "@register('policy', 'mine-test')\n"
        "@configuration\n"
        "class Mine(Policy):\n"
        "    'A policy of one.'\n"
        "    family = 'nash'\n"
        "    arms: Count\n"
        "    def start(self): return {}\n"
        "    def decide(self, state, round, rng): return None\n"
        "    def learn(self, state, feedback): return state\n"
    )
    with registry.isolated():
        for words in (["explain", "mine-test"], ["list", "policy"]):
            with pytest.raises(SystemExit) as ended:
                main([*words, "--plugin", str(tmp_path / "mine.py")])
            told = capsys.readouterr()
            assert ended.value.code == 0, told.err
            assert "A policy of one" in told.out
