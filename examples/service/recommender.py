"""A shop window: ten items with features, one is shown, exposure in proportion to merit, clicks in seconds or never.

python examples/service/recommender.py http://127.0.0.1:8080
"""

import random
import sys

from fairveil.client import Client

random.seed(7)

with Client(sys.argv[1]) as client:
    client.create(
        "window",
        policy={"name": "batched-priv-fairx", "epsilon": 5.0, "delta": 1e-5, "horizon": 10_000, "reward_std": 0.5},
        features=[{"name": name, "low": -1, "high": 1} for name in ("price", "newness", "match")],
        reward={"low": 0, "high": 1, "wait": "1s", "missing": "default"},  # no click counts as 0
    )
    window = client.loop("window")
    for number in range(120):
        items = [{"id": f"item-{index}", "features": [random.uniform(-1, 1) for _ in range(3)]} for index in range(10)]
        shown = window.decide(candidates=items, fallback=0)
        if shown.get("source") != "fallback" and random.random() < 0.3:
            window.reward(shown["event_id"], 1.0)

    state = window.wait_release(version=2, timeout=120)
    print(state["version"], "releases; the last decision had probability", round(shown["propensity"], 3))
