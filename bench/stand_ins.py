"""What it costs that a reward over its person's limit is not read: average regret, and coverage of 95 % intervals.

    python bench/stand_ins.py [RUNS]                # 400 runs a cell

A share of the rewards is over a limit. ``left out``: it never came, as before; ``expected``: what the published numbers
let one expect of its arm stands there, as in a loop; ``mean``: the published mean; ``middle``: one half, always.
"""

from __future__ import annotations

import sys
from itertools import product

import numpy as np

from fairveil import registry
from fairveil.bandits.environments.arms import UNIT
from fairveil.bandits.nash.arrivals import enough
from fairveil.bandits.nash.waiting import WaitingPolicy, pools_of
from fairveil.privacy.noise import SeededNoise
from fairveil.randomness import generator
from fairveil.state import State

WORLDS = {"spread": (0.9, 0.7, 0.5, 0.3, 0.1), "close": (0.85, 0.8, 0.75, 0.7, 0.65)}
CELLS = ((0.0, "expected"), *product((0.1, 0.3), ("left out", "expected", "mean", "middle")))


def standing(policy: WaitingPolicy, state: State, arm: int, kind: str) -> float:
    found = policy.evidence(state)
    if kind == "mean" and found.size[arm] > 0:
        return float(np.clip(found.mean[arm], 0.0, 1.0))
    return policy.expected_reward(state, arm) if kind == "expected" else 0.5


def one_run(
    seed: int, means: np.ndarray, rounds: int, share: float, kind: str
) -> tuple[float, list[bool], list[float]]:
    """Average regret; whether each published interval covers; how wide it is. Answers come at once."""
    table = {"name": "private-nash", "arms": len(means), "epsilon": 1.0, "release": "arrivals"}
    policy = registry.build("policy", table, "policy")
    coins, world, noise = generator(seed, "coins"), np.random.default_rng([seed, 1]), SeededNoise(seed, 3)
    state, now, regret = policy.start(), 0, 0.0
    came, closed, held, over = (np.zeros(len(means), np.int64) for _ in range(4))
    total = np.zeros(len(means))
    while now < rounds:
        state = policy.open(policy.counted(state, came.copy(), closed.copy(), now), now, coins)
        arm, pools = int(state["turn"][2]), pools_of(state)
        needed = int(enough(policy.shape(), pools.seats[arm], pools.last[arm])) - int(held[arm])
        count = min(int(state["turn"][1]) - now, rounds - now, max(1, needed))
        unread = int(world.binomial(count, share))
        total[arm] += world.binomial(count - unread, means[arm])
        out = unread if kind == "left out" else 0
        closed[arm] += out
        came[arm] += count - out
        held[arm] += count - out
        over[arm] += unread - out
        regret += count * (means.max() - means[arm])
        now += count
        state = policy.counted(state, came.copy(), closed.copy(), now)
        while due := policy.open_blocks(state):
            block, full = due[0], {name: array.copy() for name, array in policy.alone(state, due[0]).items()}
            what = total[block.arm] + over[block.arm] * standing(policy, state, block.arm, kind)
            full["raw"][block.arm], full["here"][block.arm] = round(what * UNIT), block.stop - block.first
            state = policy.adopt(state, block.name, policy.draw(full, noise))
            total[block.arm] = over[block.arm] = held[block.arm] = 0
    rows = policy.arm_intervals(state)
    known = ~np.isnan(rows[:, 0])
    covered = (rows[:, 1] <= means) & (means <= rows[:, 2])
    return regret / rounds, covered[known].tolist(), (rows[:, 2] - rows[:, 1])[known].tolist()


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    print("means   rounds  over  stands there  regret (error)     covered  width")
    for (name, means), rounds, (share, kind) in product(WORLDS.items(), (2_000, 20_000), CELLS):
        found = [one_run(seed, np.array(means), rounds, share, kind) for seed in range(runs)]
        regrets = np.array([regret for regret, _, _ in found])
        covered = np.mean([one for _, some, _ in found for one in some])
        width = np.mean([one for _, _, some in found for one in some])
        spread = regrets.std() / np.sqrt(runs)
        print(
            f"{name:8}{rounds:6}{share:6}  {kind:12}  {regrets.mean():.4f} ({spread:.4f})  {covered:.3f}    {width:.3f}"
        )


if __name__ == "__main__":
    main()
