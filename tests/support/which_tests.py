"""Which tests speak of a module: `python tests/support/which_tests.py loop.settle`, or `--page` for docs/tests.md.

A test file speaks of a module when it is named after it (in the folder that mirrors its package), imports it, or builds
one of the names that live there. Where no file does so directly, those of the modules that import it are given.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE, TESTS = ROOT / "src", ROOT / "tests"
MODULES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in SOURCE.rglob("*.py")
}
FILES = sorted(TESTS.rglob("test_*.py"))


@cache
def imported(path: Path) -> frozenset[str]:
    """Modules of ours that a file imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(found & set(MODULES))


@cache
def names_of(module: str) -> frozenset[str]:
    """Names that a module registers, as specs spell them."""
    return frozenset(re.findall(r'@register\(\s*"[\w-]+",\s*"([\w/-]+)"', MODULES[module].read_text()))


@cache
def words_of(path: Path) -> frozenset[str]:
    """Words in quotes in a test."""
    return frozenset(re.findall(r"[\"']([\w/-]+)[\"']", path.read_text()))


@cache
def importers() -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for module, path in MODULES.items():
        for other in imported(path) - {module}:
            found[other].add(module)
    return found


@cache
def direct(module: str) -> tuple[Path, ...]:
    """Test files named after a module, that import it, or that build its names; the best first."""
    stem, package = module.rpartition(".")[2], module.split(".")[1:-1]
    ranked = []
    for path in FILES:
        folders = path.relative_to(TESTS).parts[:-1]
        named = path.stem in (f"test_{stem}", f"test_{stem}s")
        own = named and (not package or set(folders) & set(package))
        says = len(names_of(module) & words_of(path))
        if own or module in imported(path) or (says and set(folders) & {*package, "contracts", "audit"}):
            ranked.append((not own, module not in imported(path), path))
    return tuple(path for *_, path in sorted(ranked))


MANY = 8
"""More files than this, found through others, say nothing about one module."""


def tests_of(module: str) -> tuple[Path, ...]:
    """The tests that speak of a module, or of the nearest modules that use it."""
    seen, level = {module}, [module]
    while level:
        found = [path for one in level for path in direct(one)]
        if found and (len(set(found)) <= MANY or level == [module]):
            return tuple(dict.fromkeys(found))
        level = sorted({user for one in level for user in importers()[one]} - seen)
        seen |= set(level)
    return by_room(module)


FOLDERS = {"laws": "contracts", "pairs": "audit", "mutants": "audit", "adapters": "audit", "engine": "audit"}
"""Rooms of proof whose tests run over all their names at once."""


def by_room(module: str) -> tuple[Path, ...]:
    """For names that are reached through the registry alone: the tests of their room, those of like names first."""
    parts = module.split(".")[1:]
    wanted = [FOLDERS.get(part, part) for part in reversed(parts[:-1])] + parts[-1:]
    for folder in wanted:
        found = [path for path in FILES if folder in path.relative_to(TESTS).parts[:-1]]
        if found:
            words = set(parts[-1].split("_"))
            return tuple(sorted(found, key=lambda path: -len(words & set(path.stem.split("_")))))
    return ()


def page() -> str:
    """docs/tests.md: every module with the tests to read first."""
    lines = [
        "# Where a module is tested",
        "",
        "Made by `make which-tests`; a test keeps it true. For each module up to three test files to read first:",
        "those named after it, that import it, or that build its names.",
        "`python tests/support/which_tests.py loop.settle` lists all.",
        "Laws run over every registered name of a kind: `tests/contracts` and `tests/audit`.",
    ]
    room = ""
    listed = [module for module, path in MODULES.items() if path.stem not in ("__init__", "_version", "__main__")]
    for module in sorted(listed, key=lambda module: (module.count(".") > 1, module)):
        parts = module.split(".")
        own = parts[1] if len(parts) > 2 else "ground floor"
        if own != room:
            room = own
            lines += ["", f"## {room}", "", "| module | tests |", "|---|---|"]
        found = ", ".join(f"`{path.relative_to(TESTS)}`" for path in tests_of(module)[:3])
        lines.append(f"| `{'.'.join(parts[1:])}` | {found} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--page"]:
        (ROOT / "docs" / "tests.md").write_text(page())
    else:
        for word in sys.argv[1:]:
            for found in tests_of(f"fairveil.{word.removeprefix('fairveil.')}"):
                print(found.relative_to(ROOT))
