"""A comparison as a file to work with: its table as JSON or CSV, its pictures as SVG, PDF, PNG or HTML."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fairveil.errors import SpecError
from fairveil.lab.artefact import Chart, Table
from fairveil.lab.plots import PICTURES, check_picture_file, one_page, write_picture
from fairveil.running.store import write_atomically, writing

TABLES = (".json", ".csv")


def check_export(file: Path) -> None:
    """Refuse a file that cannot be written; ask before the work, not after it."""
    if file.suffix in PICTURES:
        check_picture_file(file)
    elif file.suffix not in TABLES or file.is_dir():
        allowed = ", ".join((*TABLES, *PICTURES))
        raise SpecError("a comparison cannot be written like this", path="export", given=file.name, allowed=allowed)


def export(file: Path, table: Table, charts: Sequence[Chart], results: Mapping[str, dict[str, Any]]) -> None:
    """Write one file; its name says which kind."""
    check_export(file)
    if file.suffix in PICTURES:
        if not charts:
            raise SpecError("this comparison has nothing to draw", path="export", given=file.name)
        write_picture(one_page(charts), file)
        return
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, (_csv(table) if file.suffix == ".csv" else _json(table, results)).encode())


def _csv(table: Table) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows([["" if cell is None else cell for cell in row] for row in table.rows])
    return text.getvalue()


def _json(table: Table, results: Mapping[str, dict[str, Any]]) -> str:
    rows = [dict(zip(table.columns, row)) for row in table.rows]
    kept = {name: {key: value for key, value in result.items() if key != "meta"} for name, result in results.items()}
    return json.dumps({"title": table.title, "rows": rows, "results": kept}, indent=1, allow_nan=False) + "\n"
