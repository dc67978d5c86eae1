"""A trial statistician: patients got one of two treatments by lot. What would a private adaptive trial have done?

Raw data: the International Stroke Trial where it is on this machine, else a generated trial of the same shape.

    python examples/people/trial_statistician.py [FOLDER]
"""

from __future__ import annotations

import random
from pathlib import Path

from commands import edit, fairveil, folder_of, write

from fairveil.data.files import find


def raw(file: Path) -> None:
    """The trial as a CSV: one row a patient."""
    real = find("ist/IST_corrected.csv")
    if real is not None:
        import gzip

        content = gzip.decompress(real.read_bytes()) if real.suffix == ".gz" else real.read_bytes()
        file.write_bytes(content)
        return
    random.seed(1)
    rows = []
    for patient in range(6000):
        aspirin = random.choice("NY")
        rows.append(
            (patient, aspirin, random.randint(40, 95), int(random.random() < (0.10 if aspirin == "Y" else 0.16)))
        )
    write(file, ["PATIENT", "RXASP", "AGE", "ID14"], rows)


def work(folder: Path) -> Path:
    names = ("trial.csv", "trial.toml", "trial.json", "trial.db", "report.html")
    table, spec, result, ledger, report = (folder / name for name in names)
    raw(table)
    for old in (spec, ledger):
        old.unlink(missing_ok=True)
    fairveil("schema", table, "--arm", "RXASP", "--outcome", "ID14", "--out", spec)
    # The protocol says: two arms by lot, death within 14 days, and deaths are to be few.
    edit(
        spec,
        {
            "better": 'better = "low"',
            "arms": 'arms = ["N", "Y"]          # protocol: no aspirin, aspirin',
            "low": "low = 0                    # alive",
            "high": "high = 1                   # dead within 14 days",
            "rounds": "rounds = 2500",
            "order": 'order = "recorded"',
            "declared": 'declared = "public"',
            "noise": 'noise = "secure"',
        },
    )
    fairveil("run", spec, "--ledger", ledger, "--json", into=result)
    fairveil("report", ledger, "--policy", spec, "--out", report)
    return report


if __name__ == "__main__":
    print(f"\n{work(folder_of('trial_statistician'))}")
