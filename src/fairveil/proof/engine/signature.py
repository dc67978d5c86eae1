"""Proofs that know their code: the functions a proof speaks of, a digest of each, and who said that it still holds.

A page of proofs ends in a signed place: a date, one sentence, and a table of functions with their digests. A digest is
of the syntax tree without docstrings, so layout, comments and the Python version leave it alone and a changed number
does not. Nothing is imported: functions are looked up in the text of their module.

>>> same = "def f(x):\\n    'Other words.'\\n    return (x + 1)  # the same"
>>> digest_of(ast.parse("def f(x): return x + 1")) == digest_of(ast.parse(same))
True
>>> digest_of(ast.parse("def f(x): return x + 2")) == digest_of(ast.parse(same))
False
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import fairveil
from fairveil.errors import SpecError

BEGIN, END = "<!-- proof:", "<!-- end of proof -->"
"""A signed place: the first line names tests that are run before signing, beside the audits of the page."""
PLACE = re.compile(re.escape(BEGIN) + r"([^\n]*?)-->\n(.*?)" + re.escape(END), re.DOTALL)
ROW = re.compile(r"^\| `([\w.]+:[\w.]+)` \| `?([0-9a-f]*)-?`? \|$", re.MULTILINE)
SIGNED = re.compile(r"^Signed (\d{4}-\d\d-\d\d), fairveil (\S+): (.+)$", re.MULTILINE)
COMMAND = 'fairveil audit --sign all --why "..."'
LEFT_OUT = ("ctx", "kind", "type_comment")
"""Fields of a syntax tree that say nothing, or that Python versions fill differently."""
PACKAGE = Path(fairveil.__file__).parent
OLDER = 200
"""How many versions of a file are looked through for the one that was signed."""


@dataclass(frozen=True)
class Signature:
    """The signed place of a page: tests run before signing, digests by function, and the last signature, if any."""

    page: Path
    tests: tuple[str, ...]
    functions: dict[str, str]
    date: str = ""
    why: str = ""

    @property
    def changed(self) -> list[str]:
        """Functions that are not what was signed (or never were), and those that are gone."""
        return [name for name, signed in self.functions.items() if digest(name) != signed]


def read(page: Path) -> Signature | None:
    """The signed place of a page; None where it has none."""
    found = PLACE.search(page.read_text())
    if found is None:
        return None
    signed = SIGNED.search(found[2])
    facts = (signed[1], signed[3]) if signed else ("", "")
    return Signature(page, tuple(found[1].split()), dict(ROW.findall(found[2])), *facts)


def sign(signature: Signature, why: str) -> None:
    """Write today's digests, the date and the sentence into the page."""
    gone = [name for name in signature.functions if not digest(name)]
    if gone:
        fix = "name the functions that took their place in the table of the page"
        raise SpecError("functions of this proof are gone", path="sign", given=", ".join(gone), fix=fix)
    day = datetime.now(UTC).date().isoformat()
    lines = [f"Signed {day}, fairveil {fairveil.__version__}: {why}", "", "| function | digest |", "|---|---|"]
    lines += [f"| `{name}` | `{digest(name)}` |" for name in signature.functions]
    head = f"{BEGIN}{' '.join(('', *signature.tests))} -->\n"
    text = signature.page.read_text()
    signature.page.write_text(PLACE.sub(lambda _: head + "\n".join(lines) + "\n" + END, text, count=1))


def digest(name: str) -> str:
    """The digest of ``package.module:Class.method``, a function or a class; empty when there is no such thing."""
    file, inside = place_of(name)
    node = _find(_tree(file), inside) if file.exists() else None
    return digest_of(node) if node is not None else ""


def place_of(name: str) -> tuple[Path, str]:
    """The file of a name, and its path inside."""
    module, _, inside = name.partition(":")
    path = PACKAGE.joinpath(*module.split(".")[1:])
    return (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")), inside


@cache
def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


def _find(tree: ast.AST, inside: str) -> ast.AST | None:
    """The last definition of a name: a function, a method, a class, or an assigned constant."""
    node: ast.AST | None = tree
    for part in inside.split("."):
        body = getattr(node, "body", [])
        node = next((one for one in reversed(body) if part in _names(one)), None)
        if node is None:
            return None
    return node


def _names(node: ast.AST) -> tuple[str, ...]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
        return (node.name,)
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return tuple(one.id for one in targets if isinstance(one, ast.Name))


def digest_of(node: ast.AST) -> str:
    """Twelve hexadecimal digits of a syntax tree."""
    return hashlib.sha256("\n".join(_words(node)).encode()).hexdigest()[:12]


def _words(node: ast.AST) -> Iterator[str]:
    """A tree in words that are the same in every Python: fields that are empty are left out, docstrings too."""
    yield f"({type(node).__name__}"
    for field, value in ast.iter_fields(node):
        if (value is None and not isinstance(node, ast.Constant)) or value == [] or field in LEFT_OUT:
            continue
        yield field
        for part in _without_docstring(value) if isinstance(value, list) else [value]:
            if isinstance(part, ast.AST):
                yield from _words(part)
            else:
                yield repr(part)
    yield ")"


def _without_docstring(body: list[ast.AST]) -> list[ast.AST]:
    """Statements without texts that stand alone: of a function, a class, or under an assignment."""
    return [
        part
        for part in body
        if not (
            isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant) and isinstance(part.value.value, str)
        )
    ]


def difference(name: str, signed: str) -> str:
    """What changed in a function since it was signed, from the history of its file, or that it is not there."""
    file, inside = place_of(name)
    now = _find(_tree(file), inside) if file.exists() else None
    if not signed:
        return "new on this page"
    for text in _older(file):
        before = _find(ast.parse(text), inside)
        if before is not None and digest_of(before) == signed:
            shown = difflib.unified_diff(_plain(before), _plain(now), "signed", "now", lineterm="", n=1)
            return "\n".join(shown)
    return "gone" if now is None else "changed; the history at hand does not have the version that was signed"


def _plain(node: ast.AST | None) -> list[str]:
    return ast.unparse(node).splitlines() if node is not None else []


def _older(file: Path) -> Iterator[str]:
    """Texts of a file in its history, the latest first; nothing where there is no history."""
    asked = _git(file.parent, "log", f"-{OLDER}", "--format=%H", "--", file.name)
    for commit in asked.split():
        if text := _git(file.parent, "show", f"{commit}:./{file.name}"):
            yield text


def _git(folder: Path, *words: str) -> str:
    try:
        done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout if done.returncode == 0 else ""
