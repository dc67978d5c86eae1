"""The house itself: no two modules import each other, and class names say which thing they are."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
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


def others(name: str) -> set[str]:
    """Packages of others that a module imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(FILES[name].read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            found.add(node.module.partition(".")[0])
    return found - set(sys.stdlib_module_names) - {"fairveil"}


DISTRIBUTIONS = {
    "sklearn": "scikit-learn", "vl_convert": "vl-convert-python", "yaml": "pyyaml", "opentelemetry": "opentelemetry-sdk"
}  # fmt: skip
LOADED_BY_OTHERS = {"uvloop", "httptools", "opentelemetry-exporter-otlp-proto-http"}


def test_the_page_on_architecture_names_what_is_imported_and_nothing_else():
    root = SOURCE.parent
    used = {DISTRIBUTIONS.get(word, word.replace("_", "-")) for name in FILES for word in others(name)}
    page = (root / "docs" / "architecture.md").read_text().partition("| package | why |")[2].partition("\n\n")[0]
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("|") and "`dev`" not in line]
    named = {word.strip() for row in rows for word in row.partition("(")[0].split(",")} - {"---", ""}
    assert named == used | LOADED_BY_OTHERS
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    extras = [line for extra, lines in project["optional-dependencies"].items() if extra != "dev" for line in lines]
    declared = {re.match(r"[\w-]+", line)[0] for line in [*project["dependencies"], *extras]}
    assert declared == named


def test_no_two_modules_import_each_other_not_even_through_a_third():
    graph = {name: imports(name) for name in FILES}
    around = {name for name in graph if name in reached(graph, name)}
    assert not around, {name: sorted(graph[name] & around) for name in sorted(around)}


SAME_WORD = {
    "a data set, and the world that is played with it": ("Adult", "Census", "SyntheticCensus"),
    "two registered things of one name, told apart by their kind": ("Columns", "Gaussian", "Linear", "Logistic"),
    "what the formula of a policy reads; every policy has its own": ("Numbers",),
    "the two forms of an algorithm, one pair a room": ("Printed", "Sound"),
    "one role in several rooms: a number with its interval": ("Estimate",),
    "one role in several rooms: what is known before any data": ("Quote",),
    "one role in several rooms: what is public about a run": ("Setting",),
    "one role in several rooms: how a solution is made private": ("Perturbation",),
    "one role in several rooms: a path that was simulated": ("History",),
    "one role in several rooms: the trained form of a dynamics": ("TrainedSpec", "TrainedTask"),
    "one role in several rooms: what happened in one step": ("Step",),
    "an artefact of a paper, known by its number": ("Compared", "Ours", "Shares", "Sweep"),
    "arrays of a compiled loop, a word of that file alone": (
        *("Beliefs", "Gathered", "Known", "Line", "Place", "Rows", "Scratch", "Sources", "World"),
    ),
    "a name that people import since 0.1.0": ("Finding", "Loop", "Report"),
    "a table of the loop's API, and what the library calls so": ("Budget", "Event"),
    "when steps begin, and what time it is": ("Clock",),
    "synchronisations of agents, and penalties by iteration": ("Schedule",),
    "what is agreed before anything is read: of a federation, and of a fair fit": ("Plan",),
    "what left the ledger, and what a stream shows of it": ("Released",),
    "runs side by side, and the fits of an estimator (its pickles name it)": ("Tally",),
}
"""Class names that stand in several modules, by the reason."""


def test_a_class_name_names_one_role():
    homes: dict[str, list[str]] = {}
    for name, path in FILES.items():
        for word in re.findall(r"^class ([A-Z]\w*)", path.read_text(), re.MULTILINE):
            homes.setdefault(word, []).append(name)
    several = {word: found for word, found in homes.items() if len(found) > 1}
    excepted = [word for words in SAME_WORD.values() for word in words]
    assert len(excepted) == len(set(excepted))
    assert not {word: found for word, found in several.items() if word not in excepted}, "rename, or give a reason"
    assert not set(excepted) - set(several), "these exceptions are not needed any more"


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
} | {"inlined", "inner"}
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


def test_what_is_left_to_the_long_run_exists():
    root = SOURCE.parent
    lines = [line for line in (root / "tests" / "long.txt").read_text().splitlines() if not line.startswith("#")]
    assert lines == sorted(set(lines))
    for line in lines:
        path, _, name = line.partition("::")
        assert (root / path).exists(), line
        assert name.partition("[")[0] in (root / path).read_text() if name else True, line


def test_no_file_and_no_function_is_longer_than_a_reader_can_hold():
    long = {name: lines for name, path in FILES.items() if (lines := len(path.read_text().splitlines())) > 400}
    assert not long
    for name, path in FILES.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                assert (node.end_lineno or 0) - node.lineno < 70, f"{name}.{node.name}"


def test_no_two_migrations_have_one_number():
    """Of two files with one number only one would be applied."""
    folder = SOURCE / "fairveil" / "loop" / "storage" / "migrations"
    for dialect in ("sqlite", "postgresql"):
        numbers = [file.name[:4] for file in folder.glob(f"*.{dialect}.sql")]
        assert sorted(numbers) == [f"{number:04}" for number in range(1, len(numbers) + 1)], "take the next free number"


def test_whoever_catches_everything_says_why():
    bare = []
    for file in sorted((SOURCE / "fairveil").rglob("*.py")):
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if line.strip().startswith(("except Exception", "except:")) and "  # " not in line:
                bare.append(f"{file.relative_to(SOURCE)}:{number}")
    assert bare == []
