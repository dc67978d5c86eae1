"""private-admm with medians over nodes: what a lie can do, what is refused, and that it is the same release."""

import numpy as np
import pytest

import fairveil
from fairveil.consensus import PrivateAdmm, Rows, Setting, make_graph
from fairveil.consensus.public_path import TRIMMED, PublicPath, median_noise
from fairveil.errors import SpecError
from fairveil.privacy.noise import SeededNoise

ROWS, WIDTH, NODES = 400, 4, 5


def opposite(message):
    return {name: -10 * value for name, value in message.items()}


def huge(message):
    return {name: np.full_like(value, 1e12) for name, value in message.items()}


def train(trim, lie=None, liars=(), gone=()):
    """The classifier of five nodes of which some lie, and how often it is right."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(NODES * ROWS, WIDTH))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y = np.where(x @ np.array([3.0, -2.0, 1.0, 0.0]) > 0, 1.0, -1.0)
    setting = Setting(make_graph("complete", NODES), (ROWS,) * NODES, WIDTH, WIDTH, 1)
    algorithm = PrivateAdmm(epsilon=4.0, rounds=8, trim=trim).complete(setting)
    parts = [Rows.dense(x[node::NODES], y[node::NODES]) for node in range(NODES)]
    locals_ = [algorithm.local(setting, node) for node in range(NODES)]
    noises = [SeededNoise(node) for node in range(NODES)]
    sent = {}
    for t in range(1, 11):
        absent = frozenset(gone if t > 4 else ())
        for node, local in enumerate(locals_):
            local.hear(t, {other: message for other, message in sent.items() if other != node}, absent)
        if t == 10:
            break
        sent = {}
        for node in set(range(NODES)) - absent:
            message = locals_[node].draw(t, parts[node], noises[node])
            sent[node] = lie(message) if node in liars else message
            locals_[node].keep(t, sent[node])
    weights = locals_[0].weights
    return float(np.mean(np.sign(x @ weights) == y))


@pytest.mark.parametrize("lie", [opposite, huge])
def test_one_liar_spoils_a_sum_and_not_a_median(lie):
    honest = train(trim=True)
    assert honest > 0.95
    assert train(trim=False, lie=lie, liars={2}) < 0.8
    assert train(trim=True, lie=lie, liars={2}) > honest - 0.03


def test_two_of_five_liars_still_find_three_honest_nodes_in_the_middle():
    assert train(trim=False, lie=huge, liars={0, 3}) < 0.8
    assert train(trim=True, lie=huge, liars={0, 3}) > 0.9


def test_nodes_that_are_gone_are_in_no_median():
    assert train(trim=True, gone={1, 4}) > 0.9
    assert train(trim=True, lie=opposite, liars={2}, gone={1, 4}) > 0.9


def test_the_median_of_one_node_is_its_sum_and_what_is_sent_is_the_same():
    spec = {
        "task": "consensus", "seed": 3, "nodes": 1, "algorithm": {"name": "private-admm", "epsilon": 1.0, "rounds": 8},
        "data": {"name": "logistic", "rows": 2_000, "features": 4, "test": 500},
    }  # fmt: skip
    plain = fairveil.run(spec)
    trimmed = fairveil.run({**spec, "algorithm": {**spec["algorithm"], "trim": True}})
    assert plain["metrics"]["test_error"] == trimmed["metrics"]["test_error"]
    assert plain["guarantee"] == trimmed["guarantee"]
    assert plain["metrics"]["privacy_loss"] == trimmed["metrics"]["privacy_loss"]


def test_a_median_is_of_sums_a_row_so_that_sizes_do_not_matter():
    setting = Setting(make_graph("complete", 3), (100, 200, 400), 1, 1, 1)
    algorithm = PrivateAdmm(epsilon=1.0, rounds=8, trim=True).complete(setting)
    path = PublicPath(algorithm.plan(setting), setting, None, trim=True)
    assert path._total({0: np.array([10.0]), 1: np.array([20.0]), 2: np.array([-800.0])}) == pytest.approx([70.0])
    path.leave_out(frozenset({1}))
    assert path._total({0: np.array([10.0]), 2: np.array([-800.0])}) == pytest.approx([700 * (0.1 - 2.0) / 2])


def test_the_noise_of_a_median_is_what_the_guard_takes_it_for():
    draws = np.random.default_rng(1).normal(size=(20_000, 41))
    assert np.median(draws, axis=1).var() * 41 == pytest.approx(TRIMMED, rel=0.03)


@pytest.mark.parametrize("sizes", [(400, 100, 50, 30, 20), (9600, 100, 100, 100, 100), (300, 10, 10, 10), (50, 1)])
def test_the_noise_of_a_median_is_known_where_sizes_differ(sizes):
    """Small nodes say much about little: the floor of the metric and the guard must not take that for curvature."""
    draws = np.random.default_rng(1).normal(size=(100_000, len(sizes))) / np.array(sizes)
    measured = float(np.median(draws, axis=1).var()) * sum(sizes) ** 2
    between = 1 if len(sizes) % 2 else 2.2  # an even number of nodes: a bound
    assert measured * 0.97 < median_noise(sizes) < max(measured * 1.03 * between, TRIMMED * len(sizes) + 1e-9)
    setting = Setting(make_graph("complete", len(sizes)), sizes, 1, 1, 1)
    algorithm = PrivateAdmm(epsilon=1.0, rounds=8, trim=True).complete(setting)
    path = PublicPath(algorithm.plan(setting), setting, None, trim=True)
    path.take_curvature({node: {"m": np.zeros(1), "v": np.zeros(1)} for node in range(len(sizes))})
    assert path.spread[0] > 2.5 * measured**0.5 * algorithm.plan(setting).error_v


def test_a_median_of_fewer_nodes_has_more_noise():
    setting = Setting(make_graph("complete", 9), (100,) * 9, 1, 1, 1)
    algorithm = PrivateAdmm(epsilon=1.0, rounds=8, trim=True).complete(setting)
    path = PublicPath(algorithm.plan(setting), setting, None, trim=True)
    whole = path._noise
    path.leave_out(frozenset(range(3, 9)))
    assert path._noise == pytest.approx(3 * whole)


def test_a_sum_is_in_the_order_of_its_nodes_also_after_a_return():
    """Floats that are added in another order are other floats, and a stored release belongs to one point."""
    sizes = (100, 100, 100)
    setting = Setting(make_graph("complete", 3), sizes, 1, 1, 1)
    algorithm = PrivateAdmm(epsilon=1.0, rounds=8).complete(setting)
    found = []
    for leaves in (False, True):
        path = PublicPath(algorithm.plan(setting), setting, None)
        path.take_curvature({node: {"m": np.ones(1), "v": np.ones(1)} for node in range(3)})
        sent = {node: {"g": np.array([value])} for node, value in enumerate((1.0, 1e-16, 1e-16))}
        path.take_gradient(sent)
        if leaves:
            path.leave_out(frozenset({0}))
            path.take_gradient({node: sent[node] for node in (1, 2)})
            path.take_back(frozenset({0}))
        path._step = lambda total, noise: found.append(float(total[0]))
        path.take_gradient(sent)
    assert found[0] == found[1] == 1.0


@pytest.mark.parametrize(
    "change, key",
    [({"sums": "secure"}, "trim"), ({"exchange": "admm"}, "exchange")],
)
def test_a_median_needs_the_sums_of_the_nodes(change, key):
    with pytest.raises(SpecError) as caught:
        PrivateAdmm(epsilon=1.0, trim=True, **change)
    assert caught.value.path.endswith(key)
    PrivateAdmm(epsilon=1.0, trim=True, definition="pure")
