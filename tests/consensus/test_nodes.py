"""Nodes with ledgers: what is charged, what is sent again, what is refused, who may be missing."""

from dataclasses import replace

import numpy as np
import pytest

from fairveil.consensus import Inline, Node, NodePlan, PrivateAdmm, PrivateMrAdmm, Rows, Setting, make_graph
from fairveil.consensus.node import remember_rows
from fairveil.errors import InputError, LedgerError, PrivacyError
from fairveil.federated import Message
from fairveil.ledger import Ledger, Limit

SETTING = Setting(make_graph("ring", 3), (40, 40, 40), 2, 2, 1)
ALGORITHM = PrivateAdmm(epsilon=1.0, rounds=4).complete(SETTING)
LIMIT = Limit.approximate(1.0, 1e-5, currency="gaussian")


def rows(node, count=40):
    rng = np.random.default_rng(node)
    return Rows.dense(rng.normal(size=(count, 2)) / 2, np.where(rng.random(count) < 0.5, 1.0, -1.0))


def plans(folder, **changes):
    return [
        NodePlan(
            ALGORITHM, SETTING, node, rows(node), path=(3, "nodes"), simulated=True, limit=LIMIT,
            ledger=str(folder / f"node-{node}" / "ledger.db"), **changes,
        )
        for node in range(3)
    ]  # fmt: skip


def finish(transport):
    for seen in transport.iterations():
        last = seen
    transport.close()
    return last


def test_a_run_with_ledgers_is_the_run_without_them_and_repeats_for_free(tmp_path):
    free = finish(Inline([NodePlan(ALGORITHM, SETTING, n, rows(n), path=(3, "nodes")).build() for n in range(3)]))
    paid = finish(Inline([plan.build() for plan in plans(tmp_path)]))
    assert np.array_equal(free.weights, paid.weights)
    again = [plan.build() for plan in plans(tmp_path)]
    spent = [node.ledger.spent for node in again]
    assert np.array_equal(finish(Inline(again)).weights, paid.weights)
    assert [node.rows.reads for node in again] == [0, 0, 0]
    for node, before in enumerate(spent):
        with Ledger.open(tmp_path / f"node-{node}" / "ledger.db", simulated=True) as ledger:
            assert ledger.spent == before
            assert not ledger.quote(ALGORITHM.event(SETTING)).admitted


def test_nothing_is_released_before_the_plans_were_compared(tmp_path):
    node = plans(tmp_path)[0].build()
    with pytest.raises(PrivacyError, match="compared"):
        node.send()
    other = Node(PrivateAdmm(epsilon=2.0, rounds=4), SETTING, 1, rows(1))
    with pytest.raises(PrivacyError, match="another plan"):
        node.meet([node.introduction(), other.introduction()])
    for present in ([], [plans(tmp_path)[2].build().introduction()]):
        with pytest.raises(PrivacyError, match="missing nodes"):
            node.meet([node.introduction(), *present])
    lies = {**plans(tmp_path)[1].build().introduction(), "rows": 41}
    with pytest.raises(PrivacyError, match="another number of rows"):
        node.meet([lies])
    assert node.rows.reads == 0


def test_other_rows_or_another_plan_under_the_same_run_are_refused(tmp_path):
    finish(Inline([plan.build() for plan in plans(tmp_path)]))
    with pytest.raises(PrivacyError, match="not the rows"):
        replace(plans(tmp_path)[0], rows=rows(9)).build()
    changed = [
        replace(plan, algorithm=PrivateAdmm(epsilon=1.0, rounds=5).complete(SETTING)) for plan in plans(tmp_path)
    ]
    with pytest.raises(LedgerError, match="used for something else"):
        finish(Inline([plan.build() for plan in changed]))
    assert not any("digest" in str(entry) for entry in Ledger.open(
        tmp_path / "node-0" / "ledger.db", simulated=True).entries())  # fmt: skip


def test_the_same_iteration_at_another_point_is_refused(tmp_path):
    finish(Inline([plan.build() for plan in plans(tmp_path)]))
    nodes = [plan.build() for plan in plans(tmp_path)]
    nodes[0].meet([node.introduction() for node in nodes])
    nodes[0].send()
    for sender in (1, 2):
        lie = Message(sender, 0, 1, {"m": np.ones(2), "v": np.full(2, 9.0)}, nodes[0]._promise)
        assert nodes[0].receive(lie).accepted
    nodes[0].send()  # round 1 is at zero whatever the curvature says
    for sender in (1, 2):
        assert nodes[0].receive(Message(sender, 1, 2, {"g": np.ones(2)}, nodes[0]._promise)).accepted
    with pytest.raises(PrivacyError, match="another question"):
        nodes[0].send()


def test_messages_of_strangers_and_liars_are_refused():
    nodes = [NodePlan(ALGORITHM, SETTING, n, rows(n), path=(3, "nodes")).build() for n in range(3)]
    message = nodes[1].send()
    good = dict(message.payload)
    for bad, reason in (
        (Message(7, 0, 1, good, message.guarantee), "stranger"),
        (Message(1, 0, 1, {"g": np.zeros(2)}, message.guarantee), "other arrays"),
        (Message(1, 0, 1, {"m": np.full(2, np.nan), "v": np.zeros(2)}, message.guarantee), "not finite"),
        (Message(1, 0, 1, {"m": np.full(2, 1e300), "v": np.zeros(2)}, message.guarantee), "too large"),
        (Message(1, 0, 1, good, {"plan": "another"}), "another guarantee"),
        (Message(1, 3, 4, {"g": np.zeros(2)}, message.guarantee), "out of order"),
        ("hello", "not a message"),
    ):
        receipt = nodes[0].receive(bad)
        assert not receipt.accepted
        assert reason in receipt.reason
    assert nodes[0].receive(message).accepted
    assert "replayed" in nodes[0].receive(message).reason


def test_a_lost_message_is_said_and_the_others_go_on(tmp_path):
    nodes = [plan.build() for plan in plans(tmp_path)]
    transport = Inline(nodes)
    draw = nodes[1].local.draw

    def breaks(iteration, rows, noise):
        if iteration == 3:
            raise OSError("the machine went away")
        return draw(iteration, rows, noise)

    nodes[1].local.draw = breaks
    steps = transport.iterations()
    next(steps), next(steps)
    with pytest.raises(OSError, match="went away"):
        next(steps)
    transport.close()
    nodes = [plan.build() for plan in plans(tmp_path)]
    last = finish(Inline(nodes))
    assert nodes[1].lost == [3]
    assert (last.weights == last.weights[0]).all()
    assert nodes[0].lost == []


def test_an_absent_node_is_left_out_and_sums_are_scaled():
    nodes = [NodePlan(ALGORITHM, SETTING, n, rows(n), path=(3, "nodes")).build() for n in range(2)]
    for node in nodes:
        node.leave_out([2])
    while not nodes[0].finished:
        messages = [node.send() for node in nodes]
        nodes[0].receive(messages[1])
        nodes[1].receive(messages[0])
    assert np.array_equal(nodes[0].weights, nodes[1].weights)
    assert nodes[0].local.path.lift == pytest.approx(1.5)


def test_save_and_load_bring_a_node_back_without_its_rows_being_read(tmp_path):
    nodes = [plan.build() for plan in plans(tmp_path)]
    steps = Inline(nodes).iterations()
    next(steps), next(steps), next(steps)
    kept, point = nodes[0].save(), nodes[0].weights
    nodes[0].ledger.close()
    back = plans(tmp_path)[0].build()
    back.load(kept)
    assert np.array_equal(back.weights, point)
    assert back.iteration == nodes[0].iteration
    assert back.rows.reads == 0


def test_only_established_promises_run_under_a_ledger(tmp_path):
    printed = PrivateMrAdmm(epsilon=1.0, variant="printed").complete(SETTING)
    with pytest.raises(PrivacyError, match="established"):
        replace(plans(tmp_path)[0], algorithm=printed).build()
    with pytest.raises(InputError, match="not those that were announced"):
        NodePlan(ALGORITHM, SETTING, 0, rows(0, 39)).build()


def test_sound_printed_algorithms_run_under_a_ledger_too(tmp_path):
    setting = replace(SETTING, iterations=3)
    algorithm = PrivateMrAdmm(epsilon=1.0, penalty=1.0).complete(setting)
    made = [
        replace(plan, algorithm=algorithm, setting=setting, limit=Limit.pure(1.001), run="mr")
        for plan in plans(tmp_path)
    ]
    paid = finish(Inline([plan.build() for plan in made]))
    free = finish(Inline([replace(plan, ledger=None).build() for plan in made]))
    assert np.array_equal(paid.weights, free.weights)


def test_a_node_follows_a_log_and_takes_part_again(tmp_path):
    nodes = [plan.build() for plan in plans(tmp_path)]
    introductions = [node.introduction() for node in nodes]
    for node in nodes:
        node.meet(introductions)
    first = [node.send() for node in nodes]
    for node in nodes:
        node.catch_up(first)
    assert [node.syncs for node in nodes] == [1, 1, 1]
    log = []
    for _ in range(2):  # node 2 is away for two iterations
        messages = [node.send() for node in nodes[:2]]
        for node in nodes[:2]:
            node.catch_up(messages)
        log += messages
    saved = nodes[0].save()
    nodes[2].catch_up(log)
    assert nodes[2].syncs == 3
    np.testing.assert_array_equal(nodes[2].weights, nodes[0].weights)
    last = [node.send() for node in nodes]
    for node in nodes:
        node.catch_up(last)
    np.testing.assert_array_equal(nodes[2].weights, nodes[0].weights)
    again = replace(plans(tmp_path)[0]).build()
    again.meet(introductions)
    again.load(saved)
    again.catch_up(last)
    np.testing.assert_array_equal(again.weights, nodes[0].weights)
    assert nodes[0].local.path.present == [0, 1, 2]


def test_a_log_in_the_name_of_a_node_needs_its_ledger(tmp_path):
    nodes = [plan.build() for plan in plans(tmp_path / "one")]
    for node in nodes:
        node.meet([other.introduction() for other in nodes])
    messages = [node.send() for node in nodes]
    fresh = plans(tmp_path / "two")[0].build()
    fresh.meet([node.introduction() for node in nodes])
    with pytest.raises(PrivacyError, match="ledger does not know"):
        fresh.catch_up(messages)
    assert fresh.ledger.spent.units == 0
    with pytest.raises(InputError, match="not finite"):
        fresh.catch_up([Message(1, 0, 1, {**messages[1].payload, "m": np.full(2, np.inf)}, messages[1].guarantee)])


def test_labels_are_rows_too_and_their_digest_can_be_compared_with_nothing(tmp_path):
    digests = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        remember_rows(tmp_path / name, "run", rows(0))
        remember_rows(tmp_path / name, "run", rows(0))
        digests.append((tmp_path / name / "rows.json").read_text())
        assert (tmp_path / name / "rows.json").stat().st_mode & 0o077 == 0, "who reads it can compare it with guesses"
    assert digests[0] != digests[1]
    found = rows(0)
    other = Rows.dense(np.random.default_rng(0).normal(size=(40, 2)) / 2, -found.signs)
    assert np.array_equal(other.values, found.values)
    with pytest.raises(PrivacyError, match="not the rows"):
        remember_rows(tmp_path / "one", "run", other)
