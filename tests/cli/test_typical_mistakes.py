"""Typical mistakes of new users, each through the library and through the command line.

Every one gets the project's own error: where it is, what was given, what is allowed, what to do; never a trace, never
what a cell of somebody's table holds. The list is the documentation of what was tried.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from typing import Any

import pytest

import fairveil
from fairveil.cli import main
from fairveil.errors import FairveilError

SECRET = "private-cell"
LOG = "drug,recovered,p\n" + "a,1,0.5\nb,0,0.5\n" * 400
STAFF = "years,sex,rating\n" + "3,f,4\n9,m,7\n5,f,5\n7,m,6\n" * 50
FILES = {
    "log.csv": LOG,
    "ragged.csv": LOG + "a,1,0.5,9\n",
    "words.csv": LOG + f"a,{SECRET},0.5\n",
    "empty-cell.csv": LOG + ",1,0.5\n",
    "never.csv": LOG + "a,1,0\n",
    "headless.csv": "",
    "latin.csv": None,
    "staff.csv": STAFF,
    "staff-nan.csv": STAFF + "nan,f,4\n",
    "staff-other.csv": STAFF + f"4,{SECRET},4\n",
}
TRIAL = {
    "task": "bandit",
    "rounds": 100,
    "policy": {"name": "private-nash", "epsilon": 1.0},
    "environment": {"name": "bernoulli", "means": [0.2, 0.8]},
}
REPLAY = {
    **TRIAL,
    "environment": {"name": "logged", "log": {"file": "log.csv", "arm": "drug", "outcome": "recovered"}},
}
HIRING = {
    "task": "bandit",
    "rounds": 50,
    "policy": {"name": "batched-private-fair-greedy", "epsilon": 1.0, "delta": 1e-5},
    "environment": {
        "name": "people",
        "file": "staff.csv",
        "outcome": "rating",
        "high": 10.0,
        "groups_by": ["sex"],
        "columns": {"years": {"low": 0, "high": 20}, "sex": {"values": ["f", "m"]}},
    },
}
VALUE = {
    "task": "evaluate",
    "log": {"file": "log.csv", "arm": "drug", "outcome": "recovered", "propensity": "p"},
    "target": {"name": "arm", "arm": "a"},
}
GONE = object()
"""Stands for a key that was left out."""


@dataclass(frozen=True)
class Mistake:
    """What somebody did to a spec that works: keys by their path, and where the error must point."""

    words: str
    spec: dict[str, Any]
    changes: dict[str, Any]
    path: str
    omission: bool = field(default=False)
    """Something is missing, so there is nothing that was given."""


SPECS = [
    Mistake("no task", TRIAL, {"task": GONE}, "task", omission=True),
    Mistake("a task that does not exist", TRIAL, {"task": "bandits"}, "task"),
    Mistake("a misspelt key", TRIAL, {"round": 100}, "round", omission=True),
    Mistake("a misspelt policy", TRIAL, {"policy.name": "privat-nash"}, "policy.name"),
    Mistake("a misspelt environment", TRIAL, {"environment.name": "bernouli"}, "environment.name"),
    Mistake("a misspelt parameter", TRIAL, {"policy.epsilom": 1.0}, "policy.epsilom", omission=True),
    Mistake("a policy of another family", TRIAL, {"policy.name": "fair-greedy", "policy.epsilon": GONE}, "policy.name"),
    Mistake("no epsilon", TRIAL, {"policy.epsilon": GONE}, "policy.epsilon", omission=True),
    Mistake("an epsilon of nothing", TRIAL, {"policy.epsilon": 0.0}, "policy.epsilon"),
    Mistake("an epsilon in quotes", TRIAL, {"policy.epsilon": "1.0"}, "policy.epsilon"),
    Mistake("a delta of one", HIRING, {"policy.delta": 1.0}, "policy.delta"),
    Mistake("no rounds", TRIAL, {"rounds": 0}, "rounds"),
    Mistake("half a round", TRIAL, {"rounds": 100.5}, "rounds"),
    Mistake("a checkpoint after the end", TRIAL, {"checkpoints": [50, 200]}, "checkpoints"),
    Mistake("a horizon that is too short", TRIAL, {"policy.name": "gdp-ncb", "policy.horizon": 50}, "policy.horizon"),
    Mistake("means in percent", TRIAL, {"environment.means": [20.0, 80.0]}, "environment.means"),
    Mistake("arms that do not match", TRIAL, {"policy.arms": 3}, "policy.arms"),
    Mistake("noise of another name", TRIAL, {"noise": "secret"}, "noise"),
    Mistake("a delay longer than the window", TRIAL, {"feedback": {"delay": 20, "window": 5}}, "feedback.window"),
    Mistake("a file that is not there", REPLAY, {"environment.log.file": "nowhere.csv"}, "file"),
    Mistake("a folder instead of a file", REPLAY, {"environment.log.file": "."}, "file"),
    Mistake("an empty file", REPLAY, {"environment.log.file": "headless.csv"}, "file"),
    Mistake("a file that is not UTF-8", REPLAY, {"environment.log.file": "latin.csv"}, "file"),
    Mistake("a row with a cell too many", REPLAY, {"environment.log.file": "ragged.csv"}, "file"),
    Mistake("a misspelt column", REPLAY, {"environment.log.outcome": "recoverd"}, "environment.log.outcome"),
    Mistake("words where numbers should be", REPLAY, {"environment.log.file": "words.csv"}, "recovered", omission=True),
    Mistake("an empty cell", REPLAY, {"environment.log.file": "empty-cell.csv"}, "drug", omission=True),
    Mistake("more rounds than the log serves", REPLAY, {"rounds": 700}, "rounds"),
    Mistake(
        "a range upside down", REPLAY, {"environment.log.low": 1.0, "environment.log.high": 0.0}, "environment.log.low"
    ),
    Mistake(
        "groups that are not declared",
        HIRING,
        {"environment.columns.sex": GONE},
        "environment.columns.sex",
        omission=True,
    ),
    Mistake("not a number in a feature", HIRING, {"environment.file": "staff-nan.csv"}, "years", omission=True),
    Mistake("a value that is not declared", HIRING, {"environment.file": "staff-other.csv"}, "sex", omission=True),
    Mistake(
        "the outcome among the columns",
        HIRING,
        {"environment.columns.rating": {"low": 0, "high": 10}},
        "environment.columns.rating",
        omission=True,
    ),
    Mistake(
        "a draft on real people", HIRING, {"environment.declared": "drafted", "noise": "secure"}, "environment.declared"
    ),
    Mistake("many secure runs on the same people", HIRING, {"noise": "secure", "runs": 10}, "runs"),
    Mistake("no propensities", VALUE, {"log.propensity": GONE}, "log.propensity", omission=True),
    Mistake("a propensity of zero", VALUE, {"log.file": "never.csv"}, "p", omission=True),
    Mistake("a private value without a clip", VALUE, {"epsilon": 1.0, "log.arms": ["a", "b"]}, "clip", omission=True),
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(b"drug,recovered\nb\xe9ta,1\n" if content is None else content.encode())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def made(mistake: Mistake) -> dict[str, Any]:
    spec = copy.deepcopy(mistake.spec)
    for path, value in mistake.changes.items():
        *parents, key = path.split(".")
        table = spec
        for parent in parents:
            table = table[parent]
        if value is GONE:
            del table[key]
        else:
            table[key] = value
    return spec


def test_the_specs_work_without_the_mistakes(folder):
    for spec in (TRIAL, REPLAY, HIRING, VALUE):
        assert fairveil.run(spec)["metrics"]


@pytest.mark.parametrize("mistake", SPECS, ids=lambda mistake: mistake.words)
def test_mistakes_in_a_spec(mistake, folder, capsys):
    with pytest.raises(FairveilError) as caught:
        fairveil.run(made(mistake))
    problem = caught.value
    assert problem.path == mistake.path
    assert problem.allowed or mistake.omission, str(problem)
    assert problem.fix, str(problem)
    assert problem.given is not None or mistake.omission, str(problem)
    assert SECRET not in str(problem)
    (folder / "spec.json").write_text(json.dumps(made(mistake)))
    answer = command(["run", "spec.json", "--json"], capsys, problem.exit_code)
    told = json.loads(answer.out.splitlines()[-1])
    assert (told["error"], told["path"], told["fix"]) == (problem.code, problem.path, problem.fix)


def command(arguments, capsys, code):
    """A call that must fail with this exit code and one line of our own."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    answer = capsys.readouterr()
    assert ended.value.code == code
    assert answer.err.startswith("error ")
    assert "Traceback" not in answer.err + answer.out
    assert SECRET not in answer.err + answer.out
    return answer


STREAM = ["release", "--in", "n.csv", "--column", "n", "--epsilon", "1", "--delta", "1e-6", "--horizon", "20"]
COMMANDS = [
    ("a spec that is not there", ["run", "nowhere.toml"], 2, "check the path"),
    ("a table instead of a spec", ["run", "log.csv"], 2, "examples/first.toml"),
    ("a folder instead of a spec", ["run", "."], 2, "name a file"),
    ("an engine that does not exist", ["run", "spec.json", "--engine", "spark"], 2, "serial"),
    ("a picture of another kind", ["run", "spec.json", "--plot", "plot.docx"], 2, ".svg"),
    ("a plug-in that is not there", ["run", "spec.json", "--plugin", "mine.py"], 2, "mine.py"),
    ("a name that does not exist", ["explain", "privat-nash"], 2, "private-nash"),
    ("a grid without values", ["compare", "spec.json", "--vary", "policy.epsilon"], 2, "path=value"),
    ("a ledger that is not there", ["ledger", "show", "ledger.db"], 5, "ledger"),
    ("a report on nothing", ["report", "nowhere.json"], 5, "check the path"),
    ("a report on a spec", ["report", "spec.json"], 2, "fairveil run --json"),
    ("a draft of a table that is not there", ["schema", "nowhere.csv"], 3, "check the path"),
    ("a draft without an outcome", ["schema", "staff.csv", "--outcome", "grade"], 2, "rating"),
    ("a report on a table", ["report", "log.csv"], 2, "this is a CSV file"),
    ("a report on a log", ["report", "log.csv"], 2, "[environment.log] file"),
    ("a report on a stream's table", ["report", "log.csv"], 2, "fairveil release --in"),
    ("a table instead of a ledger", ["ledger", "show", "log.csv"], 5, "this is a CSV file"),
    ("a log instead of a ledger", ["ledger", "show", "log.csv"], 5, "[environment.log] file"),
    ("a stream's table instead of a ledger", ["ledger", "show", "log.csv"], 5, "fairveil release --in"),
    ("a table instead of a ledger to check", ["ledger", "verify", "log.csv"], 5, "this is a CSV file"),
    ("a report on a file of another kind", ["report", "model.joblib"], 5, "this is not a ledger"),
    ("a spec that is cut off", ["run", "broken.json"], 2, "cannot be read"),
    ("no workers", ["run", "spec.json", "--workers", "0"], 2, "at least 1"),
    ("a ledger for an invented world", ["run", "spec.json", "--ledger", "new.db"], 2, "leave --ledger out"),
    ("a plan of nothing", ["plan", "nowhere.toml"], 2, "check the path"),
    ("a plan of a table", ["plan", "log.csv"], 2, "cannot be read"),
    ("a quote of nothing", ["quote", "nowhere.toml"], 2, "check the path"),
    ("a quote of a table", ["quote", "log.csv"], 2, "cannot be read"),
    ("an audit of nothing", ["audit", "nowhere.toml"], 2, "check the path"),
    ("an attack of another name", ["attack", "nothing"], 2, "membership"),
    ("a figure that does not exist", ["reproduce", "nothing"], 2, "--list"),
    ("a federation that is not there", ["federate", "check", "nowhere.toml"], 2, "check the path"),
    ("a draft of a folder", ["schema", "."], 3, "it is a folder"),
    ("a draft with an arm that is no column", ["schema", "log.csv", "--arm", "nothing"], 2, "drug, recovered, p"),
    ("a list with a plug-in that is not there", ["list", "policy", "--plugin", "nowhere.py"], 2, "check the path"),
    ("a kind and a name that do not exist", ["explain", "kind:nothing"], 2, "kind:name"),
    ("an audit without a target", ["audit"], 2, "fairveil audit laplace"),
    ("an audit of a trial", ["audit", "spec.json"], 2, "allowed: audit"),
    ("an audit without trials", ["audit", "laplace", "--trials", "0"], 2, "at least 1"),
    ("an audit of a negative budget", ["audit", "laplace", "--epsilon", "-1"], 2, "out of range"),
    ("a signature without a reason", ["audit", "--sign", "nothing", "--why", "short"], 2, "in one sentence"),
    ("a tour without workers", ["demo", "--workers", "0", "--out", "."], 2, "at least 1"),
    ("a tour into a file", ["demo", "--out", "log.csv"], 7, "choose another folder"),
    ("a comparison into a file", ["compare", "spec.json", "--out", "log.csv"], 7, "choose another folder"),
    ("a figure into a file", ["reproduce", "dp-ncb/b", "--out", "log.csv"], 7, "choose another folder"),
    ("a plan below a file", ["plan", "spec.json", "--out", "log.csv/plan.html"], 7, "choose another folder"),
    ("a plot below a file", ["run", "spec.json", "--plot", "log.csv/plot.html"], 7, "choose another folder"),
    ("half a range", [*STREAM, "--range", "5"], 2, "--range 0,500"),
    ("a season in words", [*STREAM, "--seasons", "x"], 2, "--seasons 24"),
    (
        "a stream drawn as a letter",
        [*STREAM, "--out", "o.csv", "--plot", "o.docx"],
        2,
        ".svg",
    ),
    ("a stream of nothing", [*STREAM, "--in", "nowhere.csv"], 2, "check the path"),
    ("a stream with half a budget", [*STREAM[:7], "--horizon", "20"], 2, "given 'epsilon = 1'"),
    ("a stream without a budget", [*STREAM[:5], "--horizon", "20"], 2, "given 'no budget'"),
    ("a stream of another column", [*STREAM, "--column", "m"], 2, "allowed: n"),
    ("an arm without a mean", ["plan", "spec.json", "--arm", "x"], 2, "new drug=0.55"),
    ("an arm too few", ["plan", "spec.json", "--arm", "a=0.3"], 2, "allowed: 2 arms"),
    ("an arm of the spec too few", ["plan", "replay.json", "--arm", "b=0.3"], 2, "--arm 'a=MEAN'"),
    ("means in percent in a plan", ["plan", "spec.json", "--arm", "a=70", "--arm", "b=20"], 2, "0.2 for 20 %"),
    ("a chance above one", ["plan", "spec.json", "--chance", "2"], 2, "between 0 and 1"),
    ("a guess that is not there", ["quote", "spec.json", "--guess", "nowhere.json"], 2, "check the path"),
    ("a report as a letter", ["report", "spec.json", "--out", "x.docx"], 2, ".html, .md"),
    ("a report on which loop", ["report", "--url", "http://127.0.0.1:9"], 2, "fairveil loop list"),
    ("a spec of brackets alone", ["run", "deep.json"], 2, "cannot be read"),
    ("semicolons instead of commas", [*STREAM, "--in", "semi.csv"], 2, "separate cells by commas"),
    ("a column that is there twice", [*STREAM, "--in", "twice.csv"], 2, "rename one"),
    ("a table instead of a store of results", ["results", "list", "--store", "log.csv"], 2, "name a folder"),
    ("results of another name", ["results", "diff", "a", "b", "--store", "."], 2, "fairveil results list"),
    ("an export of nothing", ["results", "export", "nothing", "--store", "."], 2, "fairveil results list"),
    ("a data set of another name", ["data", "fetch", "nothing"], 2, "adult"),
    ("a check of no data set", ["data", "verify", "nothing"], 2, "adult"),
    ("the released column as its own times", [*STREAM, "--time", "n"], 2, "times are printed as they are"),
    ("a time column that is not there", [*STREAM, "--time", "t", "--step", "1h"], 2, "allowed: n"),
    ("one column for arm and outcome", ["schema", "log.csv", "--arm", "drug", "--outcome", "drug"], 2, "two columns"),
    ("an address that is none", ["loop", "show", "x", "--url", "ftp://nowhere"], 2, "http:// or https://"),
    ("a report below a file", ["report", "spec.json", "--out", "log.csv/report.html"], 2, "fairveil run --json"),
    (
        "a word where a number is varied",
        ["compare", "spec.json", "--vary", "rounds=abc", "--out", "."],
        2,
        "a whole number",
    ),
    ("the same spec twice", ["compare", "spec.json", "spec.json", "--out", "."], 2, "rename one"),
    ("a kind that does not exist", ["list", "nothing"], 2, "policy"),
    ("a scale that does not exist", ["reproduce", "dp-ncb/b", "--scale", "huge"], 2, "quick, standard, paper"),
    ("a store of another kind", ["serve", "--store", "mysql://x"], 2, "postgresql://user@host/database"),
    ("a table as an anchor", ["ledger", "verify", "model.joblib", "--anchor", "log.csv"], 5, "one line of JSON"),
    (
        "a service that does not run",
        ["report", "--url", "http://127.0.0.1:9", "--loop", "x"],
        7,
        "`fairveil serve` starts one",
    ),
    ("a report without a service", ["report", "--url", "http://127.0.0.1:9", "--loop", "x"], 7, "store.db --loop x"),
]


@pytest.mark.parametrize(("words", "arguments", "code", "help"), COMMANDS, ids=[row[0] for row in COMMANDS])
def test_mistakes_on_the_command_line(words, arguments, code, help, folder, capsys):
    (folder / "spec.json").write_text(json.dumps(TRIAL))
    (folder / "replay.json").write_text(json.dumps(REPLAY))
    (folder / "broken.json").write_text("{")
    (folder / "model.joblib").write_bytes(b"\x80\x04joblib" * 100)
    (folder / "n.csv").write_text("n\n12\n1e308\n")
    (folder / "semi.csv").write_text("t;n\n1;12\n")
    (folder / "twice.csv").write_text("n,n\n12,13\n")
    (folder / "deep.json").write_text("[" * 5000 + "]" * 5000)
    before = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
    assert help in command(arguments, capsys, code).err
    assert {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()} == before


def test_there_are_sixty():
    assert len(SPECS) + len(COMMANDS) >= 60


FORMULA = '''
import math
from typing import NamedTuple

from fairveil.bandits.nash.index import index_of
from fairveil.bandits.nash.sequential import SequentialPolicy
from fairveil.configuration import configuration
from fairveil.fields import Count, Positive
from fairveil.registry import register


class Numbers(NamedTuple):
    width: float


@index_of(Numbers)
def index(numbers, mean, n, log_now, draws):
    return mean + math.sqrt(numbers.width * log_now / n)


@register("policy", "NAME")
@configuration
class Mine(SequentialPolicy):
    """An index of one's own. Guarantee: none. Cost: none."""

    arms: Count
    width: Positive = 0.5
    strict: bool = False

    def numbers(self):
        return Numbers(self.width)
'''
SLIPS = {
    "attribute": ("numbers.width *", "numbers.widht *", "widht", 18),
    "name": ("math.sqrt(", "mth.sqrt(", "name 'mth' is not defined", 18),
    "function": ("math.sqrt(", "math.sqrrt(", "sqrrt", 18),
    "types": ("mean + math", "[mean] + math", "no such operation on these types", 18),
    "nought": ("log_now / n", "log_now / (n - n)", "division by zero", 16),
    "root": ("sqrt(numbers", "sqrt(-numbers", "the index is not a number", 16),
    "arguments": ("log_now, draws)", "log_now)", "too many positional arguments", 16),
    "method": ("Numbers(self.width)", "Numbers(self.widht)", "no attribute 'widht'", 31),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_in_the_code_of_a_plug_in_is_a_sentence_with_its_file_and_line(slip, folder, capsys):
    was, now, words, line = SLIPS[slip]
    (folder / f"{slip}.py").write_text(FORMULA.replace("NAME", f"mine-{slip}").replace(was, now))
    spec = {**TRIAL, "policy": {"name": f"mine-{slip}"}}
    (folder / "spec.json").write_text(json.dumps(spec))
    told = command(["run", "spec.json", "--plugin", f"{slip}.py"], capsys, 2).err
    assert words in told
    assert f"'{slip}.py, line {line}'" in told
    assert len(told.splitlines()) == 1
