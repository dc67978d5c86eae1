"""Adapters keep their laws, and every mistake planted in one breaks a law or is refused."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fairveil import registry
from fairveil.contents import HOMES
from fairveil.errors import ContractError
from fairveil.proof.engine.adapter import Checks, adapters
from fairveil.proof.engine.everything import KINDS, USUAL, Thing, examine, things
from fairveil.proof.laws import must
from fairveil.proof.laws.costs import BESIDE, WHERE
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
    for mutant in adapters()[name]().mutants:
        if mutant.breaks:
            assert verdict.caught[mutant.name] == f"law {mutant.breaks}"


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


def test_the_law_that_a_mutant_names_is_asked_first_and_the_others_where_it_holds():
    asked = []

    def law(name):
        def asks(folder):
            asked.append(name)
            must(name == "dear", "it is broken")

        asks.__name__ = name
        return asks

    checks = Checks((law("dear"), law("cheap"), law("last")), ())
    for breaks, by, seen in (
        ("", "cheap", ["dear", "cheap"]),
        ("last", "last", ["last"]),
        ("dear", "cheap", ["dear", "cheap"]),
    ):
        asked.clear()
        mutant = Mutant("one", "one mistake", breaks=breaks)
        assert checks.caught_by(mutant) == f"law {by}"
        assert asked == seen


def test_the_guide_says_of_every_adapter_what_it_serves():
    guide = Path(__file__).parents[2] / "docs" / "guides" / "audit.md"
    rows = [line.split(" | ")[0] for line in guide.read_text().splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in row.strip("| ").replace("`", "").split(", ")} == set(NAMES)


#: Kinds that make promises and have no laws of their kind, and what holds them instead.
LAWLESS = {"mechanism": "pairs of worlds and mutants", "federation": "the adapters of its agents and nodes"}


def promising(kind):
    """Whether a thing of this kind says what it costs or promises."""
    return any(hasattr(entry.target, "guarantee") or hasattr(entry.target, "event") for entry in registry.entries(kind))


def without_laws(kinds):
    known = {entry.name for entry in registry.entries("laws")}
    return {kind for kind in kinds if promising(kind) and (kind not in known or kind not in KINDS)}


def test_a_kind_that_promises_privacy_has_laws():
    assert without_laws(HOMES) == set(LAWLESS)
    with registry.isolated():

        @registry.register("tally", "one")
        class Tally:
            def guarantee(self): ...

        assert without_laws([*HOMES, "tally"]) == {*LAWLESS, "tally"}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_says_where_its_exact_cost_is_computed(kind):
    assert (kind in WHERE) != (kind in BESIDE)
    if kind in WHERE:
        laws = sys.modules[registry.get("laws", kind).__module__]
        assert WHERE[kind] in getattr(laws, "LAWS", {"noise_is_enough": None})
