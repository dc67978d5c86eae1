"""Agent-rounds per second of the exposure simulator against a plain NumPy loop of the same algorithm, and where time
goes.

The NumPy twin makes the same random draws and the same ascent steps; its regret must agree, which is checked first.
CPU time of this process, so that a shared machine does not matter much.

    python bench/exposure_speed.py [--rounds 20000]
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from fairveil import registry
from fairveil.bandits.environments.exposure import ExposureWorld
from fairveil.bandits.exposure.optimism import FLAT, SECOND_START, STEPS, TOLERANCE
from fairveil.bandits.exposure.simulate import simulate
from fairveil.randomness import generator

AGENTS, ACTIONS, DIMENSION, RATE, R = 10, 10, 5, 10.0, 0.1


def value(means):
    weights = np.exp(RATE * (means - means.max()))
    law = weights / weights.sum()
    found = law @ means
    return found, law, law * (1 + RATE * (means - found))


def ascend(base, slopes, reach, z):
    means = base + slopes @ z
    now, law, slope = value(means)
    for _ in range(STEPS):
        gradient = slopes.T @ slope
        norm = np.sqrt(gradient @ gradient)
        if norm <= 0 or norm - gradient @ z <= TOLERANCE * reach:
            break
        share, better = 1.0, False
        while share > 0.05:
            trial = z + share * (gradient / norm - z)
            reached, new_law, new_slope = value(base + slopes @ trial)
            if reached > now:
                better = True
                break
            share *= 0.5
        if not better:
            break
        now, law, slope, z = reached, new_law, new_slope, trial
    return now, law


def optimistic(base, slopes):
    lengths = np.sqrt((slopes**2).sum(axis=1))
    reach = lengths.max()
    _, law, slope = value(base)
    gradient = slopes.T @ slope
    norm = np.sqrt(gradient @ gradient)
    if reach <= 0 or norm <= 0:
        return law
    start, second = gradient / norm, None
    if RATE * reach > FLAT:
        starts = slopes / lengths[:, None]
        best, runner_up, first, second = value(base + slopes @ start)[0], -np.inf, None, None
        for b in range(len(base)):
            if base[b] + lengths[b] <= best:
                continue
            found = value(base + slopes @ starts[b])[0]
            if found > best:
                second, runner_up, first, best = first, best, b, found
            elif found > runner_up:
                second, runner_up = b, found
        if RATE * reach <= SECOND_START:
            second = None
        second = None if second is None else starts[second]
        start = start if first is None else starts[first]
    reached, law = ascend(base, slopes, reach, start)
    if second is not None:
        other, other_law = ascend(base, slopes, reach, second)
        if other > reached:
            law = other_law
    return law


def numpy_loop(rounds, seed):
    """Everybody learns alone: the same loop as the compiled one, in plain NumPy."""
    rng, choice = generator(seed, "world", 0), generator(seed, "choice", 0)
    theta = np.array(ExposureWorld().prepare(rng).theta)
    gram = np.tile(np.eye(DIMENSION) / R**2, (AGENTS, 1, 1))
    moment = np.zeros((AGENTS, DIMENSION))
    regret = np.zeros(AGENTS)
    prior = DIMENSION * np.log(1 / R**2)
    for _ in range(rounds):
        for i in range(AGENTS):
            contexts = rng.random((ACTIONS, DIMENSION)) / np.sqrt(DIMENSION)
            factor = np.linalg.cholesky(gram[i])
            inverse = np.linalg.inv(factor)
            centre = inverse.T @ (inverse @ moment[i])
            radius = 1 / R + np.sqrt(2 * np.log(10) + 2 * np.log(np.diag(factor)).sum() - prior)
            law = optimistic(contexts @ centre, contexts @ (radius * inverse.T))
            arm = min(int(np.searchsorted(np.cumsum(law), choice.random(), side="right")), ACTIONS - 1)
            means = contexts @ theta
            fair = np.exp(RATE * (means - means.max()))
            fair /= fair.sum()
            regret[i] += np.abs(fair - law).sum()
            x, y = contexts[arm], means[arm] + R * rng.standard_normal()
            gram[i] += np.outer(x, x) / R**2
            moment[i] += x * y / R**2
    return regret


def compiled(rounds, seed, **policy):
    # Policies are sized for the published horizon, so that the paper's schedule synchronises every fifth round.
    table = {"agents": AGENTS, "dimension": DIMENSION, "horizon": 100_000, **policy}
    spec = {"seed": seed, "rounds": rounds, "checkpoints": [rounds], "noise": "seeded"}
    built = registry.build("policy", table, "policy")
    start = time.process_time()
    part = simulate(built, ExposureWorld(), spec, 0)
    return part["fairness"][-1], time.process_time() - start


def rate(seconds, rounds):
    return AGENTS * rounds / seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20_000)
    parser.add_argument("--numpy-rounds", type=int, default=400)
    rounds, slow_rounds = vars(parser.parse_args()).values()
    budget = {"epsilon": 2.0, "delta": 0.1}
    policies = {
        "fairx-linucb": {"name": "fairx-linucb"},
        "fairx-linucb, no optimism": {"name": "fairx-linucb", "width": 0.0},
        "fed-fairx, frozen, 13 syncs, no optimism": {
            "name": "fed-fairx", "width": 0.0, "local_raw": False, "schedule": {"name": "growing", "factor": 2.0},
        },
        "fed-fairx": {"name": "fed-fairx"},
        "priv-fairx": {"name": "priv-fairx", **budget},
        "priv-fairx printed": {"name": "priv-fairx", "variant": "printed", **budget},
        "batched-priv-fairx": {"name": "batched-priv-fairx", **budget},
        "batched-priv-fairx personal": {"name": "batched-priv-fairx", "personal": True, **budget},
    }  # fmt: skip
    for table in policies.values():
        compiled(50, 0, **table)  # compile first
    start = time.process_time()
    twin = numpy_loop(slow_rounds, 1)
    slow = time.process_time() - start
    fast, _ = compiled(slow_rounds, 1, name="fairx-linucb")
    np.testing.assert_allclose(fast, twin, rtol=1e-6)
    base = rate(slow, slow_rounds)
    print(f"plain NumPy loop: {base:,.0f} agent-rounds/s ({1e6 / base:.0f} us each); regret agrees to 1e-6")
    seconds = {}
    for name, table in policies.items():
        seconds[name] = min(compiled(rounds, 1, **table)[1] for _ in range(2))
        speed = rate(seconds[name], rounds)
        print(f"{name:42s} {speed:>10,.0f} agent-rounds/s  {1e6 / speed:6.2f} us each  {speed / base:6.0f} x NumPy")
    bare = seconds["fed-fairx, frozen, 13 syncs, no optimism"]
    lazy, whole = seconds["fairx-linucb, no optimism"], seconds["fairx-linucb"]
    print("\nwhere the time of fairx-linucb goes (differences of the lines above):")
    parts = (
        ("contexts, fair law, rows, tallies", bare),
        ("own belief after every row (Cholesky, inverse, centre)", lazy - bare),
        ("optimistic step", whole - lazy),
    )
    for name, cost in parts:
        print(f"  {name:56s} {100 * cost / whole:5.1f} %  {1e6 * cost / (AGENTS * rounds):6.2f} us")


if __name__ == "__main__":
    main()
