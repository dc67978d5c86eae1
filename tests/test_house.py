"""The house itself: no two modules import each other, and class names say which thing they are."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from fairveil import registry

SOURCE = Path(__file__).resolve().parent.parent / "src"
FILES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in SOURCE.rglob("*.py")
}


def imports(name: str) -> set[str]:
    """Modules of ours that a module names in its imports, at the top or inside functions; hints for types aside."""
    tree = ast.parse(FILES[name].read_text())
    found: set[str] = set()
    for node in _running(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {module for module in inner if module in FILES}
            if inner - set(FILES):
                found.add(node.module)
    return {module for module in found if module in FILES} - {name}


def _running(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            continue
        yield child
        yield from _running(child)


def reached(graph: dict[str, set[str]], start: str) -> set[str]:
    """Modules that a module imports, also through others."""
    found: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += graph[name]
    return found


def test_no_two_modules_import_each_other_not_even_through_a_third():
    graph = {name: imports(name) for name in FILES}
    around = {name for name in graph if name in reached(graph, name)}
    assert not around, {name: sorted(graph[name] & around) for name in sorted(around)}


def test_words_that_many_rooms_could_use_name_one_class():
    found = {
        word: [name for name, path in FILES.items() if re.search(rf"^class {word}\b", path.read_text(), re.MULTILINE)]
        for word in ("Store", "Table", "Model", "Policy", "Limit", "Claim", "Job")
    }
    assert all(len(homes) <= 1 for homes in found.values()), found


COMPILED = {
    "njit",
    "jit",
    "vectorize",
    "guvectorize",
    "overload",
    "intrinsic",
    "cfunc",
    "register_jitable",
    "Kernel",
} | {"inlined"}
FORMULA = "_of"
"""Decorators of compiled formulas (`index_of`, ...) end like this and take the numbers that the formula reads."""


def test_every_policy_has_a_test_file_of_its_own():
    """Named as the policy or as the module that holds it; variants share the file of the sound one."""
    found = {path.stem for path in (SOURCE.parent / "tests" / "bandits").rglob("test_*.py")}
    missing = []
    for entry in registry.entries("policy"):
        name, module = entry.name.partition("/")[0].replace("-", "_"), entry.target.__module__
        home = re.sub(r"_(printed|figure)$", "", module.rpartition(".")[2])
        if module.startswith("fairveil.") and not {f"test_{name}", f"test_{home}"} & found:
            missing.append(entry.name)
    assert not missing


def test_whatever_is_not_compiled_is_annotated():
    """What mypy's disallow_untyped_defs says, with one exception for all compiled kernels."""
    bare = []
    for name, path in FILES.items():
        text = path.read_text()
        bare += [f"{name}.{place}" for place in _bare(ast.parse(text)) if not re.search(rf"\w\({place}\)", text)]
    assert not bare, f"{bare}: annotate them, or compile them (by a decorator, or as jit(function))"


def _bare(node: ast.AST) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef):
            words = {word for mark in child.decorator_list for word in re.findall(r"\w+", ast.unparse(mark))}
            if words & COMPILED or any(word.endswith(FORMULA) for word in words):
                continue
            every = [*child.args.posonlyargs, *child.args.args, *child.args.kwonlyargs]
            if child.returns is None or any(a.annotation is None for a in every if a.arg not in ("self", "cls")):
                yield child.name
        yield from _bare(child)
