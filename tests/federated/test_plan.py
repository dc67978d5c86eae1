"""A plan is public, complete and one thing: whoever changes a word of it has another fingerprint."""

import dataclasses

import pytest
from federations import CONSENSUS, EXPOSURE, NAMES, keys, plan_of

from fairveil.errors import SpecError
from fairveil.federated import Member, Plan


def test_every_public_fact_is_in_the_fingerprint():
    plan = plan_of()
    other = {
        "run": "other", "quorum": 2, "timeout": 300.0, "void_after": 5.0, "most_bytes": 10**6, "bundle": "0" * 64,
        "policy": {**plan.policy, "epsilon": 2.5}, "environment": {"seed": 4}, "colluding": 2,
        "party": (*plan.party[:2], Member("west", signing_key=keys(4)[3].public)),
    }  # fmt: skip
    found = {name: dataclasses.replace(plan, **{name: value}).fingerprint() for name, value in other.items()}
    assert len({plan.fingerprint(), *found.values()}) == len(found) + 1
    assert plan_of().fingerprint() == plan.fingerprint()
    written_out = dataclasses.replace(plan, policy={**plan.policy, "context_bound": 1.0})
    assert written_out.made.table() == plan.made.table()


def test_what_a_version_fills_in_is_in_the_fingerprint(monkeypatch):
    """Parties of two versions that fill in different defaults learn different things under one table."""
    plan, other = plan_of(), plan_of()
    before, known = plan.fingerprint(), plan.made.table()
    monkeypatch.setattr(type(other.made), "table", lambda self: {**known, "filled in": "differently"})
    assert other.fingerprint() != before


def test_a_table_becomes_a_plan():
    table = {"run": "trial", "kind": "exposure", "party": [{"name": name} for name in NAMES[:3]], **EXPOSURE}
    assert Plan.from_table({**table, "version": 1}) == Plan.from_table(table)
    for change, words in (
        ({"version": 2}, "version"),
        ({"quorum": 4}, "quorum is above"),
        ({"sums": "secure", "quorum": 2, "colluding": 2}, "collude"),
        ({"party": [{"name": "north"}] * 2}, "different names"),
        ({"party": [{"name": "north", "sign": "x"}]}, "not known"),
        ({"party": ["north", "south"]}, "list of tables"),
        ({"party": [{"name": "north/../"}, {"name": "b"}]}, "name"),
        ({"party": [{"name": "north", "signing_key": "abc"}, {"name": "b"}]}, "not a public key"),
        ({"colour": 1}, "colour"),
        ({"kind": "fashion"}, "kind"),
    ):
        with pytest.raises(SpecError, match=words):
            Plan.from_table({**table, **change})


@pytest.mark.parametrize(
    "kind, change, words",
    [
        ("exposure", {"policy": {**EXPOSURE["policy"], "agents": 4}}, "another number of agents"),
        ("exposure", {"policy": {"name": "fed-fairx", "dimension": 2, "horizon": 24}}, "no established guarantee"),
        ("exposure", {"algorithm": {"name": "private-admm"}}, "no algorithm"),
        ("consensus", {"algorithm": {"name": "admm"}}, "does not run in a federation"),
        ("consensus", {"algorithm": {**CONSENSUS["algorithm"], "exchange": "admm"}}, "does not run in a federation"),
        ("consensus", {"policy": {}}, "no policy"),
    ],
)
def test_what_cannot_be_learned_together_is_refused(kind, change, words):
    with pytest.raises(SpecError, match=words):
        plan_of(kind, **change).fingerprint()


def test_row_counts_of_nodes_are_public():
    plan = plan_of("consensus")
    members = (*plan.party[:2], Member("south", signing_key=plan.party[2].signing_key))
    with pytest.raises(SpecError, match="how many rows"):
        dataclasses.replace(plan, party=members).made  # noqa: B018


def test_parties_are_known_by_name_and_key():
    plan = plan_of()
    assert plan.index("east") == 1
    with pytest.raises(SpecError, match="no party of this name"):
        plan.index("nobody")
    with pytest.raises(SpecError, match="no signing key"):
        dataclasses.replace(plan, party=(*plan.party[:2], Member("south"))).check_keys()
