"""Every policy that may serve people, from its first decision over releases and a restart; two processes at once."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest

from fairveil.errors import SpecError
from fairveil.loop import Reward, Store
from fairveil.loop.accept import SERVED
from fairveil.loop.public import loop_table, public_view
from fairveil.loop.upkeep import check

KEY = bytes(range(32))
PUBLIC = {
    "groups": ["a", "b"],
    "features": [{"name": "x", "low": -1.0, "high": 1.0}, {"name": "y", "low": -1.0, "high": 1.0}],
}
TABLES = {
    "private-nash": {"policy": {"arms": 3, "epsilon": 1.0}},
    "adap-ucb": {"policy": {"arms": 3, "epsilon": 1.0}},
    "local-nash": {"policy": {"arms": 3, "epsilon": 1.0}},
    "batched-private-fair-greedy": {"policy": {"epsilon": 5.0, "delta": 1e-6, "first_batch": 16}, **PUBLIC},
    "batched-priv-fairx": {"policy": {"epsilon": 5.0, "delta": 1e-6, "horizon": 400}, **PUBLIC},
}


@pytest.mark.parametrize("name", SERVED)
def test_a_loop_with_every_served_policy(tmp_path, clock, name):
    url = f"sqlite:///{tmp_path}/store.db"
    table = {**TABLES[name], "policy": {"name": name, **TABLES[name]["policy"]}}
    rng = np.random.default_rng(5)

    def live(loop, first: int, count: int) -> None:
        for index in range(first, first + count):
            people = rng.uniform(-0.5, 0.5, (3, 2)).tolist()
            more = {"candidates": [{"group": "ab"[place % 2], "features": row} for place, row in enumerate(people)]}
            reply = loop.decide(f"e-{index}", **(more if "features" in table else {}))
            assert (reply.round, reply.learning) == (index, "pending")
            assert 0.0 < reply.propensity <= 1.0
            loop.reward(f"e-{index}", float(rng.integers(2)))
            if index % 40 == 39:
                clock.advance(61)
                loop.store.tick()

    with Store.open(url, clock=clock, key=KEY) as store:
        loop = store.create("trial", reward=Reward(0, 1, wait="60s"), **table)
        json.dumps(loop_table(loop), allow_nan=False)
        live(loop, 0, 120)
        first = loop.status()
        assert first.version >= 1
        published = json.dumps(loop_table(loop)["published"], allow_nan=False)
    with Store.open(url, clock=clock, key=KEY) as store:
        loop = store.loop("trial")
        assert json.dumps(loop_table(loop)["published"]) == published
        live(loop, 120, 120)
        assert loop.status().version > first.version
        assert loop.status().epoch == 0
        json.dumps([public_view(store, "trial").loops, public_view(store, "trial").budgets], allow_nan=False)
        assert check(store)["loops"]["trial"]["rounds"] == 240


def test_too_many_arms(store):
    with pytest.raises(SpecError) as caught:
        store.create("x", policy={"name": "private-nash", "arms": 10**9, "epsilon": 1.0})
    assert caught.value.path == "policy.arms"


def test_two_processes_that_are_asked_about_the_same_events(store_url, clock):
    """Each event has one round and one reply, wherever it was asked, and its reward counts once."""
    stores = [Store.open(store_url, clock=clock, key=KEY) for _ in range(2)]
    stores[0].create(
        "trial", policy={"name": "even-blocks", "arms": 3, "epsilon": 1.0}, reward=Reward(0, 1, wait="60s")
    )
    names, told, failed = [f"e-{number}" for number in range(24)], list[tuple](), list[Exception]()

    def ask(number: int) -> None:
        loop = stores[number % 2].loop("trial")
        try:
            for name in np.random.default_rng(number).permutation(names):
                reply = loop.decide(str(name))
                told.append((reply.event_id, reply.round, reply.action))
                assert loop.reward(str(name), 1.0).accepted
                if number < 2:
                    stores[number].tick()
        except Exception as problem:
            failed.append(problem)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failed
    assert len(set(told)) == len(names)
    assert sorted(round for _, round, _ in set(told)) == list(range(24))
    clock.advance(61)
    made = [store.tick() for store in stores]
    assert sum(made) == 4
    loop = stores[1].loop("trial")
    assert loop.status().version == 4
    assert sum(loop.status().state["counts"]) == 20
    check(stores[1])
    for store in stores:
        store.close()
