"""`fairveil plan`: what a trial may expect, in people, before anybody is enrolled."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from fairveil.cli.common import AsJson, PluginFiles, folder_to_write, load_plugins, read_spec
from fairveil.errors import SpecError, did_you_mean

if TYPE_CHECKING:
    from fairveil.bandits.quotes import TrialPlan

FILES = (".html", ".md", ".json")


def command(
    spec: Annotated[Path, typer.Argument(help="A bandit spec in TOML or JSON: its policy, rounds and arms.")],
    people: Annotated[
        int | None, typer.Option(min=1, help="How many people take part; by default the rounds of the spec.")
    ] = None,
    arm: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=MEAN", help="An arm of the guess, once for each: --arm 'usual care=0.4'."),
    ] = None,
    difference: Annotated[float, typer.Option(help="The lead of the best arm that should be separated.")] = 0.15,
    chance: Annotated[float, typer.Option(help="How often it should be separated.")] = 0.8,
    level: Annotated[float, typer.Option(help="Level of the stopping rule.")] = 0.95,
    runs: Annotated[int, typer.Option(min=10, help="Simulated runs of each setting.")] = 400,
    out: Annotated[Path | None, typer.Option(help="Also write a page (.html), Markdown (.md) or data (.json).")] = None,
    as_json: AsJson = False,
    plugin: PluginFiles = None,
) -> None:
    """People on each arm, who gets a worse one, how surely the best is found, how many are needed: by budget and size.

    Simulated on a declared guess; of people's rows that the spec names, arms and their names are read and no outcome
    is used.

    Example: fairveil plan trial.toml --people 2000 --arm 'usual care=0.4' --arm 'new drug=0.55' --out plan.html
    """
    from fairveil.running.progress import Bar

    load_plugins(plugin)
    if out is not None and out.suffix not in FILES:
        raise SpecError("a plan is written as one of these", path="out", given=out.name, allowed=", ".join(FILES))
    if out is not None:
        folder_to_write(out.parent)
    with Bar("planning") as bar:
        found = planned(
            read_spec(spec), arm or [], people, bar, runs, difference=difference, chance=chance, level=level
        )
    if out is not None:
        _write(found, out)
    if as_json:
        typer.echo(json.dumps(found.to_dict(), allow_nan=False))
        return
    console = Console()
    show(found, console)
    if out is not None:
        console.print(f"plan: {out}", highlight=False)


def planned(
    table: dict[str, Any], arms: Sequence[str], people: int | None, bar: Any, runs: int, **asked: float
) -> TrialPlan:
    """The plan of a spec: its policy on a guess, given by name or taken from the spec."""
    from fairveil.bandits.forecast import guess_of
    from fairveil.bandits.nash.episodes import EpisodePolicy
    from fairveil.bandits.nash.planning import simulations
    from fairveil.bandits.task import case_of

    if table.get("task") != "bandit":
        raise SpecError("a plan is for decisions", path="task", given=table.get("task"), allowed="bandit")
    means = dict(_arm(words) for words in arms)
    if means and "environment" not in table:
        table = {**table, "environment": {"name": "bernoulli", "means": list(means.values())}}
    case = case_of(table)
    _check_names(means, case.environment.arm_names)
    total = simulations(case.policy, runs) if isinstance(case.policy, EpisodePolicy) else 0
    guess = means or guess_of(case)
    names = None if means else case.environment.arm_names
    bar.start(total, 0)

    def say(words: str) -> None:
        bar.advance()

    made: TrialPlan = case.policy.plan(
        guess, runs, people=people or case.rounds, feedback=case.spec.get("feedback"), names=names, say=say,
        difference=asked["difference"], chance=asked["chance"], level=asked["level"],
    )  # fmt: skip
    return replace(made, recorded=case.environment.recorded)


def _check_names(given: Mapping[str, float], named: Sequence[str] | None) -> None:
    """Refuse an arm that the spec does not name, and a guess that leaves one out, where the spec names them."""
    unknown = [name for name in given if named is not None and name not in named]
    if unknown and named is not None:
        raise SpecError(
            "the spec has no arm of this name", path="arm", given=unknown[0], allowed=", ".join(named),
            fix=did_you_mean(unknown[0], tuple(named)),
        )  # fmt: skip
    missing = [name for name in named or () if name not in given]
    if given and missing:
        raise SpecError(
            f"the guess says nothing about {', '.join(missing)}", path="arm", given=", ".join(given),
            allowed=f"all {len(named or ())} arms of the spec",
            fix="add " + " ".join(f"--arm '{name}=MEAN'" for name in missing),
        )  # fmt: skip


def _arm(words: str) -> tuple[str, float]:
    name, equals, mean = words.rpartition("=")
    try:
        return name.strip() if equals else "", float(mean)
    except ValueError:
        raise SpecError(
            "an arm is a name and a mean", path="arm", given=words, allowed="such as 'new drug=0.55'"
        ) from None


def _write(found: TrialPlan, out: Path) -> None:
    from fairveil.running.store import write_atomically, writing

    if out.suffix == ".json":
        with writing(out):
            write_atomically(out, json.dumps(found.to_dict(), allow_nan=False, indent=1).encode())
        return
    from fairveil.lab.handover.plans import report_on_plan
    from fairveil.lab.handover.write import write_document

    write_document(report_on_plan(found), out)


def show(found: TrialPlan, console: Console) -> None:
    """A plan as a person reads it: the tables of its page."""
    from fairveil.lab.handover.plans import grids, in_words, verdicts

    console.print(f"[bold]{escape(found.policy)}[/], {found.people:,} people, {found.runs:,} runs", highlight=False)
    console.print(escape(in_words(found)), highlight=False)
    for title, grid in grids(found):
        head = [Column(words, no_wrap=place != len(grid.head) - 1) for place, words in enumerate(grid.head)]
        table = Table(*head, title=escape(title), box=box.SIMPLE_HEAD, pad_edge=False, title_justify="left")
        for row in grid.rows:
            table.add_row(*map(escape, row))
        console.print(table)
    for words in verdicts(found):
        console.print(escape(words), highlight=False)
    for warning in found.warnings:
        console.print(f"[yellow]warning[/]: {escape(warning)}", highlight=False)
