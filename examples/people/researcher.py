"""A researcher: how much privacy can my logged experiment afford? A sweep over budgets, a table for the paper.

Raw data: a generated log with known, uneven propensities.

    python examples/people/researcher.py [FOLDER]
"""

from __future__ import annotations

import random
from pathlib import Path

from commands import edit, fairveil, folder_of, write


def raw(file: Path) -> None:
    """A log as a CSV: what was shown, with what probability, and what it brought."""
    random.seed(3)
    chance, success = {"text": 0.5, "picture": 0.3, "video": 0.2}, {"text": 0.25, "picture": 0.35, "video": 0.6}
    rows = []
    for _ in range(6000):
        shown = random.choices(list(chance), list(chance.values()))[0]
        rows.append((shown, int(random.random() < success[shown]), chance[shown]))
    write(file, ["variant", "success", "propensity"], rows)


def work(folder: Path) -> Path:
    names = ("log.csv", "experiment.toml", "experiment.json", "report.html")
    table, spec, result, report = (folder / name for name in names)
    raw(table)
    spec.unlink(missing_ok=True)
    fairveil("schema", table, "--out", spec)
    edit(spec, {"rounds": "rounds = 600", "runs": "runs = 5", "declared": 'declared = "public"'})
    fairveil(
        "compare",
        spec,
        "--vary",
        "policy.epsilon=0.5,2,8",
        "--engine",
        "serial",
        "--out",
        folder / "sweep",
        "--export",
        folder / "sweep.csv",
    )
    edit(spec, {"runs": "runs = 1", "noise": 'noise = "secure"'})
    fairveil("run", spec, "--json", into=result)
    fairveil("report", result, "--out", report)
    return report


if __name__ == "__main__":
    print(f"\n{work(folder_of('researcher'))}")
