"""What the examples share: commands as a person types them, and edits as a person makes them."""

from __future__ import annotations

import contextlib
import csv
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path

from fairveil.cli import main


def fairveil(*words: object, into: Path | None = None) -> None:
    """Type ``fairveil ...`` (with ``> into``); stop where it fails."""
    typed = [str(word) for word in words]
    print(f"\n$ fairveil {shlex.join(typed)}{f' > {into}' if into else ''}", flush=True)
    with contextlib.ExitStack() as open_files:
        if into is not None:
            open_files.enter_context(contextlib.redirect_stdout(open_files.enter_context(into.open("w"))))
        try:
            main(typed)
        except SystemExit as ended:
            if ended.code:
                raise


def edit(spec: Path, changes: dict[str, str]) -> None:
    """Replace lines of a draft, named by their key; a new line is added at the top."""
    lines = spec.read_text().splitlines()
    for key, line in changes.items():
        place = next((k for k, old in enumerate(lines) if old.split("=")[0].strip() == key), None)
        print(f"  edit {spec.name}: {line}")
        if place is None:
            lines.insert(0, line)
        else:
            lines[place] = line
    spec.write_text("\n".join(lines) + "\n")


def write(file: Path, names: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """A CSV file with a header line."""
    with file.open("w", newline="") as opened:
        table = csv.writer(opened)
        table.writerow(names)
        table.writerows(rows)


def folder_of(name: str) -> Path:
    """Where an example works: the folder named on the command line, or one of its own under out/."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("out") / "people" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder
