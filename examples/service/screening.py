"""A queue: every round some applicants with a group and features, one is chosen by rank within the group.

python examples/service/screening.py http://127.0.0.1:8080
"""

import random
import sys

from fairveil.client import Client

random.seed(7)

with Client(sys.argv[1]) as client:
    client.create(
        "queue",
        policy={"name": "batched-private-fair-greedy", "epsilon": 5.0, "delta": 1e-6, "first_batch": 40},
        groups=["north", "south"],
        features=[{"name": "income", "low": 0, "high": 10}, {"name": "years", "low": 0, "high": 40}],
        reward={"low": 0, "high": 1, "wait": "1s", "missing": "public"},
        person={"max_events": 3},
        explore=0.05,
    )
    queue = client.loop("queue")
    for month in range(5):
        rounds = []
        for index in range(20):
            people = [
                {
                    "id": f"applicant-{index}-{slot}",
                    "subject": f"person-{month}-{index}-{slot}",
                    "group": "north" if slot % 2 else "south",
                    "features": [random.uniform(0, 10), random.uniform(0, 40)],
                }
                for slot in range(4)
            ]
            rounds.append({"event_id": f"{month}-{index}", "candidates": people})
        chosen = queue.decide_many(rounds)
        queue.reward_many((reply["event_id"], random.random()) for reply in chosen)

    state = queue.wait_release(version=2, timeout=120)
    print(state["version"], "releases;", state["settled"], "of", state["rounds"], "rounds settled")
    print(queue.budget()["words"])
