"""Results without the effect that an artefact is about, planted under its own labels.

Every plant keeps the shape of what was measured, so that the artefact's own claims read it: runs that are all alike,
runs or groups under one another's names, time or grid backwards, two points exchanged, nothing measured, all tenfold.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from fairveil.lab.artefact import Artefact, Claim, Results

Change = Callable[[Any], Any]
ALIKE = 12
"""So many runs are planted as all of them."""
EXCHANGED = 400
"""So many pairs are exchanged."""


def shown(results: Results, source: dict[str, str]) -> Results:
    """Every label with the numbers of another run, under its own spec."""
    return {label: {**results[source.get(label, label)], "spec": results[label]["spec"]} for label in results}


def changed(value: Any, numbers: Change, dicts: Change) -> Any:
    """A nest of dicts and lists with every list of numbers or single number, and every dict, changed."""
    if isinstance(value, dict):
        return dicts({key: changed(one, numbers, dicts) for key, one in value.items()})
    if isinstance(value, list) and value and isinstance(value[0], list | dict):
        return numbers([changed(one, numbers, dicts) for one in value])
    return numbers(value)


def kept(value: Any) -> Any:
    return value


def turned(table: dict[str, Any]) -> dict[str, Any]:
    """Values of one kind under one another's keys."""
    kinds = {type(one) for one in table.values()}
    return (
        dict(zip(table, reversed(list(table.values())), strict=True)) if len(table) > 1 and len(kinds) == 1 else table
    )


def shaken(value: Any) -> Any:
    if not isinstance(value, list) or len(value) < 4 or isinstance(value[0], list):
        return value
    first, second = len(value) // 3, 2 * len(value) // 3
    made = list(value)
    made[first], made[second] = made[second], made[first]
    return made


def backwards(value: Any) -> Any:
    return value[::-1] if isinstance(value, list) else value


def growing(value: Any) -> Any:
    """Every number times its place."""
    if not isinstance(value, list) or not all(isinstance(one, int | float) for one in value):
        return value
    return [one * place for place, one in enumerate(value, 1)]


def shorter(value: Any) -> Any:
    return value[:-1] if isinstance(value, list) else value


def times(factor: float) -> Change:
    def numbers(value: Any) -> Any:
        if isinstance(value, list):
            return [numbers(one) for one in value]
        return value * factor if isinstance(value, int | float) and not isinstance(value, bool) else value

    return numbers


def opposite(value: Any) -> Any:
    """Every yes a no, and one more of everything that is counted."""
    if isinstance(value, list):
        return [opposite(one) for one in value]
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int) else value


TABLES: dict[str, tuple[Change, Change]] = {
    "groups under one another's names": (kept, turned),
    "time or grid backwards": (backwards, kept),
    "two points exchanged": (shaken, kept),
    "yes and no exchanged, one more counted": (opposite, kept),
    "growing with every point": (growing, kept),
    "one point missing": (shorter, kept),
    "nothing measured": (times(0.0), kept),
    "everything measured tenfold": (times(10.0), kept),
}


def measured(result: dict[str, Any], numbers: Change, dicts: Change) -> dict[str, Any]:
    """A result with changed metrics and series; x of a series stays."""
    series = {
        name: {axis: points if axis == "x" else changed(points, numbers, dicts) for axis, points in one.items()}
        for name, one in dicts(result["series"]).items()
    }
    metrics = {name: changed(one, numbers, dicts) for name, one in result["metrics"].items()}
    return {**result, "metrics": metrics, "series": series}


def deeper(table: Any, levels: int) -> Any:
    """A dict whose dicts at this depth are turned."""
    if not isinstance(table, dict):
        return table
    return turned(table) if levels == 0 else {key: deeper(one, levels - 1) for key, one in table.items()}


def plants(results: Results) -> Iterator[tuple[str, Results]]:
    """Every planted result for these, with what it is."""
    labels = list(results)
    for label in labels[:: max(1, len(labels) // ALIKE)]:
        yield f"every run is that of {label!r}", shown(results, dict.fromkeys(labels, label))
    yield "runs in the opposite order", shown(results, dict(zip(labels, reversed(labels), strict=True)))
    for places in {1, len(labels) // 2, *range(2, len(labels), max(1, len(labels) // ALIKE))}:
        moved = [*labels[places:], *labels[:places]]
        yield f"runs moved by {places}", shown(results, dict(zip(labels, moved, strict=True)))
    yield (
        "growing from run to run",
        {label: measured(results[label], times(3.0**place), kept) for place, label in enumerate(labels)},
    )
    for name, (numbers, dicts) in TABLES.items():
        yield name, {label: measured(one, numbers, dicts) for label, one in results.items()}
        for label in labels[:ALIKE]:
            yield f"{name}, in {label!r} alone", {**results, label: measured(results[label], numbers, dicts)}
    for levels in range(4):
        for some in (labels, labels[:1]):
            yield (
                f"worlds with their parts exchanged at depth {levels}",
                {
                    label: {**one, "spec": deeper_groups(one["spec"], levels)} if label in some else one
                    for label, one in results.items()
                },
            )
    for first, second in itertools.islice(itertools.combinations(labels, 2), EXCHANGED):
        yield f"{first!r} and {second!r} exchanged", shown(results, {first: second, second: first})


def deeper_groups(spec: dict[str, Any], levels: int) -> dict[str, Any]:
    made = copy.deepcopy(spec)
    return {**made, "groups": deeper(made["groups"], levels)} if "groups" in made else made


def refutations(artefact: Artefact, results: Results, claims: list[Claim]) -> dict[str, str]:
    """What refuted each claim that holds or is open, by text; claims without an entry were refuted by nothing."""
    found: dict[str, str] = {}
    wanted = [claim.text for claim in claims if claim.verdict in ("holds", "undecided")]
    for name, planted in plants(results) if results else ():
        if len(found) == len(wanted):
            break
        for claim in _claims(artefact, planted):
            if claim.verdict == "does not hold" and claim.text in wanted:
                found.setdefault(claim.text, name)
    return found


def _claims(artefact: Artefact, planted: Results) -> list[Claim]:
    """What the artefact says of a planted result; one that it cannot read says nothing."""
    try:
        return artefact.claims(planted)
    except (KeyError, IndexError, ValueError, ZeroDivisionError, TypeError):
        return []
