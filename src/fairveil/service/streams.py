"""Streams that `fairveil release` publishes into a folder: their last values, promise and journal, as anybody may see.

Reads released lines, the promise beside them and the newest link of their ledger; never an input, and writes nothing.
"""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any

from fairveil.errors import FairveilError
from fairveil.ledger.places import place_of

PROMISE = ".guarantee.json"
"""What stands beside the output of a stream: `fairveil.cli.release`."""
TAIL = 2**16
"""Bytes of an output that are read from its end."""
LINES = 200
"""Lines of a stream that are shown at most: the newest."""
MOST = 200
"""Streams of a folder that are shown at most."""


def stream_tables(folder: str | os.PathLike[str]) -> dict[str, dict[str, Any]]:
    """Every stream of a folder by the name of its output."""
    found = sorted(Path(folder).glob(f"*{PROMISE}"))[:MOST]
    made = (_stream(path.with_name(path.name.removesuffix(PROMISE)), path) for path in found)
    return {table["name"]: table for table in made if table is not None}


def _stream(out: Path, beside: Path) -> dict[str, Any] | None:
    """A stream, None where a file of that name is not one."""
    try:
        promise = json.loads(beside.read_text())
        names, lines = _lines(out)
    except (OSError, ValueError):
        return None
    if not isinstance(promise, dict) or "unit" not in promise:
        return None
    columns = [name for name in names[1:] if f"{name}_low" in names]
    shown = [_line(names, columns, line) for line in lines]
    return {
        "name": out.name,
        "columns": columns,
        "label": names[0] if names else "step",
        "lines": shown,
        "guarantee": {key: promise.get(key) for key in ("definition", "epsilon", "delta", "unit", "notes")},
        "words": promise.get("words", []),
        "simulated": bool(promise.get("simulated")),
        "journal": _journal(out.parent, promise.get("ledger")),
    }


def _lines(out: Path) -> tuple[list[str], list[dict[str, Any]]]:
    """Names of the cells and the newest whole lines; a line that is being written is not there yet."""
    with open(out, "rb") as file:
        first = file.readline()
        size = file.seek(0, os.SEEK_END)
        begin = max(size - TAIL, 0)
        file.seek(begin)
        data = file.read()
    whole = data[: data.rfind(b"\n") + 1].decode().splitlines()[1 if begin else 0 :]
    if first.startswith(b"{"):
        tables = [dict(json.loads(line)) for line in whole[-LINES:]]
        return list(tables[-1]) if tables else [], tables
    names = next(csv.reader([first.decode()]), [])
    rows = csv.reader(whole[0 if begin else 1 :][-LINES:])
    return names, [dict(zip(names, row, strict=True)) for row in rows]


def _line(names: list[str], columns: list[str], line: dict[str, Any]) -> dict[str, Any]:
    values = {
        name: None if line[name] in ("", None) else [float(line[f"{name}{part}"]) for part in ("", "_low", "_high")]
        for name in columns
    }
    return {"at": str(line[names[0]]), "status": line.get("status", ""), "values": values}


def _journal(folder: Path, name: Any) -> dict[str, Any] | None:
    """The newest link of a stream's ledger; None where it keeps none, or keeps it elsewhere."""
    path = (folder / name).resolve() if isinstance(name, str) else None
    if path is None or not path.is_relative_to(folder.resolve()) or not path.is_file():
        return None
    place = place_of(path, None)
    try:
        with place.reading() as ledger:
            last = ledger.last()
    except FairveilError:
        return {"ledger": name, "entries": None, "head": None}
    except place.failures:
        return {"ledger": name, "entries": None, "head": None}
    return {"ledger": name, "entries": 0 if last is None else last[0] + 1, "head": None if last is None else last[1]}
