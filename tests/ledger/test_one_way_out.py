"""Outside the ledger and what attacks it, nothing asks a ledger for a value but through `fairveil.ledger.account`."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import fairveil
from fairveil.proof.engine.adapter import adapters

HOME = Path(fairveil.__file__).parent
ROOMS = ("ledger", "proof")
"""The ledger itself, and what attacks it."""
ALONE = ("spend", "release_all")
"""Names that nothing else in the package has: touching one is asking a ledger."""
BEHIND = ("release", "draws")
"""Names that others have too: what they are read off tells."""
BY_NAME = ("getattr", "methodcaller", "attrgetter")
PAYS = {"event", "account"}
"""`Ledger.release` is refused without exactly one of these keywords, so a call of it has one."""
WHOLE_RUNS = {
    ("bandits", "ledgered.py"),
    ("consensus", "node.py"),
    ("loop", "lives.py"),  # a new key of ids is remembered by an account that costs nothing and releases nothing
    ("loop", "store.py"),
    ("loop", "upkeep.py"),  # a put-back store that is accepted pays for its whole run once more
    ("streams", "journal.py"),
}
"""Who says that an event was computed for a whole run (room and file); everybody else counts releases."""


def others() -> list[Path]:
    files = [file for file in sorted(HOME.rglob("*.py")) if file.relative_to(HOME).parts[0] not in ROOMS]
    assert len(files) > 300
    return files


def asks_a_ledger(tree: ast.AST) -> list[int]:
    """Lines that call or hand on `Ledger.spend`, `.release`, `.release_all`, or what is behind them."""
    lines = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            asks = node.attr in ALONE or (node.attr in BEHIND and "ledger" in _last_name(node.value).lower())
            asks |= node.attr == "release" and _last_name(node.value) == "draws"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "release":
            given = {word.arg for word in node.keywords}
            asks = bool(given & PAYS) or None in given
        else:
            words = node.args if isinstance(node, ast.Call) and _last_name(node.func) in BY_NAME else []
            asks = any(isinstance(word, ast.Constant) and word.value in ("release", *ALONE) for word in words)
        lines += [node.lineno] if asks else []
    return lines


def _last_name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Call):
        return _last_name(node.func)
    return node.id if isinstance(node, ast.Name) else ""


def test_nothing_asks_a_ledger_past_the_one_way():
    found = {str(file.relative_to(HOME)): asks_a_ledger(ast.parse(file.read_text())) for file in others()}
    assert {file: lines for file, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "line",
    [
        "ledger.spend('a', event)",
        "self.account.ledger.release('a', draw, event=event)",
        "opened.release('a', draw, account='b')",
        "opened.release('a', draw, **pays)",
        "Ledger.open(path).release_all(names, draw, account='a')",
        "ask = self.ledger.release",
        "getattr(opened, 'release')('a', draw, event=event)",
        "opened.draws.release(blocks, draw, noise, payment)",
        "path = self.ledger.draws",
    ],
)
def test_the_walk_sees_every_way_to_ask(line):
    assert asks_a_ledger(ast.parse(line)) != []


@pytest.mark.parametrize(
    "line", ["mechanism.release(120.0, noise)", "self._release(block)", "policy.release(state, noise)"]
)
def test_the_walk_leaves_releases_of_mechanisms_alone(line):
    assert asks_a_ledger(ast.parse(line)) == []


def test_who_says_that_an_event_is_for_a_whole_run():
    said = set()
    for file in others():
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "RunCost":
                said.add((file.relative_to(HOME).parts[0], file.name))
    assert said == WHOLE_RUNS


SHOWN = {
    "bandits/ledgered.py": "drive",
    "bandits/exposure/agent.py": "agent",
    "classify/spending.py": "estimator",
    "consensus/node.py": "node",
    "evaluate/private.py": "evaluate",
    "loop/blocks.py": "loop",
    "loop/reports.py": "report",
    "streams/serving/journal.py": "journal",
}
"""Who asks for blocks, and the adapter by which the laws of the one way out are shown it."""
ASKING = ("release_once", "release_many")
BESIDE = {
    "federated/secure_sum.py": "stores shares of noise under the names of its party: test_secure_sums.py",
    "lab/demo.py": "a demonstration",
    "reports/evaluation.py": "one call that keeps nothing: test_fairness_report.py",
    "reports/fairness.py": "one call that keeps nothing: test_fairness_report.py",
}


def test_whoever_asks_for_a_block_is_shown_the_laws():
    asking = {
        str(file.relative_to(HOME))
        for file in others()
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ASKING
    }
    assert asking == set(SHOWN) | set(BESIDE)
    assert set(SHOWN.values()) <= set(adapters())
