"""How large the package is: files, lines, code without docstrings and comments, docstring lines a public name.

    python bench/size.py [FOLDER]

All lines, and code: lines that are neither blank, comment nor docstring. A public name is a class, function or method
without a leading underscore.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from pathlib import Path
from typing import NamedTuple

HOUSE = Path(__file__).resolve().parent.parent / "src" / "fairveil"
QUIET = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


class Size(NamedTuple):
    """One file, or a sum of files."""

    files: int
    lines: int
    code: int
    docstrings: int
    public: int
    longest_file: int
    longest_function: int

    def __str__(self) -> str:
        return (
            f"{self.files} files, {self.lines} lines, {self.code} of code, {self.docstrings} of docstrings for "
            f"{self.public} public names ({self.docstrings / max(self.public, 1):.3f} a name), longest file "
            f"{self.longest_file}, longest function {self.longest_function}"
        )


BEFORE = Size(592, 76032, 53727, 8928, 4895, 399, 69)
"""Version 0.1.0."""
DEFINED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def measured(path: Path) -> Size:
    """The size of one file."""
    text = path.read_text()
    tree = ast.parse(text)
    quoted: set[int] = set()
    public = longest = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            longest = max(longest, (node.end_lineno or 0) - node.lineno + 1)
        if isinstance(node, DEFINED):
            public += not node.name.startswith("_")
        if isinstance(node, (ast.Module, *DEFINED)) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            quoted |= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    told: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in QUIET:
            told |= set(range(token.start[0], token.end[0] + 1))
    lines = len(text.splitlines())
    return Size(1, lines, len(told - quoted), len(quoted), public, lines, longest)


def total(folder: Path) -> Size:
    """The sum over all Python files of a folder."""
    parts = [measured(path) for path in sorted(folder.rglob("*.py"))]
    sums = [sum(column) for column in list(zip(*parts, strict=True))[:5]]
    return Size(*sums, max(part.longest_file for part in parts), max(part.longest_function for part in parts))


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HOUSE
    print(f"now    {total(folder)}")
    print(f"0.1.0  {BEFORE}")


if __name__ == "__main__":
    main()
