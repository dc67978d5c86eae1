"""A ledger keeps its laws; every mistake planted in it breaks one of them."""

from __future__ import annotations

import pytest

from fairveil.proof.adapters.ledger import ledger_checks

LEDGER = ledger_checks()


def test_the_ledger_keeps_its_laws():
    assert len(LEDGER.check()) == len(LEDGER.laws)


@pytest.mark.parametrize("mutant", LEDGER.mutants, ids=lambda mutant: mutant.name)
def test_every_mistake_breaks_a_law(mutant):
    assert mutant.words
    assert LEDGER.caught_by(mutant)
    assert not mutant.harmless
