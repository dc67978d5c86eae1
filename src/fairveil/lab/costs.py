"""What artefacts cost on ordinary cores, measured once; `fairveil reproduce --list` prefers what a run here cost."""

from __future__ import annotations

from pathlib import Path

from fairveil.lab.artefact import SCALES


def _measured(table: str) -> dict[str, dict[str, int]]:
    """A name and one column a scale on each line; "-" was not measured."""
    rows = [row.split() for row in table.splitlines() if not row.startswith("#")]
    return {
        name: {scale: int(cost) for scale, cost in zip(SCALES, costs, strict=True) if cost != "-"}
        for name, *costs in rows
    }


MEASURED = _measured(Path(__file__).with_suffix(".txt").read_text(encoding="utf-8"))
"""About how many CPU seconds, by artefact and scale, once everything is compiled. What is absent was not measured.

At paper scale with what a first run compiles.
"""
