"""`fairveil reproduce`: figures and tables of the papers, with their claims checked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fairveil.cli import common
from fairveil.cli.common import Address, EngineName, Workers, folder_to_write, load_plugins, table_of_two, working
from fairveil.errors import DataError, SpecError

LIST = "fairveil reproduce --list shows them"
TITLE = "fairveil: papers reproduced"
LIGHTS = {"holds": "green", "does not hold": "red", "undecided": "yellow", "illustration": "dim"}


def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="all, a paper (dp-ncb) or one artefact (dp-ncb/b).", autocompletion=common.artefacts),
    ] = None,
    scale: Annotated[str, typer.Option(help="quick (minutes), standard (an evening) or paper (full size).")] = "quick",
    out: Annotated[Path, typer.Option(help="Folder for results and the report.")] = Path("out/reproduce"),
    engine: EngineName = "processes",
    workers: Workers = None,
    address: Address = None,
    list_only: Annotated[
        bool, typer.Option("--list", help="Show artefacts, costs and last verdicts; run nothing.")
    ] = False,
    plugin: Annotated[
        list[Path] | None, typer.Option(help="A Python file that registers artefacts of its own.")
    ] = None,
) -> None:
    """Reproduce figures and tables, decide their claims, and write one report.

    What is finished is kept: run the same command again after an interruption and it goes on.

    Example: fairveil reproduce dp-ncb/b --scale quick
    """
    console = Console()
    with common.loading("the papers"):
        from fairveil.lab.report import Report, section_of
        from fairveil.lab.reproduce import artefacts, reproduce_all
        from fairveil.running.progress import Bar

        load_plugins(plugin)
        listing = _listing(names, out) if list_only else None
        kinds = artefacts(names) if names else []
    if listing is not None:
        console.print(listing)
        return
    if not names:
        raise SpecError("nothing was named", path="names", allowed="all, a paper, artefacts", fix=LIST)
    folder_to_write(out)
    report, lost = Report(out / f"{scale}.html", TITLE), []
    with working(engine, workers, address) as workforce, Bar("", console=Console(stderr=True)) as bar:
        for kind, made in reproduce_all(kinds, scale, out, engine=workforce, progress=bar.labelled):  # type: ignore[arg-type]
            if isinstance(made, DataError):
                lost.append((kind.name, made))
                console.print(f"[yellow]{kind.name}[/] not made: {escape(str(made))}")
                continue
            report.add(section_of(made))
            report.write(_lead(len(report.parts), len(kinds), scale))
            counts = _counted(made.verdicts(), "  ")
            stand_in = f"  [yellow]on generated data, not {', '.join(made.generated)}[/]" if made.generated else ""
            console.print(f"{kind.name}  {made.wall_seconds:.1f} s  {counts}{stand_in}")
    if report.parts:
        console.print(f"report: {report.file}")
    if lost:
        raise lost[0][1]


def _lead(done: int, asked: int, scale: str) -> str:
    """What a page holds so far: it is written again after every artefact."""
    of = f" of {asked}" if done < asked else ""
    counted = f"{done}{of} artefact{'s' * (asked > 1)}"
    return f"{counted} at {scale} scale. Published claims are tested, not assumed."


def _listing(names: list[str] | None, folder: Path) -> Table:
    from fairveil.lab.artefact import SCALES
    from fairveil.lab.reproduce import artefacts, remembered

    rows = []
    for kind in artefacts(names):
        known = {scale: remembered(kind.name, scale, folder) for scale in SCALES}
        costs = ", ".join(f"{scale} {_cost(kind.name, scale, known[scale])}" for scale in SCALES)
        last = next((known[scale] for scale in reversed(SCALES) if known[scale]), None)
        rows.append((kind.name, kind.title, f"{costs}; {_verdicts(last)}"))
    return table_of_two(
        "artefact",
        "what it shows; CPU seconds (~: expected, ?: never measured; a first run also compiles); last verdicts",
        rows,
    )


def _cost(name: str, scale: str, known: dict | None) -> str:
    from fairveil.lab.papers import MEASURED

    if known and known["cost"]:
        return f"{known['cost']['cpu_seconds']:.0f}"
    expected = MEASURED.get(name, {}).get(scale)
    return f"~{expected:g}" if expected is not None else "?"


def _verdicts(last: dict | None) -> str:
    if last is None:
        return "not run here"
    counts = {verdict: sum(claim["verdict"] == verdict for claim in last["claims"]) for verdict in LIGHTS}
    return f"{last['scale']}: " + ", ".join(_worded(verdict, n) for verdict, n in counts.items() if n)


def _counted(counts: dict[str, int], between: str) -> str:
    return between.join(f"[{LIGHTS[verdict]}]{_worded(verdict, n)}[/]" for verdict, n in counts.items() if n)


def _worded(verdict: str, count: int) -> str:
    from fairveil.lab.artefact import PLURAL

    return f"{count} {verdict if count == 1 else PLURAL[verdict]}"
