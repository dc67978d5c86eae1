"""The pictures of the front page, one for each kind of reader, from the specs in `examples/`.

python docs/support/front_pictures.py        # writes docs/assets/front-*.svg
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import fairveil
from fairveil import registry
from fairveil.lab.artefact import Chart, Line, line
from fairveil.lab.plots import allocation_charts, draw, write_picture

ROOT = Path(__file__).resolve().parents[2]
HOURS = tuple(range(168))
SIZE = {"width": 300, "height": 150}
RULES = {"none": "no rule", "dp": "equal shares", "eqloss": "equal losses"}


def spec(name: str, **changes: Any) -> dict[str, Any]:
    return {**tomllib.loads((ROOT / "examples" / f"{name}.toml").read_text()), **changes}


def curve(name: str, metric: str, words: str) -> Chart:
    result = fairveil.run(spec(name))
    return Chart(words, "round", words, (line(words, result, metric),), log_x=True)


def trial() -> Chart:
    """People who get a worse arm, by budget, with the range of nine runs in ten."""
    asked = spec("first")
    policy = registry.build("policy", {**asked["policy"], "arms": len(asked["environment"]["means"])}, "policy")
    rows = policy.plan(asked["environment"], people=2_000).by_epsilon
    budgets = tuple(row.epsilon for row in rows)
    value, low, high = (tuple(getattr(row.worse, end) for row in rows) for end in ("value", "low", "high"))
    words = "people on a worse arm"
    return Chart(f"{words}, of 2,000", "epsilon", words, (Line(words, budgets, value, low, high),), log_x=True)


def city() -> Chart:
    series = fairveil.run(spec("stream", runs=1))["series"]
    ends = [
        Line(name, HOURS, tuple(series[name]["y"][-168:])) for name in ("true", "released")
    ]
    return Chart("a week of hourly counts", "hour", "count", tuple(ends))


def lending() -> Chart:
    found = fairveil.run(spec("lending"))["metrics"]["by_group"]
    names = tuple(found)
    bars = []
    for key, words in RATES.items():
        value, low, high = (tuple(found[name][key + end] for name in names) for end in ("", "_low", "_high"))
        bars.append(Line(words, names, value, low, high))
    return Chart("rates by group", "", "rate", tuple(bars), kind="bars", y_range=(0.0, 1.0))


RATES = {"selected": "accepted", "true_positive": "accepted of the qualified"}


def years() -> Chart:
    lines = [line(words, fairveil.run(spec("ten-years", fairness=rule)), "share_a") for rule, words in RULES.items()]
    return Chart("who is still there", "years", "share of group a", tuple(lines))


def main() -> None:
    pictures = {
        "trial": trial(),
        "operate": allocation_charts(fairveil.run(spec("first")))[0],
        "screen": curve("screening", "parity_gap", "gap between groups"),
        "federation": curve("recommender", "theta_error", "error of what is learned"),
        "city": city(),
        "lend": lending(),
        "research": years(),
    }
    for name, picture in pictures.items():
        write_picture(draw(picture, **SIZE), ROOT / "docs" / "assets" / f"front-{name}.svg")


if __name__ == "__main__":
    main()
