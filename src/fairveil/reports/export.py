"""A report as bytes: JSON that never changes, and CSV that a spreadsheet reads without running anything."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from typing import Any

RISKY = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Beginnings of a cell that a spreadsheet takes for a formula; the last four are their wide forms."""


def as_json(document: Mapping[str, Any]) -> str:
    """One text for one document: keys sorted, no spaces, non-ASCII kept.

    >>> as_json({"b": 1, "a": None})
    '{"a":null,"b":1}'
    """
    return json.dumps(document, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def safe_cell(value: Any) -> Any:
    """A cell that no spreadsheet takes for a formula: text that begins like one gets an apostrophe.

    >>> safe_cell("=1+1"), safe_cell(" =1+1"), safe_cell(-0.5), safe_cell(None)
    ("'=1+1", "' =1+1", -0.5, '')
    """
    if value is None:
        return ""
    risky = isinstance(value, str) and (value.lstrip().startswith(RISKY) or value[:1] in ("\t", "\r", "\n"))
    return "'" + value if risky else value


def as_csv(document: Mapping[str, Any]) -> str:
    """One line a group (or rule) and figure: name, figure, value, both intervals, status."""
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    if document["kind"] == "evaluation":
        lines.writerow(["target", "value", "low", "high", "largest_weight"])
        for row in document["targets"]:
            lines.writerow([safe_cell(row[key]) for key in ("name", "value", "low", "high", "largest_weight")])
        return out.getvalue()
    lines.writerow(["group", "arm", "figure", "shown", "chosen", "value", "expected_low", "expected_high",
                    "realised_low", "realised_high", "status"])  # fmt: skip
    for group in (*document["groups"], *document.get("margins", ())):
        for line in _lines(group, ""):
            lines.writerow([safe_cell(cell) for cell in line])
        for arm in group.get("arms", ()):
            for line in _lines({"name": group["name"], **arm}, arm["action"]):
                lines.writerow([safe_cell(cell) for cell in line])
    for figure in ("gap", "ratio", "distance"):
        if (held := document.get(figure)) is not None:
            names = " / ".join(held.get("pair") or [])
            cells = [names, "", figure, "", "", held["value"], held["low"], held["high"], "", "", ""]
            lines.writerow([safe_cell(cell) for cell in cells])
    return out.getvalue()


def _lines(row: Mapping[str, Any], arm: str) -> list[list[Any]]:
    found = []
    for figure in ("rate", "mean", "played", "deserved", "difference"):
        if (held := row.get(figure)) is not None:
            found.append([row["name"], arm, figure, row.get("shown"), row.get("chosen"), held["value"],
                          *held["expected"], *held["realised"], row["status"]])  # fmt: skip
    return found
