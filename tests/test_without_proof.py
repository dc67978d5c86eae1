"""A deployment without `fairveil.proof`: built-in names run and serve; audits and plug-in policies are refused."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from fairveil import contents

HIDE = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name == "fairveil.proof" or name.startswith("fairveil.proof."):
            raise ModuleNotFoundError(f"No module named {name!r}", name="fairveil.proof")

sys.meta_path.insert(0, Hidden())
"""


def run(code: str) -> str:
    found = subprocess.run([sys.executable, "-c", HIDE + code], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_built_in_names_run_and_are_listed():
    said = run("""
import fairveil
from fairveil import registry
from typer.testing import CliRunner
from fairveil.cli import app

spec = {"task": "bandit", "rounds": 60, "runs": 1, "policy": {"name": "private-nash", "epsilon": 1.0},
        "environment": {"name": "bernoulli", "means": [0.2, 0.7]}}
assert fairveil.run(spec)["guarantee"]["established"]
kinds = {entry.kind for entry in registry.entries()}
assert {"policy", "task", "mechanism"} <= kinds and not {"attack", "laws", "audit-pair"} & kinds, kinds
listed = CliRunner().invoke(app, ["list"], catch_exceptions=False)
assert listed.exit_code == 0 and "private-nash" in listed.output
assert CliRunner().invoke(app, ["serve", "--help"], catch_exceptions=False).exit_code == 0
import fairveil.service.app, fairveil.loop.loop
print("fine", "fairveil.proof" in sys.modules)
""")
    assert "fine False" in said


def test_audits_and_plug_in_policies_are_refused_with_the_reason():
    said = run("""
from fairveil.cli import app
from fairveil.errors import DependencyError, FairveilError
from fairveil import registry
from fairveil.bandits.nash.private_nash import PrivateNash
from fairveil.configuration import configuration
from fairveil.loop.accept import policy_of
from fairveil.loop.config import LoopSpec
from typer.testing import CliRunner

for words in (["audit", "laplace"], ["audit", "all"], ["attack"]):
    try:
        CliRunner().invoke(app, words, catch_exceptions=False)
    except DependencyError as problem:
        assert "without fairveil.proof" in str(problem), words
    else:
        raise AssertionError(words)

@registry.register("policy", "mine")
@configuration
class Mine(PrivateNash):
    "Mine."

table = {"name": "l", "actions": ["a", "b"]}
assert policy_of(LoopSpec.model_validate({**table, "policy": {"name": "private-nash", "epsilon": 1.0}})).arms == 2
try:
    policy_of(LoopSpec.model_validate({**table, "policy": {"name": "mine", "epsilon": 1.0}}))
except FairveilError as problem:
    print(problem)
""")
    assert "this policy cannot serve people: nobody can check it here" in said
    assert "without fairveil.proof" in said


def test_where_the_folder_is_gone_its_names_still_lead_to_it(tmp_path):
    house = Path(contents.__file__).parent
    for table in house.glob("*/names.txt"):
        if table.parent.name != contents.PROOF:
            (tmp_path / table.parent.name).mkdir()
            shutil.copy(table, tmp_path / table.parent.name)
    homes, audits = contents.tables(tmp_path)
    assert homes["task"]["audit"] == contents.HOMES["task"]["audit"] == "proof.engine.audit"
    assert set(homes) == set(contents.HOMES)
    there = [*homes["attack"].values(), *homes["laws"].values(), *audits]
    assert {module for module in there if (house / module.replace(".", "/")).exists()} == set(there) > {"proof.pairs"}
    assert homes["policy"] == contents.HOMES["policy"]
