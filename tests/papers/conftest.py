"""Runs of the papers' artefacts at quick scale, made once for all tests of a session."""

from __future__ import annotations

import pytest

from fairveil.running.store import ResultStore


@pytest.fixture(scope="session")
def results_of_papers(tmp_path_factory):
    """One store for every process of the session: what another test has run is read from it."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if base.name.startswith("popen-") else base
    return ResultStore(shared / "papers")
