"""What the others' noisy releases cost or save a personal agent, compared on the very same own rows.

Two runs of a bandit soon choose different actions, so even paired seeds compare regrets only to a few percent. Here one
agent alone and one personal agent are given the same rows (drawn by the fair law), the others publish theirs with fresh
noise, and both are asked for their laws on the same contexts along the way. The difference is the releases alone; the
band is 95 % over trials. Regret is summed as in a run of that length.

    python bench/exposure_personal.py [--rounds 2500] [--trials 100] [--width 0]
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from numba import njit

from fairveil.bandits.exposure import BatchedPrivFairx, FairxLinUcb
from fairveil.bandits.exposure.kernel import add_row, draw_arm, make_row, raw_row
from fairveil.fairness.exposure import ExpMerit, fair_law, fill_law
from fairveil.privacy.noise import SeededNoise

ACTIONS, DIMENSION, CONTEXTS = 10, 5, 60
CELLS = [(m, noise, epsilon) for m in (3, 10) for noise in (0.1, 0.3, 1.0, 3.0) for epsilon in (0.5, 2.0)]
KIND, NUMBERS, TABLE = ExpMerit(10.0).code()


@njit
def gather(rng, rounds, theta, noise, rule, leaf, local):
    """Rows of one agent that plays the fair law: clipped into ``leaf``, raw into ``local``."""
    x, means, law = np.empty((ACTIONS, DIMENSION)), np.empty(ACTIONS), np.empty(ACTIONS)
    row = np.empty(DIMENSION + 1)
    for _ in range(rounds):
        for a in range(ACTIONS):
            for k in range(DIMENSION):
                x[a, k] = rng.random() / math.sqrt(DIMENSION)
            means[a] = (x[a] * theta).sum()
        fill_law(means, KIND, NUMBERS, TABLE, law)
        arm = draw_arm(law, rng.random())
        reward = means[arm] + noise * rng.standard_normal()
        make_row(x[arm], reward, rule, row)
        add_row(row, leaf)
        raw_row(x[arm], reward, rule, row)
        add_row(row, local)


def trial(personal, alone, rng, number):
    """Fairness regret of agent 0 with and without the others."""
    theta = np.abs(rng.normal(size=DIMENSION))
    theta /= np.linalg.norm(theta)
    contexts = rng.random((CONTEXTS, ACTIONS, DIMENSION)) / math.sqrt(DIMENSION)
    fair = [fair_law(x @ theta, ExpMerit(10.0)) for x in contexts]
    theirs, own = personal.start(), alone.start()
    # the same raw rows, in the units of either policy
    units = personal.facts.gram / alone.facts.gram, personal.facts.moment / alone.facts.moment
    found, noise, now = np.zeros(2), SeededNoise(number), 0
    for time in [*personal.times, personal.horizon]:
        for end in ((now + time) // 2, time):
            gather(rng, end - now, theta, personal.reward_std, personal.compiled.rows, theirs["leaf"][0],
                   theirs["local"][0])  # fmt: skip
            own["local"][0] = theirs["local"][0] * units[0]
            own["local"][0, :-1, -1] = theirs["local"][0, :-1, -1] * units[1]
            for kind, (policy, state) in enumerate(((personal, theirs), (alone, own))):
                policy.refresh_beliefs(state)
                laws = (policy.law(state, 0, x) for x in contexts)
                found[kind] += (end - now) * np.mean([np.abs(law - best).sum() for law, best in zip(laws, fair)])
            now = end
        if time in personal.times and int(theirs["syncs"]) < personal.syncs:
            for i in range(1, personal.agents):
                rows = time - int(theirs["last"])
                gather(rng, rows, theta, personal.reward_std, personal.compiled.rows, theirs["leaf"][i],
                       theirs["local"][i])  # fmt: skip
            theirs["rows"][:] = time - int(theirs["last"])
            theirs = personal.release(theirs, noise)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2_500)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--width", type=float, default=0.0)
    rounds, trials, width = vars(parser.parse_args()).values()
    print(f"{'agents':>6s} {'noise':>6s} {'eps':>5s} {'alone':>8s}   personal minus alone")
    for m, noise, epsilon in CELLS:
        facts = {"dimension": DIMENSION, "horizon": rounds, "reward_std": noise, "width": width}
        budget = {"epsilon": epsilon, "delta": 1e-5, "reward_bound": 1 + 2 * noise}
        personal, alone = BatchedPrivFairx(agents=m, **facts, **budget, personal=True), FairxLinUcb(agents=1, **facts)
        rng = np.random.default_rng(1)
        found = np.array([trial(personal, alone, rng, number) for number in range(trials)])
        base = found[:, 1].mean()
        gaps = 100 * (found[:, 0] - found[:, 1]) / base
        band = 1.96 * gaps.std(ddof=1) / math.sqrt(trials)
        print(f"{m:6d} {noise:6.1f} {epsilon:5.1f} {base:8.1f}   {gaps.mean():+6.2f} % +- {band:.2f}", flush=True)


if __name__ == "__main__":
    main()
