"""Private reports as figures and tables: by group, by option, and the value of other rules. Published values alone."""

from __future__ import annotations

from typing import Any

from fairveil.service.pages.verdicts import interval
from fairveil.service.pages.words import amount

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
