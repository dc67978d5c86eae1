"""Mistakes planted in the served methods of policies are caught by their audits and laws."""

import pytest

from fairveil.proof.engine.everything import AuditEffort, examine, things

THINGS = {thing.name: thing for thing in things(("policy",))}
SEATS = {"pool-by-content", "seat-by-value", "seat-at-the-answer", "second-seat", "pool-count-read"}
"""Broken twins of releases by arrival; the sixth, seats by key inside a written batch, is a loop's."""
CHECKED = AuditEffort("mutants", 1.0, (), mutants=True)


@pytest.mark.parametrize("name", ["private-nash", "local-nash"])
def test_every_mutant_is_caught(name):
    verdict = examine(THINGS[name], CHECKED)
    assert verdict.fine, verdict
    expected = {"raw-report"} if name == "local-nash" else {"no-clip", "row-kept", "closed-by-content", *SEATS}
    assert {"no-noise", "half-noise", "reused-noise"} | expected <= set(verdict.caught)


@pytest.mark.parametrize("name", THINGS)
def test_every_private_policy_has_worlds_and_mutants(name):
    from fairveil import registry
    from fairveil.proof.mutants import mutants_of

    thing = THINGS[name]
    assert thing.pairs
    table = {key: value for key, value in thing.target if key not in ("kind", "pair")}
    assert len(mutants_of("policy", registry.build("policy", table, "policy"))) >= 4
