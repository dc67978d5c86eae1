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
def test_a_planted_mistake_is_noticed_and_the_code_without_it_is_not(title, tmp_path):
    [mistake] = [one for one in MISTAKES if one.title == title]
    answers = run.Answers(tmp_path / "kept.json", "0,5")
    with run.copied() as folder:
        answers.ask_without({mistake.caught}, folder)
        assert answers.sound == {mistake.caught: {}}
        who, words = answers.ask(mistake, folder)
        assert (who, set(words)) == (mistake.caught, {"0", "5"})


def test_answers_are_kept_as_they_come(tmp_path, monkeypatch):
    mistake, other = [one for one in MISTAKES if one.caught][:2]
    calls = []
    monkeypatch.setattr(run, "asked", lambda who, folder, seeds: calls.append(who) or {})
    monkeypatch.setattr(run, "look", lambda one, *rest: (one.caught, {"0": "seen", "1": "seen"}))
    first = run.Answers(tmp_path / "kept.json", "0,1")
    first.ask_without({mistake.caught}, tmp_path)
    assert set(first.ask(mistake, tmp_path)[1]) == {"0", "1"}
    again = run.Answers(tmp_path / "kept.json", "0,1")  # the process was stopped here
    monkeypatch.setattr(run, "look", lambda *given: pytest.fail("asked again"))
    again.ask_without({mistake.caught}, tmp_path)
    assert len(calls) == 1
    assert set(again.ask(mistake, tmp_path)[1]) == {"0", "1"}
    with pytest.raises(pytest.fail.Exception):
        again.ask(other, tmp_path)
    with pytest.raises(SystemExit, match="another --out"):
        run.Answers(tmp_path / "kept.json", "0,1,2")
    again.sound[mistake.caught] = {"1": "wrong without it"}  # who cries at a seed anyway has not noticed anything there
    assert set(again.ask(mistake, tmp_path)[1]) == {"0"}
