"""Inline and Ray carry the same messages."""

import numpy as np
import pytest

import fairveil
from fairveil.consensus import NodePlan, PrivateAdmm, Rows, Setting, make_graph, make_transport
from fairveil.errors import SpecError
from fairveil.ledger import Ledger, Limit

SPEC = {
    "task": "consensus", "seed": 4, "nodes": 5, "iterations": 4, "graph": "ring",
    "algorithm": {"name": "private-admm", "epsilon": 1.0, "rounds": 3},
    "data": {"name": "logistic", "rows": 500, "features": 3, "test": 100},
}  # fmt: skip


def test_an_unknown_transport_is_refused():
    with pytest.raises(SpecError, match="inline"):
        make_transport("pigeon", [])


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
