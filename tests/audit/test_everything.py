"""Everything that promises privacy is audited, with power; what is left out is said."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from fairveil import registry
from fairveil.cli import app
from fairveil.errors import AuditViolation
from fairveil.privacy.mechanisms import Laplace
from fairveil.proof.engine import audit_all
from fairveil.proof.engine.adapter import adapters
from fairveil.proof.engine.bounds import FinerClaim
from fairveil.proof.engine.everything import KINDS, QUICK, AuditEffort, Thing, Verdict, examine, things
from fairveil.proof.pairs import AuditPair
from fairveil.registry import register

LISTED = {thing.title: thing for thing in things()}


def test_everything_private_is_listed_with_a_pair_of_worlds():
    for title in (*(f"mechanism:{name}" for name in registry.names("mechanism")), "sum:tree", "policy:private-nash"):
        assert title in LISTED
    driven = {thing.title for thing in LISTED.values() if not thing.pairs or not thing.target}
    assert driven == {f"adapter:{name}" for name in adapters()}
    assert {thing.kind for thing in LISTED.values()} <= set(KINDS)


def test_nothing_without_a_promise_is_listed():
    assert "policy:ucb" not in LISTED
    assert "learner:logistic" not in LISTED


def test_a_sound_thing_stands_and_its_power_is_stated():
    verdict = examine(LISTED["mechanism:laplace"], AuditEffort("small", 0.2, (0.9, 0.8, 0.5), mutants=True))
    assert verdict.fine
    assert verdict.epsilon == 1.0
    assert 0.7 < verdict.lower <= 1.0
    assert verdict.power in (0.8, 0.9)
    assert set(verdict.caught) == {"no-noise", "half-noise", "reused-noise", "wrong-sensitivity", "float-noise"}
    assert all(verdict.caught.values())


def test_a_thing_without_worlds_is_said_to_be_unaudited():
    verdict = examine(Thing("mechanism", "laplace", LISTED["mechanism:laplace"].target, ()), QUICK)
    assert not verdict.fine
    assert "not audited" in verdict.problem


def test_a_broken_promise_and_stale_noise_are_found():
    with registry.isolated():

        @register("audit-pair", "mechanism:laplace/broken")
        def broken(mechanism):
            weak = Laplace(sensitivity=1.0, epsilon=2 * mechanism.epsilon)
            return AuditPair(lambda world, n, noise, rng: weak.releases(float(world), noise, n), "0 or 1", "value", 1.0)

        @register("audit-pair", "mechanism:laplace/stale")
        def stale(mechanism):
            return AuditPair(lambda world, n, noise, rng: [world * 0.0] * n, "0 or 1", "value", 1.0)

        target = LISTED["mechanism:laplace"].target
        assert examine(Thing("mechanism", "laplace", target, ("mechanism:laplace/broken",)), QUICK).violated
        found = examine(Thing("mechanism", "laplace", target, ("mechanism:laplace/stale",)), QUICK)
        assert "afresh" in found.problem
        assert found.power is None


def test_the_command_shows_one_table_and_fails_where_something_fails(monkeypatch):
    few = [LISTED["mechanism:laplace"], LISTED["mechanism:one-bit"]]
    monkeypatch.setattr(audit_all, "things", lambda: few)
    shown = CliRunner().invoke(app, ["audit", "all", "--quick", "--workers", "1"], catch_exceptions=False)
    assert shown.exit_code == 0
    assert "mechanism:one-bit" in shown.output
    assert "2 of 2 planted mutants caught" in shown.output
    as_json = CliRunner().invoke(app, ["audit", "all", "--quick", "--workers", "1", "--json"], catch_exceptions=False)
    table = json.loads(as_json.stdout)
    assert [thing["title"] for thing in table["things"]] == [thing.title for thing in few]
    monkeypatch.setattr(audit_all, "examine", lambda *args, **more: Verdict("x"))
    with pytest.raises(AuditViolation, match="not everything was audited"):
        CliRunner().invoke(app, ["audit", "all", "--quick", "--workers", "1"], catch_exceptions=False)

    def fails(thing, **more):
        return Verdict(thing.title, problem="no pair", left_out=dict.fromkeys(thing.pairs, "of no use"))

    monkeypatch.setattr(audit_all, "examine", fails)
    with pytest.raises(AuditViolation, match="do not stand"):
        CliRunner().invoke(app, ["audit", "all", "--quick", "--workers", "1"], catch_exceptions=False)


#: Things, and pairs of worlds, that an installation without plug-ins audits. A smaller number means that one got lost.
THINGS, PAIRS = 53, 92


def test_the_number_of_audits():
    assert len(LISTED) >= THINGS
    assert sum(len(thing.pairs) for thing in LISTED.values()) >= PAIRS


def test_every_run_of_several_has_a_seed_of_its_own_and_pages_are_filled(monkeypatch, tmp_path):
    seeds = []

    def quick(thing, effort, noise, seed):
        seeds.append(seed)
        assert bool(effort.factors) == (seed == 7)  # power is looked for once
        return examine(thing, AuditEffort("small", 0.05, (0.2,), mutants=False), noise, seed)

    page = tmp_path / "page.md"
    page.write_text("Before.\n\n<!-- audits: mechanism:laplace -->\nold\n<!-- end of audits -->\n\nAfter.\n")
    monkeypatch.setattr(audit_all, "things", lambda: [LISTED["mechanism:laplace"]])
    monkeypatch.setattr(audit_all, "examine", quick)
    words = ["audit", "all", "--quick", "--workers", "1", "--seed", "7", "--repeat", "2", "--pages", str(tmp_path)]
    shown = CliRunner().invoke(app, words, catch_exceptions=False)
    assert shown.exit_code == 0
    assert seeds == [7, 8]
    assert "seed 8: 1 audits, all stand" in shown.output
    text = page.read_text()
    assert text.startswith("Before.")
    assert text.endswith("After.\n")
    assert "old" not in text
    assert "| `mechanism:laplace` | 1 |" in text


def test_a_pair_for_other_neighbours_is_left_out_and_said_so():
    verdict = examine(
        Thing(
            "policy", "priv-fairx/printed", LISTED["policy:priv-fairx/printed"].target, ("policy:priv-fairx/reaction",)
        )
    )
    assert verdict.left_out == {"policy:priv-fairx/reaction": "its promise is for nearer neighbours"}
    assert verdict.fine
    assert not verdict.attempts


def test_a_finer_claim_that_does_not_give_the_promise_is_a_problem():
    with registry.isolated():

        @register("audit-pair", "mechanism:gaussian/loose")
        def loose(mechanism):
            def run(world, trials, noise, rng):
                return mechanism.releases(0.0, noise, trials)  # sees nothing, so only the claim itself can be wrong

            return AuditPair(run, "0 or 0", "value", 1.0, 1e-5, FinerClaim("mu", 0.3), 100)

        found = examine(
            Thing("mechanism", "gaussian", LISTED["mechanism:gaussian"].target, ("mechanism:gaussian/loose",))
        )
        assert "does not give its epsilon" in found.problem
