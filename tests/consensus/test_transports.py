"""Inline and Ray carry the same messages."""

import numpy as np
import pytest

import fairveil
from fairveil import federated
from fairveil.consensus import Inline, NodePlan, PrivateAdmm, RayTransport, Rows, Setting, make_graph, make_transport
from fairveil.errors import SpecError
from fairveil.federated import Carrier
from fairveil.federated.wire import MESSAGE, Answer, LogPart
from fairveil.ledger import Ledger, Limit

SPEC = {
    "task": "consensus", "seed": 4, "nodes": 5, "iterations": 4, "graph": "ring",
    "algorithm": {"name": "private-admm", "epsilon": 1.0, "rounds": 3},
    "data": {"name": "logistic", "rows": 500, "features": 3, "test": 100},
}  # fmt: skip


def test_an_unknown_transport_is_refused():
    with pytest.raises(SpecError, match="inline"):
        make_transport("pigeon", [])


def test_transports_are_carriers_and_there_is_one_inline():
    assert issubclass(RayTransport, Carrier)
    assert issubclass(Inline, federated.Inline)
    setting = Setting(make_graph("ring", 3), (4,) * 3, 2, 2, 1)
    algorithm = PrivateAdmm(epsilon=1.0, rounds=1).complete(setting)
    rng = np.random.default_rng(0)
    plans = [NodePlan(algorithm, setting, n, Rows.dense(rng.normal(size=(4, 2)), np.ones(4))) for n in range(3)]
    transport = make_transport("inline", plans)
    transport.ask(1, LogPart("", 0, 0, ()).to_bytes())
    ((party, data),) = transport.answers()
    (said,) = Answer.from_bytes(data).says
    assert (party, said.purpose, said.by) == (1, MESSAGE, 1)
    seen = list(transport.iterations())  # the message that was asked for by hand is repeated, not drawn again
    assert len(seen) == 2
    assert (seen[-1].weights == seen[-1].weights[0]).all()


def test_a_node_that_does_not_answer_is_left_out():
    setting = Setting(make_graph("complete", 3), (4,) * 3, 2, 2, 1)
    algorithm = PrivateAdmm(epsilon=1.0, rounds=2).complete(setting)
    rng = np.random.default_rng(0)
    plans = [NodePlan(algorithm, setting, n, Rows.dense(rng.normal(size=(4, 2)), np.ones(4))) for n in range(3)]
    transport = make_transport("inline", plans)
    steps, answers = transport.iterations(), transport.answers
    next(steps)
    transport.answers = lambda: [(node, None if node == 2 else data) for node, data in answers()]
    last = next(steps)
    assert transport.absent == [2]
    assert [bool(weights.any()) for weights in last.weights] == [True, True, False]
    assert transport.doors[0].node.absent == {2}


@pytest.mark.ray
@pytest.mark.slow
def test_ray_gives_the_metrics_and_series_of_inline_and_five_actors_have_five_ledgers(tmp_path):
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        specs = [SPEC, {**SPEC, "algorithm": {"name": "private-mr-admm", "epsilon": 3.0, "penalty": 1.0}}]
        for spec in specs:
            one, two = fairveil.run(spec), fairveil.run({**spec, "transport": "ray"})
            assert one["metrics"] == two["metrics"]
            assert one["series"] == two["series"]
        setting = Setting(make_graph("ring", 5), (10,) * 5, 2, 2, 1)
        algorithm = PrivateAdmm(epsilon=1.0, rounds=2).complete(setting)
        rng = np.random.default_rng(0)
        parts = [Rows.dense(rng.normal(size=(10, 2)) / 2, np.ones(10)) for _ in range(5)]
        limit = Limit.approximate(1.0, 1e-5, currency="gaussian")
        plans = [
            NodePlan(algorithm, setting, n, parts[n], ledger=str(tmp_path / f"{n}" / "ledger.db"), limit=limit)
            for n in range(5)
        ]
        transport = make_transport("ray", plans)
        for seen in transport.iterations():
            weights = seen.weights
        transport.close()
        assert (weights == weights[0]).all()
        for n in range(5):
            with Ledger.open(tmp_path / f"{n}" / "ledger.db") as ledger:
                assert not ledger.quote(algorithm.event(setting)).admitted
    finally:
        ray.shutdown()
