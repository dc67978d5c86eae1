"""`fairveil list` and `fairveil explain`: what exists and what it promises."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from fairveil import registry
from fairveil.errors import SpecError


def listing(
    kind: Annotated[str | None, typer.Argument(help="Only this kind, for example policy.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    plugin: Annotated[list[Path] | None, typer.Option(help="A Python file that registers names of its own.")] = None,
) -> None:
    """Every registered name with one line and its guarantee kind.

    Example: fairveil list policy
    """
    for file in plugin or []:
        registry.load_plugin(file)
    kinds = sorted({entry.kind for entry in registry.entries()})
    if kind is not None and kind not in kinds:
        raise SpecError("there is no such kind", path="kind", given=kind, allowed=", ".join(kinds))
    rows = [
        {"kind": e.kind, "name": e.name, "guarantee": guarantee_kind(e), "summary": e.summary}
        for e in registry.entries(kind)
    ]
    if as_json:
        typer.echo(json.dumps(rows))
        return
    table = Table("kind", "name", "guarantee", "what it is")
    for row in rows:
        table.add_row(row["kind"], row["name"], row["guarantee"], row["summary"])
    Console().print(table)


def command(
    name: Annotated[str, typer.Argument(help="A registered name, for example adap-ucb or policy:adap-ucb.")],
    plugin: Annotated[list[Path] | None, typer.Option(help="A Python file that registers names of its own.")] = None,
) -> None:
    """What a name does: parameters with defaults and ranges, guarantee, cost, reference.

    Example: fairveil explain adap-ucb
    """
    for file in plugin or []:
        registry.load_plugin(file)
    kind, _, short = name.rpartition(":")
    found = [e for e in registry.entries(kind or None) if e.name == short]
    if not found:
        known = sorted({entry.name for entry in registry.entries()})
        near = difflib.get_close_matches(short, known, n=3, cutoff=0.4)
        raise SpecError(
            "nothing is registered under this name",
            path="name",
            given=name,
            fix=f"did you mean {' or '.join(near)}?" if near else "see fairveil list",
        )
    console = Console()
    for entry in found:
        console.rule(f"{entry.kind} {entry.name}")
        console.print(inspect.getdoc(entry.target) or "", markup=False, highlight=False)
        rows = parameters(entry.target)
        if rows:
            table = Table("parameter", "type and range", "default", title="parameters")
            for row in rows:
                table.add_row(*row)
            console.print(table)
        thing = _example(entry)
        promise = thing.guarantee() if thing is not None and hasattr(thing, "guarantee") else None
        if promise is not None:
            console.print(f"guarantee of {thing}:", markup=False)
            console.print(f"  {promise}", markup=False)
            console.print(f"  neighbours: {promise.neighbours_in_words}")
            for note in promise.notes:
                console.print(f"  note: {note}", markup=False)
        if thing is not None and hasattr(thing, "event"):
            console.print(f"event: {thing.event()}", markup=False)


def parameters(target: Any) -> list[tuple[str, str, str]]:
    """Name, type with its range, and default of each field of a public configuration."""
    if not dataclasses.is_dataclass(target):
        return []
    described = []
    for field in dataclasses.fields(target):
        if not field.init:
            continue
        known = getattr(target, "__pydantic_fields__", {}).get(field.name)
        limits = [text for item in (known.metadata if known else []) if (text := _limit(item))]
        annotation = getattr(known, "annotation", field.type)
        kind = getattr(annotation, "__name__", None) if inspect.isclass(annotation) else None
        text = kind or str(annotation).replace("typing.", "")
        default: Any = field.default
        if default is dataclasses.MISSING:
            make: Any = field.default_factory
            default = "required" if make is dataclasses.MISSING else make()
        described.append((field.name, ", ".join([text, *limits]), str(default)))
    return described


def _limit(item: Any) -> str:
    """One limit of a parameter in words."""
    words = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below", "min_length": "length at least"}
    found = [f"{word} {getattr(item, key):g}" for key, word in words.items() if getattr(item, key, None) is not None]
    return " and ".join(found)


def guarantee_kind(entry: registry.Entry) -> str:
    """'pure global', 'gaussian joint', ...; empty when the thing promises nothing."""
    thing = _example(entry)
    promise = thing.guarantee() if thing is not None and hasattr(thing, "guarantee") else None
    if promise is None:
        return ""
    kind = f"{promise.definition.value} {promise.model.value}"
    return kind if promise.established else f"not established ({kind})"


def _example(entry: registry.Entry) -> Any | None:
    return registry.example(entry.target) if entry.kind in ("policy", "mechanism", "sum", "learner") else None
