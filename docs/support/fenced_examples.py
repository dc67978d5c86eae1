"""Examples in docstrings as highlighted code: `>>>` would be three quotations in Markdown."""

from __future__ import annotations

from typing import Any

import griffe


class FencedExamples(griffe.Extension):
    """Puts a fence around every example."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """From a line that starts with >>> to the next empty line."""
    lines: list[str] = []
    inside = False
    for line in text.split("\n"):
        if not inside and line.startswith(">>>"):
            lines += ["", "```pycon"]
            inside = True
        elif inside and not line.strip():
            lines.append("```")
            inside = False
        lines.append(line)
    return "\n".join([*lines, "```"] if inside else lines)
