"""Loops on both databases, with a clock that stands still until it is moved."""

from __future__ import annotations

import even_blocks  # noqa: F401 - registers the policy of these tests
import pytest

from fairveil.loop import ManualClock, Reward, Store

POLICY = {"name": "even-blocks", "arms": 3, "epsilon": 1.0}
KEY = bytes(range(32))


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture(params=[pytest.param("sqlite"), pytest.param("postgres", marks=pytest.mark.postgres)])
def store_url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    return request.getfixturevalue("database")


@pytest.fixture
def store(store_url, clock):
    with Store.open(store_url, clock=clock, key=KEY) as found:
        yield found


@pytest.fixture
def loop(store):
    return store.create("trial", policy=POLICY, reward=Reward(0, 1, wait="60s"))
