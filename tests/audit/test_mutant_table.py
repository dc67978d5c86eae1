"""Every mutant and twin of 0.1.0 has a successor that is planted; what was joined is caught at the twins' budgets."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

from fairveil import registry
from fairveil.proof.engine.adapter import adapters
from fairveil.proof.engine.everything import QUICK, Thing, caught_by, things
from fairveil.proof.mutants import mutants_of
from fairveil.proof.mutants.mutant import BUDGETS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guarantees" / "mutants.md"
PAIRS = ROOT / "src" / "fairveil" / "proof" / "pairs"
ROWS = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|", PAGE.read_text(), re.M)


def planted(thing: Thing) -> list[str]:
    if thing.kind == "adapter":
        return [mutant.name for mutant in adapters()[thing.name]().mutants]
    target = {key: value for key, value in thing.target if key != "kind"}
    built = registry.build(thing.kind, target, thing.name)
    return [mutant.name for mutant in mutants_of(thing.kind, built)]


def laws_of(thing: Thing) -> list[str]:
    """The laws of an adapter, or of a kind."""
    if thing.kind == "adapter":
        return [law.__name__ for law in adapters()[thing.name]().laws]
    if thing.kind not in registry.names("laws"):
        return []
    return list(getattr(sys.modules[registry.get("laws", thing.kind).__module__], "LAWS", ()))


def test_every_name_of_the_table_is_planted():
    assert len([old for old, _ in ROWS if old.startswith("twin ")]) == 74
    assert len([old for old, _ in ROWS if not old.startswith("twin ")]) == 386
    assert len({old for old, _ in ROWS}) == 460
    known = {f"{thing.title}/{name}" for thing in things() for name in planted(thing)}
    assert {new for _, new in ROWS} <= known


@pytest.mark.parametrize("epsilon", BUDGETS)
@pytest.mark.parametrize("name", ["mechanism:laplace/half-noise", "mechanism:laplace/reused-noise", "sum:tree/no-clip"])
def test_a_joined_twin_is_caught_at_its_budgets(name, epsilon):
    title, _, mutant = name.rpartition("/")
    [thing] = [thing for thing in things((title.partition(":")[0],)) if thing.title == title]
    target = {**dict(thing.target), "epsilon": epsilon}
    thing = Thing(thing.kind, thing.name, tuple(target.items()), thing.pairs)
    built = registry.build(thing.kind, {key: value for key, value in target.items() if key != "kind"}, "thing")
    [made] = [one for one in mutants_of(thing.kind, built) if one.name == mutant]
    assert caught_by(thing, built, made, QUICK, "seeded", 0)


def test_the_table_of_breaks_names_what_is_there():
    """Tests that exist; laws, and mutants that are planted in the thing of which they are said; pairs; mistakes."""
    rows = [line.strip("| ") for line in (PAGE.parent / "breaks.md").read_text().splitlines() if line[:2] == "| "][1:]
    mistakes = {
        f"{path.stem}/{entry['name']}"
        for path in (ROOT / "tests" / "planted").glob("*.toml")
        for entry in tomllib.loads(path.read_text())["mistake"]
    }
    pairs = {name for file in PAIRS.glob("*.py") for name in re.findall(r"^def (\w+)", file.read_text(), re.M)}
    known = {thing.title: {*planted(thing), *laws_of(thing)} for thing in things()}
    anywhere = {*known, *mistakes, *pairs, *(name for thing in things() for name in laws_of(thing))}
    known[""] = set().union(*known.values())  # said of no thing
    assert len(rows) >= 40
    for row in rows:
        *_, tests, held = cells = [cell.strip() for cell in row.split(" | ")]
        assert len(cells) == 5
        assert all(cells), row
        assert all((ROOT / name).exists() for name in re.findall(r"`(tests/[^`]+)`", tests)), row
        title = ""
        for word in re.findall(r"`([^`]+)`", held):
            title = word if word in known else title
            assert word in anywhere or word in known[title], (word, row)
