"""A ledger keeps its laws; every mistake planted in it breaks one of them."""

from __future__ import annotations

import pytest

from fairveil.errors import ContractError, LedgerTampered
from fairveil.privacy.ledger.laws import LAWS, check_ledger
from fairveil.privacy.ledger.mutants import MISTAKES


def test_the_ledger_keeps_its_laws(tmp_path):
    assert len(check_ledger(tmp_path)) == len(LAWS)


@pytest.mark.parametrize("name", MISTAKES)
def test_every_mistake_breaks_a_law(tmp_path, name):
    words, plant = MISTAKES[name]
    assert words
    with plant(), pytest.raises((ContractError, LedgerTampered)):
        check_ledger(tmp_path)
