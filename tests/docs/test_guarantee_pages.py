"""Every private policy, learner, releaser and algorithm has a proof page, and its results are those of real audits."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fairveil import registry
from fairveil.contents import HOMES
from fairveil.proof.engine.audit_all import BEGIN, END
from fairveil.proof.engine.everything import things

FOLDER = Path(__file__).parents[2] / "docs" / "guarantees"
PAGES = [page for page in sorted(FOLDER.glob("*.md")) if BEGIN in page.read_text()]
PLACE = re.compile(re.escape(BEGIN) + r"([^\n]*?)-->\n(.*?)" + re.escape(END), re.DOTALL)
PROOF = ("private-nash", "adap-ucb", "local-nash", "gdp-ncb")


def places(page):
    return [(names.split(), text) for names, text in PLACE.findall(page.read_text())]


def test_everything_that_promises_privacy_is_on_one_page():
    named = [name for page in PAGES for names, _ in places(page) for name in names]
    assert len(named) == len(set(named))
    built_in = {
        thing.title
        for thing in things()
        if thing.kind == "adapter" or thing.name.partition("/")[0] in HOMES[thing.kind]
    }
    assert set(named) == built_in  # other tests of the same process may have registered names of their own


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_results_are_dated_tables_of_existing_audits(page):
    pairs = set(registry.names("audit-pair"))
    for names, text in places(page):
        assert re.match(r"Run of \d{4}-\d\d-\d\d, fairveil \S+", text), "fairveil audit all --pages docs/guarantees"
        audits = re.findall(
            r"^\| `([^`]+)` \| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \| (\d+) \|$", text, re.MULTILINE
        )
        assert {audit[0] for audit in audits} <= pairs
        drawing = {name.partition("/")[0] for name in names if not name.startswith("adapter:")}
        assert {audit[0].partition("/")[0] for audit in audits} == drawing
        caught = re.findall(r"^\| `([^`]+)` (\S+) \| (.+) \|$", text, re.MULTILINE)
        assert {title for title, _, _ in caught} == set(names)
        assert "**nothing**" not in text


@pytest.mark.parametrize("name", PROOF)
def test_a_proof_says_what_it_needs(name):
    text = (FOLDER / f"{name}.md").read_text()
    for word in ("Statement", "Unit and neighbours", "Sensitivity", "Composition", "Not covered"):
        assert word.lower() in text.lower() or (name == "local-nash" and word == "Sensitivity"), word
