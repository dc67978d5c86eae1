"""Regret through HTTP with secure noise, against simulated runs of the same policy and against what a delay must cost.

    python bench/service/learn.py [--rounds 50000] [--nash 20000] [--which census nash]

census: synthetic-census by the batch routes, rewards at once, releases when they are due; the delay in rounds that was
measured is given to ten simulated runs. nash: four arms, window of 2 s, rewards at random inside it; what must be paid
is the regret without delay plus D rounds of uniform play, D = rounds decided in 2 s.
"""

from __future__ import annotations

import argparse
import random
import sys
import time

import httpx
import numpy as np
from parts import folder, serving

import fairveil
from fairveil import registry
from fairveil.bandits.task import BanditTask
from fairveil.fairness.ranks import fair_regret
from fairveil.randomness import generator

EPSILON, DELTA = 5.0, 1e-5
MEANS = [0.2, 0.4, 0.6, 0.8]


def census_spec(rounds: int) -> dict[str, object]:
    return {
        "task": "bandit",
        "rounds": rounds,
        "checkpoints": [rounds],
        "policy": {"name": "batched-private-fair-greedy", "epsilon": EPSILON, "delta": DELTA},
        "environment": {"name": "synthetic-census"},
    }


def census(url: str, rounds: int, size: int) -> bool:
    full = BanditTask().complete(census_spec(rounds))
    world = registry.build("environment", full["environment"], "environment")
    schema, rng = world.schema, generator(11, "world")
    names = [f"{name}-{index}" for index, name in enumerate(schema.names)]
    features = [
        {"name": name, "low": float(low) - 1e-9, "high": float(high) + 1e-9}
        for name, low, high in zip(names, schema.low, schema.high, strict=True)
    ]
    reach = 20.0 * float(schema.reward_spread) + abs(float(schema.reward_centre))
    table = {
        "name": "census",
        "policy": full["policy"],
        "groups": list(world.group_names),
        "features": features,
        "reward": {"low": -reach, "high": reach, "wait": "1h", "missing": "public"},
    }
    regret, delays, version, began = 0.0, [], 0, time.monotonic()
    with httpx.Client(base_url=url, timeout=120) as client:
        client.post("/v1/loops", json=table).raise_for_status()
        for first in range(0, rounds, size):
            chunk = world.draw(first, size, rng)
            asked = [
                {
                    "event_id": str(first + row),
                    "candidates": [
                        {"group": world.group_names[group], "features": chunk.features[row, slot].tolist()}
                        for slot, group in enumerate(chunk.group[row])
                    ],
                }
                for row in range(size)
            ]
            answer = client.post("/v1/loops/census/decisions/batch", json={"decisions": asked})
            answer.raise_for_status()
            replies = answer.json()["decisions"]
            slots = np.array([reply["action"] for reply in replies])
            regret += float(fair_regret(chunk.rank, slots).sum())
            rewards = [
                {"event_id": str(first + row), "value": float(chunk.reward[row, slots[row]])} for row in range(size)
            ]
            client.post("/v1/loops/census/rewards/batch", json={"rewards": rewards}).raise_for_status()
            for reply in replies:
                found = reply["policy_version"]
                if found > version:
                    delays += [reply["round"] - stop for stop in _stops(full["policy"], found)[version:]]
                    version = found
    taken = time.monotonic() - began
    delay = round(float(np.mean(delays))) if delays else 0
    runs = [
        fairveil.run({**census_spec(rounds), "seed": seed, "feedback": {"delay": delay}})["metrics"]["fair_regret"][-1]
        for seed in range(10)
    ]
    mean, deviation = float(np.mean(runs)), float(np.std(runs, ddof=1))
    off = (regret - mean) / deviation
    print(f"census: {rounds} rounds in {taken:.0f} s, {version} releases, mean delay {delay} rounds")
    print(f"fair regret {regret:.0f}; ten simulated runs {mean:.0f} +- {deviation:.0f}: {off:+.1f} deviations")
    return abs(off) <= 4.0


def _stops(table: dict[str, object], count: int) -> list[int]:
    """The rounds at which the first batches end."""
    policy = registry.build("policy", table, "policy")
    return np.cumsum([policy.batch_length(number) for number in range(count)]).astype(int).tolist()


def nash(url: str, rounds: int) -> bool:
    """Singles; every reward is sent at a random moment inside its window."""
    random.seed(5)
    wait, regret, best = 2.0, 0.0, max(MEANS)
    table = {
        "name": "nash",
        "policy": {"name": "private-nash", "arms": len(MEANS), "epsilon": 1.0},
        "reward": {"low": 0, "high": 1, "wait": f"{wait:.0f}s"},
    }
    due: list[tuple[float, str, float]] = []
    began = time.monotonic()
    with httpx.Client(base_url=url, timeout=120) as client:
        client.post("/v1/loops", json=table).raise_for_status()
        began = time.monotonic()
        size = 20
        for first in range(0, rounds, size):
            asked = [{"event_id": str(first + index)} for index in range(size)]
            answer = client.post("/v1/loops/nash/decisions/batch", json={"decisions": asked}).json()["decisions"]
            now = time.monotonic()
            for reply in answer:
                arm = reply["action"]
                regret += best - MEANS[arm]
                value = float(random.random() < MEANS[arm])
                due.append((now + random.uniform(0, 0.7 * wait), reply["event_id"], value))
            ready = [one for one in due if one[0] <= now]
            due = [one for one in due if one[0] > now]
            if ready:
                body = {"rewards": [{"event_id": event, "value": value} for _, event, value in ready]}
                client.post("/v1/loops/nash/rewards/batch", json=body).raise_for_status()
            time.sleep(0.01)
        taken = time.monotonic() - began
    decided = rounds * wait / taken
    spec = {
        "task": "bandit",
        "rounds": rounds,
        "checkpoints": [rounds],
        "runs": 200,
        "policy": {"name": "private-nash", "epsilon": 1.0},
        "environment": {"name": "bernoulli", "means": MEANS},
    }
    without = fairveil.run(spec)["metrics"]["average_regret"][-1]
    must = without + decided / rounds * (best - float(np.mean(MEANS)))
    average = regret / rounds
    print(
        f"nash: {rounds} rounds in {taken:.0f} s, D = {decided:.0f}; average regret {average:.4f}, must pay {must:.4f}"
    )
    print(f"ratio {average / must:.2f} (at most 1.35)")
    return average <= 1.35 * must


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=50_000)
    options.add_argument("--nash", type=int, default=20_000)
    options.add_argument("--size", type=int, default=50)
    options.add_argument("--which", nargs="+", default=["census", "nash"])
    given = options.parse_args()
    results = []
    with folder() as place, serving(f"sqlite:///{place}/learn/store.db") as server:
        if "census" in given.which:
            results.append(census(server.url, given.rounds, given.size))
        if "nash" in given.which:
            results.append(nash(server.url, given.nash))
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
