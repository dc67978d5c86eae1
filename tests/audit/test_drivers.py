"""Drivers keep their laws, and every mistake planted in one breaks a law or is refused."""

from __future__ import annotations

import pytest

from fairveil import registry
from fairveil.errors import ContractError
from fairveil.laws import must
from fairveil.privacy.audit.drivers import Driver, find_driver
from fairveil.privacy.audit.everything import USUAL, Thing, examine, things
from fairveil.privacy.audit.mutants import Mutant
from fairveil.registry import register

NAMES = registry.names("driver")


@pytest.mark.parametrize("name", NAMES)
def test_a_driver_keeps_its_laws_and_every_mutant_is_caught(name):
    if name == "estimator":
        pytest.importorskip("sklearn")
    verdict = examine(Thing("driver", name, (), ()), USUAL)
    assert verdict.fine, verdict
    assert len(verdict.caught) >= 5
    assert all(verdict.caught.values())


def test_everything_that_serves_people_is_listed():
    assert {"agent", "drive", "estimator", "journal", "late", "ledger", "loop", "node"} <= set(NAMES)
    assert {thing.name for thing in things(("driver",))} == set(NAMES)
    planted = {mutant.name for name in NAMES for mutant in find_driver(name).mutants}
    for mutant in (
        *("charge-after-draw", "charge-left-out", "sync-left-out", "shown-before-stored", "drawn-again-on-retry"),
        *("seeded-for-secure", "raw-kept-after-release", "epoch-left-out", "fingerprint-left-out"),
    ):
        assert mutant in planted


def test_a_broken_law_and_an_escaped_mutant_fail():
    def broken(folder):
        """Never holds."""
        must(False, "it never holds")

    def fine(folder):
        """Always holds."""

    from contextlib import nullcontext

    with registry.isolated():
        register("driver", "broken")(lambda: Driver((broken,), ()))
        escaping = Mutant("nothing", "nothing is broken", lambda thing: nullcontext())
        register("driver", "blind")(lambda: Driver((fine,), (escaping,)))
        assert "broken: it never holds" in examine(Thing("driver", "broken", (), ()), USUAL).problem
        blind = examine(Thing("driver", "blind", (), ()), USUAL)
        assert blind.escaped == ["nothing"]
        assert not blind.fine
        with pytest.raises(ContractError, match="broken"):
            find_driver("broken").check()
