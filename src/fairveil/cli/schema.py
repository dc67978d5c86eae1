"""`fairveil schema`: a first draft of a spec from a table of one's own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from fairveil.cli.common import plain
from fairveil.errors import SpecError, StoreError


def command(
    file: Annotated[Path, typer.Argument(help="A table: CSV with a header line, or parquet.")],
    outcome: Annotated[str | None, typer.Option(help="Column of outcomes; guessed from its name by default.")] = None,
    arm: Annotated[str | None, typer.Option(help="Column of what was chosen: then the table is a log.")] = None,
    propensity: Annotated[str | None, typer.Option(help="Column of the probability with which it was chosen.")] = None,
    group: Annotated[
        list[str] | None, typer.Option(help="Column of groups; again for combinations: then rows are candidates.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the draft to this file; on the screen by default.")] = None,
) -> None:
    """Draft a spec for a table of your own, to be edited: ranges that are read off the data are not public.

    Example: fairveil schema trial.csv --arm drug --outcome recovered --out trial.toml
    """
    from fairveil.data.draft import Roles, draft
    from fairveil.data.tables import read_frame

    folder = out.parent if out is not None else Path()
    written = str(file) if file.is_absolute() else os.path.relpath(file, folder)
    console = Console(stderr=True)
    with console.status(f"reading {escape(file.name)}"):
        if arm is not None and arm == outcome:
            raise SpecError("what was chosen and what came of it are two columns", path="outcome", given=outcome)
        text = draft(read_frame(file), written, Roles(outcome, arm, propensity, tuple(group or ())))
    if out is None:
        typer.echo(text, nl=False)
    elif out.exists():
        raise StoreError(
            "the file is there already", path="--out", given=str(out), allowed="a new file", fix="choose another name"
        )
    else:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text, encoding="utf-8")
        console.print(f"written: {out}", markup=False, highlight=False)
    plain(stderr=True).print(
        "Ranges and names in this draft were read off the data and are not public: replace them, then set "
        'declared = "public".'
    )
