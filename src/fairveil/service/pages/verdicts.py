"""What a loop's published numbers and its private reports say, in one sentence, figures and tables. Published values
alone are read.

Chance to be best: the published means and intervals read as independent normal curves; an approximation, and marked
as one on the page.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fairveil import registry
from fairveil.errors import FairveilError
from fairveil.loop.waiting import under_way
from fairveil.service.pages.words import amount, count, listed, span

JOBS = {"nash": "trial", "meritocratic": "screening", "exposure": "recommender"}
JOB_WORDS = {
    "trial": "a trial: the better option more often",
    "screening": "a screening queue: one of several candidates",
    "recommender": "a recommender: shown in proportion to merit",
    "loop": "decisions by a plug-in policy",
}
REASONS = {
    "mode": "its mode does not learn",
    "horizon": "the rounds it was made for are over",
    "budget": "its budget does not allow it",
    "ledger": "its ledger refused; see the status page",
}
CURVE = 2001
LEVEL = 1.959964


def job_of(table: dict[str, Any]) -> str:
    """Which of the three jobs a loop does, by the family of its policy."""
    try:
        family = registry.get("policy", table["policy"]["name"], "policy").family
    except (FairveilError, AttributeError):
        family = ""
    return JOBS.get(family, "trial" if "arms" in table["published"] else "loop")


def state_of(table: dict[str, Any]) -> tuple[str, str]:
    """A short name of what a loop does now, and why."""
    if table["closed"] is not None:
        return "closed", "no more decisions; what was published stays"
    if table["serving"] and not table["serving"]["fits"]:
        return "attention", "shares served are not those declared"
    if table["learning"]["state"] == "open":
        return "learning", f"decides and learns ({table['mode']})"
    reason = table["learning"]["reason"]
    if reason == "mode":
        return table["mode"], f"decides and does not learn: mode {table['mode']}"
    return "attention", f"decides and does not learn: {REASONS.get(reason, reason)}"


def arm_name(row: dict[str, Any]) -> str:
    return row["action_id"] if row["action_id"] is not None else f"option {row['action']}"


def arm_id(row: dict[str, Any]) -> str:
    """What routes call an option."""
    return str(row["action"] if row["action_id"] is None else row["action_id"])


def rails(table: dict[str, Any]) -> list[str]:
    """What was declared about shares, in words."""
    given, found = table["allocation"] or {}, []
    if table["explore"]:
        found.append(f"{100 * table['explore']:g} % of decisions by equal chance")
    if given.get("floor"):
        found.append(f"every option gets at least {100 * given['floor']:g} %")
    if given.get("holdout") is not None:
        found.append(f"{given['holdout']} is the holdout: {100 * given['holdout_share']:g} % whatever is learned")
    if given.get("burn_in"):
        found.append(f"the first {count(given['burn_in'])} decisions have equal shares")
    if given.get("fallback") is not None:
        found.append(f"in a pause {given['fallback']} decides")
    return found


def interval(low: float, high: float) -> str:
    return f"{amount(low)} to {amount(high)}"


def first_learning(table: dict[str, Any]) -> str:
    """When a loop that has published nothing will."""
    wait, missing = span(table["reward"]["wait"]), table["reward"]["missing"]
    when = f"{wait} after each decision" if missing != "public" else f"when rewards are in, at most {wait} after"
    if table["closed"] is not None:
        return "Nothing was published before it was closed."
    if table["learning"]["state"] != "open":
        return "Nothing is published, and nothing will be while it does not learn."
    blocks = table["open_blocks"]
    if table.get("waiting"):
        under = under_way(table)
        rounds = f"{count(under)} round{' is' if under == 1 else 's are'} under way"
        lacking = [row["due_at"] - row["answered"] for row in table["waiting"] if row["due_at"] is not None]
        least = max(min(lacking, default=1), 1)
        of = "one option" if len(table["waiting"]) > 1 else "the queue"
        more = f"1 more outcome of {of} counts" if least == 1 else f"{count(least)} more outcomes of {of} count"
        first = f"It first learns, at the latest, when {more}; outcomes count {when}"
        return f"Nothing is published yet: {rounds}. {first}."
    if not blocks:
        return f"Nothing is published yet. It begins with the first decision; rounds settle {when}."
    left = max(blocks[0]["stop"] - table["settled"], 0)
    return (
        f"Nothing is published yet. The first numbers appear when {count(left)} more "
        f"round{' is' if left == 1 else 's are'} settled: {when}."
    )


def verdict(table: dict[str, Any], fairness: dict[str, Any] | None = None) -> str:
    """The sentence at the top of a loop's page."""
    if fairness is not None and (fairness["value"].get("words") if isinstance(fairness["value"], dict) else None):
        words = fairness["value"]["words"]
        return words if isinstance(words, str) else str(words[0])
    if not table["version"]:
        return first_learning(table)
    if "arms" in table["published"]:
        return _best(table["published"]["arms"])
    releases = f"{count(table['version'])} release{'' if table['version'] == 1 else 's'}"
    weights = weights_of(table)
    if weights:
        most = max(weights, key=lambda row: abs(row["value"]))
        return f"After {releases} {most['name']} weighs most: {amount(most['value'])}."
    return f"{releases} published."


def _best(arms: list[dict[str, Any]]) -> str:
    known = sorted((row for row in arms if row["mean"] is not None), key=lambda row: -row["mean"])
    if not known:
        return "Blocks were released, but no option has an estimate yet."
    best, others = known[0], [row for row in arms if row is not known[0]]
    says = f"{amount(best['mean'])}, {interval(best['low'], best['high'])}"
    highs = [row["high"] for row in others if row["high"] is not None]
    if others and len(highs) == len(others) and best["low"] > max(highs):
        return f"{arm_name(best)} is best: {says}."
    return f"{arm_name(best)} looks best: {says}; not yet separated."


def weights_of(table: dict[str, Any]) -> list[dict[str, Any]]:
    """Published weights by feature, where the policy has them."""
    published, features = table["published"], table["features"] or []
    found = published.get("direction", published.get("centre"))
    while isinstance(found, list) and len(found) == 1 and isinstance(found[0], list):
        found = found[0]
    if not isinstance(found, list) or len(found) != len(features) or any(value is None for value in found):
        return []
    return [{"name": feature["name"], "value": float(value)} for feature, value in zip(features, found)]


def chances(arms: list[dict[str, Any]]) -> list[float] | None:
    """The chance of each option to be best, None while one has no estimate.

    >>> rows = [{"mean": 0.5, "low": 0.4, "high": 0.6}, {"mean": 0.5, "low": 0.4, "high": 0.6}]
    >>> [round(chance, 6) for chance in chances(rows)]
    [0.5, 0.5]
    """
    if not arms or any(row["mean"] is None for row in arms):
        return None
    from scipy.special import ndtr  # a tenth of a second of every start, for a page that is looked at now and then

    means = np.array([row["mean"] for row in arms])
    spreads = np.array([max(row["high"] - row["low"], 1e-9) / (2 * LEVEL) for row in arms])
    points = np.linspace((means - 6 * spreads).min(), (means + 6 * spreads).max(), CURVE)
    scaled = (points[:, None] - means) / spreads
    curves, below = np.exp(-(scaled**2) / 2) / spreads, ndtr(scaled)
    found = []
    for arm in range(len(arms)):
        rest = np.delete(below, arm, axis=1).prod(axis=1)
        found.append(float(np.trapezoid(curves[:, arm] * rest, points)))
    whole = math.fsum(found)
    return [chance / whole for chance in found]


def shares(arms: list[dict[str, Any]]) -> list[float | None]:
    """How rounds were shared out."""
    numbers = [row.get("decided", row["rounds"]) for row in arms]
    whole = sum(numbers)
    return [number / whole if whole else None for number in numbers]


def figure(table: dict[str, Any]) -> dict[str, Any] | None:
    """The chart of a loop's family, as data for charts.js."""
    if not table["version"]:
        return None
    if "arms" in table["published"]:
        rows = [
            {"name": arm_name(row), "value": row["mean"], "low": row["low"], "high": row["high"]}
            for row in table["published"]["arms"]
            if row["mean"] is not None
        ]
        label = "estimated mean reward, with the interval it lies in (95 %)"
        domain = [table["reward"]["low"], table["reward"]["high"]]
        return {"kind": "intervals", "label": label, "rows": rows, "domain": domain, "says": _best_says(rows)}
    rows = weights_of(table)
    if not rows:
        return None
    says = listed([f"{row['name']} {amount(row['value'])}" for row in rows])
    return {"kind": "bars", "label": "published weight of each feature", "rows": rows, "says": f"Weights: {says}."}


def series_of(table: dict[str, Any], releases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Means, chances and shares over rounds, a line at every release; empty while all releases are of one round."""
    arms = table["published"].get("arms", [])
    if len({one["rounds"] for one in releases}) < 2 or not arms:
        return []
    at, names = [one["rounds"] for one in releases], [arm_name(row) for row in arms]
    known = [
        [None if one is None else dict(zip(("mean", "low", "high"), one)) for one in release["arms"]]
        for release in releases
    ]
    best = [chances([one or {"mean": None} for one in row]) for row in known]
    means = [[None if one is None else one["mean"] for one in row] for row in known]
    shared = {"kind": "series", "x": "rounds", "releases": at}
    made = []
    for title, rows, domain in (
        ("Mean reward after each release", means, [table["reward"]["low"], table["reward"]["high"]]),
        ("Chance to be best after each release", best, [0.0, 1.0]),
        ("Share of the released rounds, up to each release", [one.get("shares") for one in releases], [0.0, 1.0]),
    ):
        drawn = [
            {"name": name, "points": [[x, row[arm]] for x, row in zip(at, rows) if row and row[arm] is not None]}
            for arm, name in enumerate(names)
        ]
        last = [f"{one['name']} {amount(one['points'][-1][1])}" for one in drawn if one["points"]]
        if last:
            says = f"{title}, {count(len(at))} releases shown. At the end: {listed(last)}."
            made.append({**shared, "label": title, "series": drawn, "domain": domain, "says": says})
    return made


def _best_says(rows: list[dict[str, Any]]) -> str:
    parts = [f"{row['name']} {amount(row['value'])} ({interval(row['low'], row['high'])})" for row in rows]
    return f"Estimates: {listed(parts)}." if parts else "No estimate yet."


# Private reports: by group, by option, and the value of other rules --------------------------------------------------


Row = dict[str, Any]
TITLES = {"rate": "How often each group is chosen", "mean": "Mean outcome by group", "difference": "Exposure by group"}
LABELS = {
    "rate": "share of those shown who are chosen, with the interval in which it lies in the long run; the dashed line "
    "is the same share for everybody",
    "mean": "mean outcome by group, with the interval in which it lies in the long run",
    "difference": "exposure less what merit deserves, with the interval in which it lies in the long run; the dashed "
    "line is exposure by merit",
}


def shown(value: dict[str, Any]) -> dict[str, Any]:
    """The figure and the tables of a report."""
    if value.get("targets"):
        return _rules(value)
    groups: list[Row] = value.get("groups") or []
    if not groups:
        return {"figure": None, "tables": []}
    main = next(key for key in ("rate", "difference", "mean") if key in groups[0])
    tables = [_exposure(groups) if main == "difference" else _by_group(TITLES[main], groups, main)]
    if main == "rate" and "mean" in groups[0]:
        tables.append(_by_group("Mean outcome of who was chosen", groups, "mean", together=False))
    if groups[0].get("arms"):
        tables.append(_by_option(groups))
    if value.get("margins"):
        made = _exposure(value["margins"]) if main == "difference" else _by_group("", value["margins"], main, False)
        tables.append({**made, "title": "Sums of groups"})
    apart = [
        (name, amount(held["value"]), interval(held["low"], held["high"]),
         " and ".join(held.get("pair") or ()) or "all")
        for name, held in (("Gap", value.get("gap")), ("Impact ratio", value.get("ratio")),
                           ("Distance", value.get("distance")))
        if held is not None and held["value"] is not None
    ]  # fmt: skip
    if apart:
        tables.append({"title": "How far apart", "columns": ("Figure", "Value", "Interval", "Between"), "rows": apart})
    return {"figure": _figure(groups, main, value), "tables": tables}


def _known(one: Row, key: str) -> bool:
    return one.get("status") == "estimated" and (one.get(key) or {}).get("value") is not None


def _figure(groups: list[Row], main: str, value: dict[str, Any]) -> dict[str, Any] | None:
    drawn = [
        {"name": one["name"], "value": one[main]["value"], "low": one[main]["expected"][0],
         "high": one[main]["expected"][1]}
        for one in groups if _known(one, main)
    ]  # fmt: skip
    if not drawn:
        return None
    lines = [{"at": 0.0}] if main == "difference" else []
    if main == "rate":
        total = sum(one["shown"] for one in groups if _known(one, main))
        chosen = sum(one["chosen"] for one in groups if _known(one, main))
        lines = [{"at": chosen / total}] if total > 0 else []
    says = str((value.get("words") or [TITLES[main]])[0])
    return {"kind": "intervals", "label": LABELS[main], "rows": drawn, "lines": lines, "domain": None, "says": says}


def _by_group(title: str, groups: list[Row], key: str, together: bool = True) -> dict[str, Any]:
    """One figure of every group; ``together``: with the interval that holds for all groups at once."""
    together = together and "simultaneous" in groups[0]
    rows = []
    for one in groups:
        found = one.get(key) or {}
        if not _known(one, key):
            rows.append((one["name"], *("unknown",) * (4 if together else 3), one.get("status", "")))
            continue
        cells = [amount(found["value"]), interval(*found["realised"]), interval(*found["expected"])]
        cells += [interval(*one["simultaneous"])] if together else []
        rows.append((one["name"], *cells, one["status"] + ("; few were shown" if one.get("small") else "")))
    more = ("All groups at once",) if together else ()
    columns = ("Group", "Value", "In this period", "In the long run", *more, "Status")
    return {"title": title, "columns": columns, "rows": rows}


def _exposure(groups: list[Row]) -> dict[str, Any]:
    rows = [
        (one["name"], amount(one["played"]["value"]), amount(one["deserved"]["value"]),
         amount(one["difference"]["value"]),
         interval(*one["difference"]["expected"]) if _known(one, "difference") else "unknown", one["status"])
        for one in groups
    ]  # fmt: skip
    columns = ("Group", "Exposure", "By merit", "Difference", "In the long run", "Status")
    return {"title": TITLES["difference"], "columns": columns, "rows": rows}


def _by_option(groups: list[Row]) -> dict[str, Any]:
    rows = [
        (f"{one['name']}: {arm['action']}", *(
            (amount(arm["mean"]["value"]), interval(*arm["mean"]["realised"]), interval(*arm["mean"]["expected"]))
            if _known(arm, "mean") else ("unknown",) * 3), arm["status"])
        for one in groups for arm in one["arms"]
    ]  # fmt: skip
    columns = ("Group and option", "Mean outcome", "In this period", "In the long run", "Status")
    return {"title": "Mean outcome by group and option", "columns": columns, "rows": rows}


def _rules(value: dict[str, Any]) -> dict[str, Any]:
    targets = value["targets"]
    rows = [(one["name"], amount(one["value"]), interval(one["low"], one["high"])) for one in targets]
    drawn = [{key: one[key] for key in ("name", "value", "low", "high")} for one in targets]
    label = "what each rule would have earned a decision, with its interval"
    figure = {"kind": "intervals", "label": label, "rows": drawn, "domain": None, "says": str(value["words"][0])}
    return {"figure": figure, "tables": [{"title": "Value of each rule", "columns": ("Rule", "Value", "Interval"),
                                          "rows": rows}]}  # fmt: skip


def earned(value: dict[str, Any]) -> float | None:
    """What decisions earned on average by a fairness report; None where it does not say."""
    parts = [
        (one["mean"]["value"], max(float(one.get("chosen", one.get("shown")) or 0.0), 0.0))
        for one in value.get("groups") or () if _known(one, "mean")
    ]  # fmt: skip
    weight = sum(size for _, size in parts)
    return sum(mean * size for mean, size in parts) / weight if weight > 0 else None


def beside(value: dict[str, Any], fairness: dict[str, Any] | None) -> dict[str, Any]:
    """The value of other rules beside what was earned, where a fairness report says it."""
    made = shown(value)
    was = None if fairness is None else earned(fairness["value"])
    if was is not None and made["tables"]:
        covers = "by the report on fairness" if fairness else ""
        made["tables"][0]["rows"].append(("as decided", amount(was), covers))
    return made
