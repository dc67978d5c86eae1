"""Every mutant and twin of 0.1.0 has a successor that is planted; what was joined is caught at the twins' budgets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fairveil import registry
from fairveil.proof.engine.adapter import adapters
from fairveil.proof.engine.everything import QUICK, Thing, caught_by, things
from fairveil.proof.mutants import mutants_of
from fairveil.proof.mutants.mutant import BUDGETS

PAGE = Path(__file__).parents[2] / "docs" / "guarantees" / "mutants.md"
ROWS = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|", PAGE.read_text(), re.M)


def planted(thing: Thing) -> list[str]:
    if thing.kind == "adapter":
        return [mutant.name for mutant in adapters()[thing.name]().mutants]
    target = {key: value for key, value in thing.target if key != "kind"}
    built = registry.build(thing.kind, target, thing.name)
    return [mutant.name for mutant in mutants_of(thing.kind, built)]


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
