"""One notation table a room: every symbol of its formulas stands in the table of the package's docstring, and is used.

A room joins by adding its package to `ROOMS`.
"""

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOMS = (
    "fairveil.bandits.nash",
    "fairveil.bandits.meritocratic",
    "fairveil.bandits.exposure",
    "fairveil.classify.game",
    "fairveil.consensus",
    "fairveil.streams",
)
LETTERS = "alpha beta gamma delta epsilon zeta eta theta iota kappa lam mu nu xi rho sigma tau phi chi psi omega"
GREEK = frozenset(LETTERS.split())


def table_of(room):
    """Rows (API name, symbols, meaning) of the table between three rulers in the docstring of a package."""
    doc = importlib.import_module(room).__doc__
    ruler = re.compile(r"^=+(  =+)+$", re.M)
    rulers = list(ruler.finditer(doc))
    assert len(rulers) == 3, f"{room} has no notation table"
    starts = [match.start() for match in re.finditer(r"=+", rulers[0].group())]
    head, *body = [doc[rulers[0].end() : rulers[1].start()], *doc[rulers[1].end() : rulers[2].start()].split("\n")]
    assert head.split() == ["API", "name", "symbol", "meaning"]
    rows = [[line[a:b].strip() for a, b in zip(starts, [*starts[1:], None])] for line in body if line.strip()]
    return [(name, symbol.split(", "), meaning) for name, symbol, meaning in rows]


def sources(room):
    folder = Path(importlib.import_module(room).__file__).parent
    return {path: ast.parse(path.read_text()) for path in sorted(folder.rglob("*.py"))}


def symbols(tree):
    """Arguments and assigned names that are one letter or the name of a Greek one."""
    found = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    found |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return {name for name in found if (len(name) == 1 and name != "_") or name in GREEK}


@pytest.mark.parametrize("room", ROOMS)
def test_every_symbol_of_a_formula_stands_in_the_table_of_its_room(room):
    known = {symbol for _, listed, _ in table_of(room) for symbol in listed}
    missing = {path.name: found for path, tree in sources(room).items() if (found := symbols(tree) - known)}
    assert not missing


@pytest.mark.parametrize("room", ROOMS)
def test_every_row_of_a_table_is_used_and_says_what_it_means(room):
    used = set().union(*(symbols(tree) for tree in sources(room).values()))
    names = {
        word
        for tree in sources(room).values()
        for node in ast.walk(tree)
        for word in (getattr(node, "arg", None), getattr(node, "id", None), getattr(node, "attr", None))
    }
    for name, listed, meaning in table_of(room):
        assert set(listed) <= used, f"nothing is called {listed}"
        assert name == "-" or name in names, f"there is no {name}"
        assert meaning


@pytest.mark.parametrize("room", ROOMS)
def test_a_symbol_stands_once_in_a_table(room):
    listed = [symbol for _, some, _ in table_of(room) for symbol in some]
    assert len(listed) == len(set(listed))


def test_an_unknown_symbol_would_be_found():
    assert symbols(ast.parse("def f(mean, w):\n    zeta = w\n    return zeta")) == {"w", "zeta"}
