"""A policy analyst: a programme was offered by a rule that left something to chance. Would another do better?

Raw data: a generated register of offers with their probabilities. The answer is private: only noisy sums are published.

    python examples/people/policy_analyst.py [FOLDER]
"""

from __future__ import annotations

import random
from pathlib import Path

from commands import fairveil, folder_of, write

SPEC = """\
# What would offering training to everybody have earned? One person's row is protected with epsilon = 1.
task = "evaluate"
noise = "secure"
epsilon = 1.0
clip = 4.0                      # no offer had a probability below 1/4

[log]
file = "register.csv"
arm = "offer"
arms = ["none", "advice", "training"]
outcome = "months_in_work"
low = 0
high = 12
propensity = "probability"

[target]
name = "arm"
arm = "training"
"""


def raw(file: Path) -> None:
    """The register as a CSV: one row a person."""
    random.seed(4)
    rows = []
    for person in range(5000):
        young = random.random() < 0.5
        chance = [0.25, 0.25, 0.5] if young else [0.4, 0.35, 0.25]
        offer = random.choices([0, 1, 2], chance)[0]
        months = min(max(random.gauss((4, 5, 7)[offer] + young, 2.5), 0), 12)
        rows.append((person, ("none", "advice", "training")[offer], chance[offer], round(months, 1)))
    write(file, ["person", "offer", "probability", "months_in_work"], rows)


def work(folder: Path) -> Path:
    table, spec, result, report = (
        folder / name for name in ("register.csv", "offer.toml", "offer.json", "report.html")
    )
    raw(table)
    spec.write_text(SPEC)
    fairveil("run", spec, "--json", into=result)
    fairveil("report", result, "--out", report)
    return report


if __name__ == "__main__":
    print(f"\n{work(folder_of('policy_analyst'))}")
