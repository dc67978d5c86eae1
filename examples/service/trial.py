"""A trial of three treatments: outcomes come later, patients keep their treatment, arms stay private and fair.

fairveil serve                                   # in another terminal
python examples/service/trial.py http://127.0.0.1:8080
"""

import random
import sys

from fairveil.client import Client

random.seed(7)
BETTER = {"standard": 0.45, "new": 0.6, "placebo": 0.3}

with Client(sys.argv[1]) as client:
    client.create(
        "trial",
        policy={"name": "private-nash", "arms": 3, "epsilon": 1.0},
        actions=list(BETTER),
        reward={"low": 0, "high": 1, "wait": "1s"},  # in a real trial: "90d"
        person={"max_events": 1, "sticky": True},
    )
    trial = client.loop("trial")
    for number in range(300):
        visit = trial.decide(f"visit-{number}", subject=f"patient-{number}")
        treatment = visit["action_id"]
        if random.random() < 0.9:  # one in ten never reports back: that is protected too, and counts as 0
            trial.reward(f"visit-{number}", float(random.random() < BETTER[treatment]))
    again = trial.decide("visit-0-again", subject="patient-0")
    assert again["reason"] == "sticky"

    state = trial.wait_release(version=3, timeout=120)
    for arm in state["published"]["arms"]:
        print(arm["action_id"], arm["rounds"], "rounds", arm["mean"] and round(arm["mean"], 2))
    print(trial.budget()["words"])
