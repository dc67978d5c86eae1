"""Laws of private reports, and planted mistakes: every one is caught by an audit or by a law."""

from __future__ import annotations

import pytest

from fairveil.proof.engine.everything import QUICK, caught_by, examine, things
from fairveil.proof.laws.reports import check_report
from fairveil.proof.mutants import mutants_of
from fairveil.registry import example, get

NAMES = ("fairness", "evaluation")
BUILT = {name: example(get("report", name)) for name in NAMES}
PLANTED = [(name, mutant.name) for name in NAMES for mutant in mutants_of("report", BUILT[name])]
LISTED = {thing.title: thing for thing in things()}


@pytest.mark.parametrize("name", NAMES)
def test_laws_are_kept(name):
    assert check_report(BUILT[name])[0] == "sensitivity_is_kept"


@pytest.mark.parametrize("name, mutant", PLANTED)
def test_mistakes_are_caught(name, mutant):
    [planted] = [one for one in mutants_of("report", BUILT[name]) if one.name == mutant]
    assert caught_by(LISTED[f"report:{name}"], BUILT[name], planted, QUICK, "seeded", 1)


@pytest.mark.parametrize("name", NAMES)
def test_audits_stand_and_have_power(name):
    verdict = examine(LISTED[f"report:{name}"], QUICK)
    assert verdict.fine
    assert verdict.power is not None
