"""Adapters keep their laws, and every mistake planted in one breaks a law or is refused."""

from __future__ import annotations

import pytest

from fairveil.errors import ContractError
from fairveil.proof.engine.adapter import Checks, adapters
from fairveil.proof.engine.everything import USUAL, Thing, examine, things
from fairveil.proof.laws import must
from fairveil.proof.mutants import Mutant

NAMES = list(adapters())


@pytest.mark.parametrize("name", NAMES)
def test_an_adapter_keeps_its_laws_and_every_mutant_is_caught(name):
    if name == "estimator":
        pytest.importorskip("sklearn")
    verdict = examine(Thing("adapter", name, (), ()), USUAL)
    assert verdict.fine, verdict
    assert len(verdict.caught) >= 5
    assert all(verdict.caught.values())


def test_everything_that_serves_people_is_listed():
    assert {"agent", "drive", "estimator", "journal", "late", "ledger", "loop", "node"} <= set(NAMES)
    assert {thing.name for thing in things(("adapter",))} == set(NAMES)
    planted = {mutant.name for name in NAMES for mutant in adapters()[name]().mutants}
    for mutant in (
        *("charge-after-draw", "charge-left-out", "sync-left-out", "shown-before-stored", "drawn-again-on-retry"),
        *("seeded-for-secure", "raw-kept-after-release", "epoch-left-out", "fingerprint-left-out"),
    ):
        assert mutant in planted


def test_a_broken_law_and_an_escaped_mutant_fail(monkeypatch):
    def broken(folder):
        """Never holds."""
        must(False, "it never holds")

    def fine(folder):
        """Always holds."""

    from contextlib import nullcontext

    escaping = Mutant("nothing", "nothing is broken", lambda thing: nullcontext())
    made = {"broken": lambda: Checks((broken,), ()), "blind": lambda: Checks((fine,), (escaping,))}
    monkeypatch.setattr("fairveil.proof.engine.everything.adapters", lambda: made)
    assert "broken: it never holds" in examine(Thing("adapter", "broken", (), ()), USUAL).problem
    blind = examine(Thing("adapter", "blind", (), ()), USUAL)
    assert blind.escaped == ["nothing"]
    assert not blind.fine
    with pytest.raises(ContractError, match="broken"):
        made["broken"]().check()
