"""`fairveil list` and `fairveil explain`: what exists and what it promises."""

from __future__ import annotations

import inspect
import json
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from fairveil import contents, registry
from fairveil.cli import common
from fairveil.cli.common import AsJson, PluginFiles, load_plugins, table_of_two
from fairveil.cli.fields import parameters
from fairveil.errors import SpecError, did_you_mean

ORDER = (
    "task",
    "policy",
    "algorithm",
    "environment",
    "learner",
    "mechanism",
    "sum",
    "dataset",
    "generator",
    "metric",
    "merit",
)
"""Kinds that people write into specs come first; the others follow by name, parts of the machinery last."""
PROMISING = ("policy", "algorithm", "mechanism", "sum", "learner")


def listing(
    kind: Annotated[
        str | None, typer.Argument(help="Only this kind, for example policy.", autocompletion=common.kinds)
    ] = None,
    as_json: AsJson = False,
    plugin: PluginFiles = None,
) -> None:
    """Every registered name with one line and its guarantee kind.

    Example: fairveil list policy
    """
    with common.loading(f"every {kind or 'name'}"):
        found = everything(plugin, kind)
    kinds = list(dict.fromkeys(entry.kind for entry in found))
    if kind is not None and kind not in kinds:
        raise SpecError(
            "there is no such kind",
            path="kind",
            given=kind,
            allowed=", ".join(kinds),
            fix=did_you_mean(kind, kinds),
        )
    rows = [
        {"kind": e.kind, "name": e.name, "guarantee": guarantee_kind(e), "summary": e.summary}
        for e in found
        if kind in (None, e.kind)
    ]
    if as_json:
        typer.echo(json.dumps(rows))
        return
    console = Console()
    for group in kinds if kind is None else [kind]:
        members = [row for row in rows if row["kind"] == group]
        promising = any(row["guarantee"] for row in members)
        console.print(
            table_of_two(
                group,
                "what it is, and its guarantee" if promising else "what it is",
                [(row["name"], row["summary"], row["guarantee"]) for row in members],
            )
        )


def everything(plugin: list[Path] | None = None, kind: str | None = None) -> list[registry.Entry]:
    """Every registered name, those of plug-ins and of the papers included, in reading order; of a built-in kind its
    own names alone, so that nothing else is loaded."""
    load_plugins(plugin)
    alone = kind if kind in contents.HOMES else None
    if alone is None:
        from fairveil.lab import papers

        papers.load()
    rank = {kind: place for place, kind in enumerate(ORDER)}
    return sorted(registry.entries(alone), key=lambda entry: (rank.get(entry.kind, len(ORDER)), entry.kind))


def command(
    name: Annotated[
        str,
        typer.Argument(help="A registered name, for example adap-ucb or policy:adap-ucb.", autocompletion=common.names),
    ],
    plugin: PluginFiles = None,
) -> None:
    """What a name does: parameters with defaults and ranges, guarantee, cost, reference.

    Example: fairveil explain adap-ucb
    """
    load_plugins(plugin)
    found = registry.find(name)
    if not found:
        known = everything()
        found = registry.find(name)
    if not found:
        near = [text for entry in known for text in (entry.name, f"{entry.kind}:{entry.name}")]
        raise SpecError(
            "nothing is registered under this name",
            path="name",
            given=name,
            allowed="a name, or kind:name",
            fix=did_you_mean(name, near) or "see fairveil list",
        )
    console = Console()
    for entry in found:
        _explain(entry, console)


def _example(entry: registry.Entry) -> Any:
    """One of its kind, to ask for its promise; None where a plug-in says no example of a field that it requires."""
    with suppress(SpecError):
        return registry.example(entry.target) if entry.kind in PROMISING else None
    return None


def _keys(of: Any, title: str, console: Console) -> None:
    """A table of what may be given."""
    rows = parameters(of)
    if rows:
        lines = [
            (row.name, row.words or row.kind, ("" if not row.words else f"{row.kind}; ") + row.default) for row in rows
        ]
        console.print(table_of_two("parameter", "what it is, its type and range, its default", lines, title))


def _explain(entry: registry.Entry, console: Console) -> None:
    target = entry.target
    console.rule(f"{entry.kind} {entry.name}")
    if entry.kind == "artefact":
        console.print(f"{target.title}\nSource: {target.source}.\n", markup=False, highlight=False)
    console.print(flowing(inspect.getdoc(target) or ""), markup=False, highlight=False)
    for note in getattr(target, "notes", ()) if entry.kind == "artefact" else ():
        console.print(f"note: {note}", markup=False, highlight=False)
    task = entry.kind == "task"
    _keys(target.Spec if task else target, "keys of the spec" if task else "parameters", console)
    if task and hasattr(target, "Group"):
        _keys(target.Group, "keys of groups.NAME", console)
    thing = _example(entry)
    promise = thing.guarantee() if hasattr(thing, "guarantee") else None
    if promise is not None:
        console.print(f"guarantee of {thing}:", markup=False)
        console.print(f"  {promise}", markup=False)
        console.print(f"  neighbours: {promise.neighbours_in_words}", markup=False)
        for note in promise.notes:
            console.print(f"  note: {note}", markup=False)
    if entry.kind == "learner" and thing is not None:
        reads = "yes" if thing.reads_group else "no, unless the features contain it"
        console.print(f"reads the group when it decides: {reads}", markup=False)
    try:
        event = thing.event() if hasattr(thing, "event") else None
    except SpecError as problem:  # what it costs depends on facts that its environment brings along
        event = f"not known before it meets an environment ({problem})"
    if event is not None:
        subject = "" if promise is not None else f" of {thing}"
        console.print(f"event{subject}: {event}", markup=False)


def flowing(doc: str) -> str:
    """A docstring with the lines of each paragraph joined, so that it wraps at the reader's width; examples stay."""
    blocks = doc.split("\n\n")
    return "\n\n".join(block if ">>>" in block or "\n " in block else _joined(block) for block in blocks)


def _joined(block: str) -> str:
    """Lines end where a sentence does or at the margin; a line that starts a new thought keeps its place."""
    text = ""
    for line in block.split("\n"):
        fresh = line.split(" ")[0].rstrip(":") in ("Guarantee", "Cost", "Error", "Reference", "Runtime", "Note")
        text += ("\n" if fresh or not text else " ") + line
    return text.strip()


def guarantee_kind(entry: registry.Entry) -> str:
    """'pure global', 'gaussian joint', ...; empty when the thing promises nothing."""
    thing = _example(entry)
    if thing is None:
        return ""
    if not hasattr(
        thing, "guarantee"
    ):  # a sum states its event; whose data it is, and who sees it, is its user's choice
        event = thing.event()
        return str(getattr(event, "event", event).kind)
    promise = thing.guarantee()
    groups = ["reads the group when it decides"] if getattr(thing, "reads_group", False) else []
    if promise is None:
        return ", ".join(groups)
    kind = f"{promise.definition.value} {promise.model.value}"
    kind = kind if promise.established else f"not established ({kind})"
    return ", ".join([kind, promise.neighbours.value, *groups]) if entry.kind == "learner" else kind
