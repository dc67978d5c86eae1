"""Where the built-in names live: a name loads its own module and no other.

Every package has a table ``names.txt`` beside its modules: kind, name, module, the module written from the package on.
A new policy, task, ... adds its line there. ``tests/test_registry.py`` keeps tables and registered names equal.

>>> HOMES["policy"]["private-nash"], AUDITS[0]
('bandits.nash.private_nash', 'proof.pairs.exposure')
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

PROOF = "proof"
LEFT_OUT = """
attack  (left-out)  attacks
command (left-out)  engine
laws    (left-out)  laws
task    audit       engine.audit
audits              pairs
"""
"""What stands for `fairveil.proof` where a deployment has left it out: names that say so when they are asked for."""


def tables(house: Path) -> tuple[dict[str, dict[str, str]], tuple[str, ...]]:
    """Homes by kind and name, and modules of audits: they register pairs (``audit-pair``) and mutants (``mutant``)."""
    homes: dict[str, dict[str, str]] = {}
    audits: list[str] = []
    for kind, *name, module in sorted(_lines(house), key=lambda words: words[:-1]):
        if name:
            homes.setdefault(kind, {})[name[0]] = module
        else:
            audits.append(module)
    return homes, tuple(audits)


def _lines(house: Path) -> Iterator[list[str]]:
    texts = {file.parent.name: file.read_text(encoding="utf-8") for file in house.glob("*/names.txt")}
    for package, text in {PROOF: LEFT_OUT, **texts}.items():
        for line in filter(None, map(str.split, text.splitlines())):
            yield [*line[:-1], f"{package}.{line[-1]}"]


HOMES, AUDITS = tables(Path(__file__).parent)
"""Modules are written without ``fairveil.``."""
