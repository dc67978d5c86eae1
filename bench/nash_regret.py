"""Nash regret of our policies against every other policy here: 50 arms, two kinds of reward laws, five budgets.

Prints every checkpoint, whether private-nash is the lowest of the global private policies, and the wanted floors.
Run: python bench/nash_regret.py
"""

from __future__ import annotations

import fairveil

CHECKPOINTS = [10**4, 3 * 10**4, 10**5, 3 * 10**5, 10**6, 2 * 10**6]
GLOBAL = {
    "adap-ucb sound": ("adap-ucb", "sound"),
    "adap-ucb figure": ("adap-ucb", "figure"),
    "gdp-ncb sound": ("gdp-ncb", "sound"),
    "gdp-ncb figure": ("gdp-ncb", "figure"),
}


def regret(policy: dict, environment: str = "bernoulli", runs: int = 40, rounds: int = CHECKPOINTS[-1]) -> list[float]:
    points = [point for point in CHECKPOINTS if point <= rounds]
    spec = {"task": "bandit", "policy": policy, "environment": {"name": environment, "arms": 50}, "rounds": rounds}
    return fairveil.run({**spec, "runs": runs, "checkpoints": points, "seed": 7})["metrics"]["nash_regret"]


def show(name: str, values: list[float]) -> None:
    print(f"  {name:22}" + "".join(f"{value:10.5f}" for value in values), flush=True)


def main() -> None:
    ours: dict[tuple[str, float], list[float]] = {}
    for environment in ("bernoulli", "mixed"):
        for epsilon in (0.1, 0.2, 0.5, 1.0, 2.0):
            print(f"{environment}, eps {epsilon}; T = " + ", ".join(f"{point:.0e}" for point in CHECKPOINTS))
            mine = ours[environment, epsilon] = regret({"name": "private-nash", "epsilon": epsilon}, environment)
            show("private-nash", mine)
            lowest = [float("inf")] * len(CHECKPOINTS)
            for label, (name, variant) in GLOBAL.items():
                values = regret({"name": name, "epsilon": epsilon, "variant": variant}, environment)
                lowest = [min(pair) for pair in zip(lowest, values)]
                show(label, values)
            local = regret({"name": "local-nash", "epsilon": epsilon}, environment)
            show("local-nash", local)
            print(
                f"  below every global policy at every checkpoint: {all(a < b for a, b in zip(mine, lowest))};"
                f" local-nash is lower at {[p for p, a, b in zip(CHECKPOINTS, mine, local) if b < a]}"
            )
    print("\nnon-private ncb")
    for environment in ("bernoulli", "mixed"):
        values = regret({"name": "ncb"}, environment, runs=20)
        show(environment, values)
        later = [point for point, a, b in zip(CHECKPOINTS, ours[environment, 0.2], values) if a < b]
        print(f"  private-nash at eps 0.2 is lower at {later}")
    print("\nat T = 1e6, bernoulli")
    rounds = 10**6
    figure = {e: regret({"name": "gdp-ncb", "epsilon": e, "variant": "figure"}, rounds=rounds)[-1] for e in (0.2, 1.0)}
    for epsilon in (0.2, 1.0):
        local = regret({"name": "local-nash", "epsilon": epsilon}, rounds=rounds)[-1]
        rivals = {
            name: regret({"name": name, "epsilon": epsilon, "variant": "figure"}, rounds=rounds, runs=20)[-1]
            for name in ("ldp-ncb", "ldp-ucb")
        }
        print(
            f"  eps {epsilon}: local-nash {local:.5f}, gdp-ncb figure {figure[epsilon]:.5f}; "
            + ", ".join(f"{name} figure {value:.4f} ({value / local:.0f}x)" for name, value in rivals.items())
        )
    mine = ours["bernoulli", 0.2]
    print(
        f"  private-nash eps 0.2: {mine[4]:.5f} at 1e6 (floor .02), {mine[5]:.5f} at 2e6 (floor .012), "
        f"gdp-ncb figure / private-nash {figure[0.2] / mine[4]:.0f}x (floor 10x)"
    )


if __name__ == "__main__":
    main()
