"""A data scientist: articles compete for the front page. Attention in proportion to merit, clicks kept private.

Raw data: generated articles and clicks. The policy is one for several sites that learn together.

    python examples/people/data_scientist.py [FOLDER]
"""

from __future__ import annotations

import random
from pathlib import Path

from commands import fairveil, folder_of, write

SPEC = """\
# Two sites show five articles at a time; each gets attention in proportion to its merit. (2, 1e-6) for one click.
task = "bandit"
rounds = 400
noise = "secure"

[policy]
name = "batched-priv-fairx"
epsilon = 2.0
delta = 1e-6
width = 0.0                     # no optimism: the run is short

[environment]
name = "items"
file = "articles.csv"
outcome = "clicked"
order = "file"                  # every row once
actions = 5
agents = 2
merit = ["exp", 4.0]

[environment.columns.length]
low = 0
high = 5000

[environment.columns.topic]
values = ["news", "sport", "culture"]

[environment.columns.picture]
values = ["no", "yes"]
"""


def raw(file: Path) -> None:
    """Articles as a CSV: what is known before they are shown, and whether a reader clicked."""
    random.seed(5)
    rows = []
    for article in range(5000):
        length, topic = random.randint(100, 5000), random.choice(["news", "sport", "culture"])
        picture = random.choice(["no", "yes"])
        chance = 0.1 + 0.3 * (picture == "yes") + 0.2 * (topic == "sport") + 0.2 * (length < 1500)
        rows.append((article, length, topic, picture, int(random.random() < chance)))
    write(file, ["article", "length", "topic", "picture", "clicked"], rows)


def work(folder: Path) -> Path:
    names = ("articles.csv", "front-page.toml", "front-page.json", "report.html")
    table, spec, result, report = (folder / name for name in names)
    raw(table)
    spec.write_text(SPEC)
    fairveil("run", spec, "--json", into=result)
    fairveil("report", result, "--out", report)
    return report


if __name__ == "__main__":
    print(f"\n{work(folder_of('data_scientist'))}")
