"""The command line as a person meets it: help with examples, results, errors with exit codes."""

import json
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from fairveil.cli import app, main

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
    (tmp_path / "bad.toml").write_text("task = ")
    assert "cannot be read" in run("run", tmp_path / "bad.toml", code=2).stderr


def test_list_and_explain(run):
    listed = json.loads(run("list", "policy", "--json").stdout)
    by_name = {row["name"]: row for row in listed}
    assert by_name["adap-ucb"]["guarantee"] == "pure global"
    assert by_name["ucb"]["guarantee"] == ""
    shown = run("explain", "adap-ucb").stdout
    for word in ("epsilon", "required", "guarantee", "Reference"):
        assert word in shown
    assert "did you mean" in run("explain", "adap-ucx", code=2).stderr
    assert "allowed" in run("list", "polici", code=2).stderr


def test_compare_and_results(run, spec, tmp_path):
    out = tmp_path / "out"
    shown = run("compare", spec, "--vary", "policy.epsilon=0.5,2", "--out", out, "--engine", "serial").stdout
    assert "policy.epsilon=0.5" in shown
    assert "Pareto" in shown
    assert (out / "index.html").exists()
    assert "adap-ucb" in run("results", "list", "--store", out / "results").stdout
    names = sorted(path.parent.name for path in (out / "results").rglob("provenance.json"))
    assert "policy" in run("results", "diff", names[0], names[1], "--store", out / "results").stdout
    exported = run("results", "export", names[0], "--store", out / "results").stdout
    assert exported.splitlines()[0] == "series,x,y,low,high"
    assert len(exported.splitlines()) > 10
    assert "no result" in run("results", "diff", "zz", "zz", "--store", out / "results", code=2).stderr


def test_reproduce_lists_and_suggests(run):
    shown = run("reproduce", "--list").stdout
    assert "dp-ncb/b" in shown
    assert "dp-ncb/" in run("reproduce", "dp-ncb/bb", code=2).stderr
    assert "scale" in run("reproduce", "dp-ncb/b", "--scale", "huge", code=2).stderr
