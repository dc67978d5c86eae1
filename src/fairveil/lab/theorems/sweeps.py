"""A statement on random instances, as it is or in its planted false variant."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from fairveil.lab.theorems.checks import Check, Sweep, sweep
from fairveil.lab.theorems.statements import Sentence, statements
from fairveil.randomness import Generator

#: Drawing stops at this many instances per instance wanted.
PATIENCE = 1000


def cases(statement: Sentence, rng: Generator, count: int, planted: bool = False) -> Iterator[tuple[Any, Check]]:
    """Draw until enough instances meet the premises, taking variants in turn; give up at a thousand times as many."""
    tried = applied = 0
    for one in itertools.cycle(statement.tries):
        for instance, found in one(rng):
            seen = found.planted(statement.drop) if planted and found.planted and statement.drop is not None else found
            tried += 1
            applied += seen.applies
            yield instance, seen
            if applied >= count or tried >= PATIENCE * count:
                return


def swept(statement: str, count: int, rng: Generator, planted: bool = False) -> Sweep:
    """A statement, or its ``planted`` false variant, on random instances until ``count`` of them met its premises."""
    return sweep(statement, cases(statements()[statement], rng, count, planted))
