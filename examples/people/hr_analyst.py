"""An HR analyst: past applicants with what became of them. Would a private policy that is fair within groups serve us?

Raw data: generated applicants (there is no public table of this kind).

    python examples/people/hr_analyst.py [FOLDER]
"""

from __future__ import annotations

import random
from pathlib import Path

from commands import edit, fairveil, folder_of, write


def raw(file: Path) -> None:
    """Applicants as a CSV: what was known when they applied, and the rating after a year."""
    random.seed(2)
    rows = []
    for applicant in range(12000):
        gender, site = random.choices("fm", [0.4, 0.6])[0], random.choice(["north", "south"])
        years, degree = random.uniform(0, 25), random.choice(["none", "bachelor", "master"])
        rating = 2 + years / 6 + 2 * (degree == "master") + 0.8 * (gender == "m") + random.gauss(0, 0.6)
        name = f"applicant {applicant}"
        rows.append((applicant, name, gender, site, f"{years:.1f}", degree, f"{min(max(rating, 0), 10):.1f}"))
    write(file, ["applicant_id", "name", "gender", "site", "experience", "degree", "rating"], rows)


def work(folder: Path) -> Path:
    names = ("applicants.csv", "hiring.toml", "hiring.json", "report.html")
    table, spec, result, report = (folder / name for name in names)
    raw(table)
    spec.unlink(missing_ok=True)
    fairveil("schema", table, "--group", "gender", "--group", "site", "--outcome", "rating", "--out", spec)
    # Known without the table: the scale of the rating. Experience is asked for in whole decades up to fifty years.
    # Eight apply for each vacancy, and everybody is shown once: the promise is then one to the person.
    edit(
        spec,
        {
            "low": "low = 0",
            "high": "high = 10",
            "order": 'order = "file"\nper_round = 8',
            "rounds": "rounds = 1500",
            "declared": 'declared = "public"',
            "noise": 'noise = "secure"',
        },
    )
    text = spec.read_text()
    start = text.index("[environment.columns.experience]")
    spec.write_text(text[:start] + "[environment.columns.experience]\nlow = 0\nhigh = 50\n" + _after(text[start:]))
    fairveil("run", spec, "--json", into=result)
    fairveil("report", result, "--out", report)
    return report


def _after(text: str) -> str:
    """What follows the two lines of a range."""
    return text.split("\n", 3)[3]


if __name__ == "__main__":
    print(f"\n{work(folder_of('hr_analyst'))}")
