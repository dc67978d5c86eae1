"""Old import paths give the new module, once, with a warning that names the new place."""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys

import pytest

from fairveil import moved


@pytest.mark.parametrize("old", sorted(moved.MOVED))
def test_an_old_path_is_the_module_at_its_new_place(old):
    sys.modules.pop(old, None)
    with pytest.warns(DeprecationWarning, match="has moved to"):
        module = importlib.import_module(old)
    assert module is importlib.import_module(moved.MOVED[old])
    assert module.__spec__.name == moved.MOVED[old]


def test_names_that_docs_of_the_first_version_import():
    code = """
from fairveil.privacy.audit import AuditPair, attack, audit, estimate_mu, find_pair, outputs
from fairveil.privacy.audit.mutants import Mutant, method, mutants_of
from fairveil.privacy.audit.bounds import CurveClaim
from fairveil.privacy.ledger import Ledger
from fairveil.privacy.ledger.verify import verify
from fairveil.bandits.contract import check_policy
from fairveil.privacy.sums.laws import exact_cost
import fairveil.proof, fairveil.ledger
assert audit is fairveil.proof.audit and Ledger is fairveil.ledger.Ledger
"""
    found = subprocess.run([sys.executable, "-W", "default", "-c", code], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert "<string>:2: DeprecationWarning: fairveil.privacy.audit has moved to fairveil.proof" in found.stderr


@pytest.mark.parametrize("name", ["Account", "Released", "release_once"])
def test_what_a_party_charges_is_still_found_among_parties(name):
    with pytest.warns(DeprecationWarning, match=f"{name} has moved to fairveil.ledger"):
        found = getattr(importlib.import_module("fairveil.federated"), name)
    assert found is getattr(importlib.import_module("fairveil.ledger"), name)


def test_an_old_path_leaves_the_names_of_the_new_package_alone():
    code = """
import fairveil.privacy.ledger.verify
from fairveil.ledger import verify
from fairveil.privacy.ledger.verify import verify as old
assert verify is old and callable(verify), verify
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr


def test_a_pickle_that_names_an_old_module_loads():
    from fairveil.ledger.chain import Row  # any class of a module that has moved

    written = pickle.dumps(Row, 0).replace(b"fairveil.ledger.chain", b"fairveil.privacy.ledger.chain")
    sys.modules.pop("fairveil.privacy.ledger.chain", None)
    with pytest.warns(DeprecationWarning, match="has moved"):
        assert pickle.loads(written) is Row


def test_what_has_not_moved_is_left_alone():
    assert moved.new_name("fairveil.privacy.noise") is None
    assert moved.new_name("fairveil") is None
