"""A report in sentences: what is nearly equal, how sure that is, both intervals, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def number(value: float | None) -> str:
    """Three digits without a leading zero.

    >>> number(0.0141), number(None), number(1.0)
    ('.014', 'not known', '1')
    """
    if value is None or value != value:
        return "not known"
    text = f"{value:.3f}".rstrip("0").rstrip(".")
    return text[1:] if text.startswith("0.") else "-" + text[2:] if text.startswith("-0.") else text or "0"


def fairness_words(table: Mapping[str, Any]) -> list[str]:
    level, gap = f"{100 * table['level']:g} %", table["gap"]
    what = {"meritocratic": "are chosen at rates", "nash": "have mean outcomes"}
    said = []
    if gap["pair"] is None:
        said.append("Fewer than two groups can be estimated: there is no gap to report.")
    elif table["family"] == "exposure":
        said += _exposure_words(table, level)
    else:
        first, second = gap["pair"]
        said.append(
            f"{first} and {second} {what[table['family']]} that differ by {number(gap['value'])}: "
            f"between {number(gap['low'])} and {number(gap['high'])} at {level}; no two groups are further apart."
        )
    ratio = table.get("ratio")
    if ratio is not None and ratio["pair"] is not None:
        low, high = number(ratio["low"]), number(ratio["high"])
        said.append(
            f"The lowest is {number(ratio['value'])} of the highest (impact ratio): at least {low}, at most {high}."
        )
    key = {"meritocratic": "rate", "nash": "mean", "exposure": "difference"}[table["family"]]
    for group in table["groups"]:
        said.append(_group(group, key, level))
    said.append(_cost(table))
    return said


def _exposure_words(table: Mapping[str, Any], level: str) -> list[str]:
    gap, distance = table["gap"], table["distance"]
    apart = {group["name"]: group["difference"]["value"] for group in table["groups"]}
    told = [
        f"{name} got {number(abs(apart[name]))} {'more' if apart[name] > 0 else 'less'} of the exposure than its merit"
        for name in dict.fromkeys(gap["pair"])
    ]
    return [
        f"{', '.join(told)}: between {number(gap['low'])} and {number(gap['high'])} apart at {level}; no two groups "
        "are further apart.",
        f"Over all groups, exposure and merit are {number(distance['value'])} apart (from 0 to 2): between "
        f"{number(distance['low'])} and {number(distance['high'])}.",
    ]


def _group(group: Mapping[str, Any], key: str, level: str) -> str:
    if group["status"] != "estimated":
        return f"{group['name']}: {group['status']}."
    held = group[key]
    (low, high), (least, most) = held["expected"], held["realised"]
    if key == "difference":
        given, owed = (number(group[part]["value"]) for part in ("played", "deserved"))
        return (
            f"{group['name']}: {given} of the exposure, {owed} by merit; in this period the difference was between "
            f"{number(least)} and {number(most)}, and the one behind it is between {number(low)} and {number(high)} "
            f"(each at {level})."
        )
    return (
        f"{group['name']}: {key} {number(held['value'])}; in this period it was between {number(least)} and "
        f"{number(most)}, and the {key} behind it is between {number(low)} and {number(high)} (each at {level})."
    )


def _cost(table: Mapping[str, Any]) -> str:
    promise = table["guarantee"]
    std, sums = number(table["noise"]["std"]), table["noise"]["sums"]
    noise = f"Noise of standard deviation {std} was added to each of {sums} sums"
    epsilon = f"epsilon {promise['epsilon']:.3g}"
    delta = f" at delta {promise['delta']:g}" if promise["delta"] else ""
    cost = ", ".join(f"{name} {value:g}" for name, value in table["charge"].items())
    meaning = "" if cost == epsilon else f" ({epsilon}{delta})"
    return f"{noise}; the release costs {cost}{meaning} for one place."


def evaluation_words(table: Mapping[str, Any]) -> list[str]:
    level = f"{100 * table['level']:g} %"
    said = [
        f"{row['name']} would have earned {number(row['value'])} a decision: between {number(row['low'])} and "
        f"{number(row['high'])} at {level}."
        for row in table["targets"]
    ]
    middle = number(sum(table["range"]) / 2)
    said += [
        f"{name} has no law for a decision whose request named no baseline: such a decision counts with weight 0 and "
        f"pulls this value towards {middle}. It is right only where every request named one."
        for name in table["partial"]
    ]
    silent = table["places"] - table["answered"]
    if silent and table["counted"] == "noisy":
        said.append(
            f"About {table['answered']} of {table['places']} decisions count: the others have no reward, or their "
            "person is over a limit or keeps an arm; values are of those that count."
        )
    elif silent:
        said.append(
            f"{silent} of {table['places']} decisions have no reward and are left out: these are values of decisions "
            "whose reward came, and may be off where that depends on the outcome."
        )
    return [*said, _cost(table)]
