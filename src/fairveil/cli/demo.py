"""`fairveil demo`: the guided tour."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from fairveil.cli.common import folder_to_write, working


def command(
    out: Annotated[Path, typer.Option(help="Folder for results and the report.")] = Path("out/demo"),
    workers: Annotated[int | None, typer.Option(help="Worker processes; all cores by default.")] = None,
) -> None:
    """A guided tour in about two minutes: private fair decisions, what they cost, what they do in ten years.

    Example: fairveil demo --out out/demo
    """
    from fairveil.lab.demo import tour
    from fairveil.running.progress import Bar

    console = Console()
    folder_to_write(out)
    with working("processes", workers) as engine, Bar("working") as bar:
        page = tour(out, engine, console, bar)
    console.print(f"open {page}")
    console.print("the decision service has a tour of its own: make demo-service")
