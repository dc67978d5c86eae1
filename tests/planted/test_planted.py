"""Planted mistakes stand where they say, and whoever is said to notice them exists."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path

import pytest

from fairveil.proof.engine.adapter import adapters

HERE = Path(__file__).parent
spec = importlib.util.spec_from_file_location("planted_run", HERE / "run.py")
run = sys.modules["planted_run"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(run)
MISTAKES = run.mistakes()


def test_every_mistake_can_be_planted():
    assert len({mistake.title for mistake in MISTAKES}) == len(MISTAKES) >= 60
    standing = [mistake for mistake in MISTAKES if mistake.stands]
    gone = [mistake.title for mistake in MISTAKES if not mistake.stands]
    assert len(gone) <= len(MISTAKES) / 10, f"lines were rewritten: plant these anew, or take them out: {gone}"
    for mistake in standing:
        assert mistake.old != mistake.new, mistake.title
        ast.parse(mistake.broken())
        assert sum(mistake.file.startswith(start) for start in run.WIDE) == 1, mistake.title


def test_whoever_is_said_to_notice_exists():
    for mistake in MISTAKES:
        if mistake.caught.startswith("audit:adapter:"):
            assert mistake.caught.removeprefix("audit:adapter:") in adapters(), mistake.title
        elif mistake.caught and not mistake.caught.startswith("audit:"):
            file, _, name = mistake.caught.partition("::")
            assert f"def {name}" in (run.ROOT / file).read_text(), mistake.title


def test_the_page_has_them_all():
    page = (run.ROOT / "docs" / "guarantees" / "planted.md").read_text()
    assert page == run.page(page)


@pytest.mark.parametrize("title", ["loop/unkeyed-subjects", "ledger/accounts-unlinked"])
def test_a_planted_mistake_is_noticed_and_the_code_without_it_is_not(title):
    [mistake] = [one for one in MISTAKES if one.title == title]
    with run.copied() as folder:
        assert run.sound({mistake.caught}, folder, "0,5") == {}
        who, words = run.look(mistake, folder, False, "0,5")
        assert (who, set(words)) == (mistake.caught, {"0", "5"})
