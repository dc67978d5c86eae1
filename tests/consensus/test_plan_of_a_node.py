"""What a node's run is bound to, and plans of fits: found by planted mistakes."""

from __future__ import annotations

import pytest

from fairveil.classify.spending import Spending
from fairveil.consensus import PrivateAdmm, Setting, make_graph
from fairveil.consensus.node import Node
from fairveil.consensus.rows import Rows
from fairveil.errors import PrivacyError
from fairveil.ledger import Ledger, Limit
from fairveil.privacy.events import PureEvent


def node(folder, run="run", sizes=(2, 1)):
    setting = Setting(make_graph("ring", 2), sizes, 1, 1, 1)
    algorithm = PrivateAdmm(epsilon=1.0, rounds=1).complete(setting)
    folder.mkdir(exist_ok=True)
    limit = Limit.covering(algorithm.event(setting, 0))
    ledger = Ledger.create(folder / f"{run}.db", limit=limit)
    return Node(algorithm, setting, 0, Rows.dense([[1.0], [0.5]], [1, -1]), run=run, ledger=ledger, folder=folder)


def test_a_plan_is_bound_to_everybodys_row_counts(tmp_path):
    assert node(tmp_path / "a").fingerprint != node(tmp_path / "b", sizes=(2, 3)).fingerprint
    assert node(tmp_path / "c").fingerprint != node(tmp_path / "d", run="other").fingerprint


def test_messages_of_another_run_are_refused(tmp_path):
    saved = node(tmp_path / "a", run="one").save()
    with pytest.raises(PrivacyError, match="another run"):
        node(tmp_path / "b", run="two").load(saved)


def test_another_estimator_does_not_go_on_in_a_plan(tmp_path):
    with Ledger.create(tmp_path / "ledger.db", limit=Limit.pure(2.0)) as ledger:
        spending = Spending()
        first = spending._plan(ledger, "one", PureEvent(0.5), 2)
        second = spending._plan(ledger, "another", PureEvent(0.5), 2)
        assert first.name != second.name
        assert ledger.spent.units == 1_000_000
