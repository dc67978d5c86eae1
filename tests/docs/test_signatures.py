"""Proofs know their code: functions are what was signed, every private name has a proof, assumptions are notes."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import pytest
from typer.testing import CliRunner

from fairveil import registry
from fairveil.cli import app
from fairveil.configuration import describe
from fairveil.loop.clock import ManualClock
from fairveil.loop.config import Person, Reward
from fairveil.loop.store import Store
from fairveil.proof.adapters import agent, estimator, evaluate
from fairveil.proof.adapters.journal import PLAIN
from fairveil.proof.adapters.node import ALGORITHM, SETTING
from fairveil.proof.adapters.policies import POLICY
from fairveil.proof.engine.audit_all import audited, signed_pages
from fairveil.proof.engine.everything import things
from fairveil.proof.engine.signature import BEGIN, COMMAND, END, difference, digest, digest_of, place_of, read

FOLDER = Path(__file__).parents[2] / "docs" / "guarantees"
PAGES = signed_pages(FOLDER)
LISTED = {thing.title: thing for thing in things()}
AUDITED = {name: audited(page.page, LISTED.values()) for name, page in PAGES.items()}
NO_PROOF = {"breaks", "mutants", "planted", "nist-sp-800-226"}
MARKED = re.compile(r"<!-- (audits|proof):.*?<!-- end of \1 -->", re.DOTALL)
ASSUMED = re.compile(r"^\*Assumptions\.\* Each is a note of the guarantee\.\n\n((?:- .+\n)+)", re.MULTILINE)
WHY = "It holds because nothing was changed."


@pytest.mark.parametrize("page", PAGES.values(), ids=list(PAGES))
def test_functions_are_what_was_signed(page):
    assert page.why, f"{page.page.stem} is not signed: {COMMAND}"
    changed = page.changed
    assert not changed, f"{page.page.stem}: {', '.join(changed)} changed since {page.date}; when all is in, {COMMAND}"


def test_every_page_has_a_signature_and_names_its_code():
    assert {page.stem for page in FOLDER.glob("*.md")} == set(PAGES) | NO_PROOF
    for name, page in PAGES.items():
        assert len(page.functions) >= 10, name
        assert AUDITED[name] or page.tests, name
        assert all((FOLDER.parents[1] / test).exists() for test in page.tests), name
        files = {place_of(function)[0] for function in page.functions}
        for thing in AUDITED[name]:
            if thing.kind != "adapter":
                own = {place_of(f"{base.__module__}:x")[0] for base in registry.get(thing.kind, thing.name).__mro__}
                assert own & files, f"{name} names no function of {thing.title}"


def test_every_private_name_has_a_page_that_speaks_of_it():
    for name, page in PAGES.items():
        prose = MARKED.sub("", page.page.read_text())
        for thing in AUDITED[name]:
            assert f"`{thing.name}`" in prose, f"{page.page.stem} does not speak of {thing.title}"


def assumptions(text: str):
    """(titles, changed keys, note) of every assumption of a page; no titles: all things of the page."""
    for listed in ASSUMED.findall(text):
        for line in listed.splitlines():
            marks, note = re.match(r"- ((?:`[^`]+`(?:, |: ))*)(.+)", line).groups()
            words = re.findall(r"`([^`]+)`", marks)
            yield [word for word in words if "=" not in word], [word for word in words if "=" in word], note


@pytest.mark.parametrize("page", PAGES.values(), ids=list(PAGES))
def test_every_assumption_is_a_note_of_the_guarantee(page, tmp_path):
    found = list(assumptions(page.page.read_text()))
    assert found, f"{page.page.stem} says of no assumption whose note it is"
    for titles, changes, note in found:
        changed = tomllib.loads("\n".join(changes))
        for title in titles or [thing.title for thing in AUDITED[page.page.stem]]:
            assert note in promise_of(title, changed, tmp_path).notes, f"{title}: {note}"


def announced(folder):
    """What `fairveil release --person` says beside its output."""
    folder.mkdir()
    (folder / "in.csv").write_text("ts,id\n2024-01-01T00:10,ann\n2024-01-01T01:00,\n")
    rows = f"--in {folder}/in.csv --out {folder}/out.csv --person id --time ts --start 2024-01-01 --horizon 4"
    keys = f"release {rows} --epsilon 1 --delta 1e-6 --watermark --simulate".split()
    assert CliRunner().invoke(app, keys, catch_exceptions=False).exit_code == 0
    return SimpleNamespace(**json.loads((folder / "out.csv.guarantee.json").read_text()))


def promise_of(title, changed, folder):
    """The guarantee of a thing with some keys changed; of a driver that of what it drives, as people see it."""
    if title == "adapter:loop":
        reward = Reward(**{"wait": "1h", "missing": "default"} | changed.get("reward", {}))
        with Store.open(f"sqlite:///{folder}/{uuid4().hex}.db", clock=ManualClock()) as store:
            store.create("trial", policy=describe(POLICY), reward=reward, person=Person(**changed.get("person", {})))
            return store.loop("trial").facts.guarantee
    if title == "adapter:node":
        return ALGORITHM.complete(SETTING).guarantee(SETTING)
    if title == "adapter:feed":
        return announced(folder / uuid4().hex)
    driven = {
        "adapter:drive": POLICY,
        "adapter:journal": registry.build("releaser", PLAIN, "releaser"),
        "adapter:agent": agent.POLICY,
        "adapter:evaluate": evaluate.VALUE,
        "adapter:estimator": estimator.estimator().learner(),
    }
    if title in driven:
        return driven[title].guarantee()
    table = {key: value for key, value in LISTED[title].target if key not in ("kind", "pair")}
    return registry.build(LISTED[title].kind, table | changed, LISTED[title].name).guarantee()


TEXT = '''
@cache
def noisy(rows: list[int], *, scale: float = 2.0**-20, word="a") -> str:
    """Words that do not count."""
    if (found := max(rows, default=None)) is not None and not found:
        return f"{found!r:>{len(rows)}} of {scale:g}" "and more"
    match rows:
        case [first, *_]:
            return lambda x, /, y=None: (x, *rows, {**{}}, first, b"1", 1j, True)
    return ...
'''


def test_a_digest_is_of_the_tree_and_the_same_in_every_python():
    told = "5b3c5660c744"
    assert digest_of(ast.parse(TEXT)) == told
    assert digest_of(ast.parse(TEXT.replace("Words that do not count.", "Others."))) == told
    assert digest_of(ast.parse(TEXT.replace('"and more"', '"and " "more"'))) == told
    for old, new in (("-20", "-19"), ("max", "min"), ("not found", "found"), ("default=None", "default=0"), ("!r", "")):
        assert digest_of(ast.parse(TEXT.replace(old, new, 1))) != told, old


def test_what_changed_is_shown_from_the_history_or_said():
    name = "fairveil.privacy.conversions:gdp_mu"
    assert difference(name, "") == "new on this page"
    assert "does not have the version" in difference(name, "0" * 12)
    assert difference("fairveil.privacy.conversions:gone", "0" * 12) == "gone"
    assert digest("fairveil.privacy.conversions:gone") == digest("fairveil.nowhere:gone") == ""


def page_of(folder: Path, *, audits: str = "mechanism:randomized-response", tests: str = "") -> Path:
    page = folder / "one.md"
    rows = "| `fairveil.privacy.mechanisms.randomized_response:RandomizedResponse.weights` | `-` |\n"
    page.write_text(f"<!-- audits: {audits} -->\n<!-- end of audits -->\n{BEGIN}{tests} -->\n{rows}{END}\nAfter.\n")
    return page


def sign(folder: Path, *more: str):
    return CliRunner().invoke(app, ["audit", "--sign", "all", "--pages", str(folder), "--workers", "1", *more])


def test_signing_runs_audits_and_writes_the_page(tmp_path):
    page = page_of(tmp_path)
    assert "new on this page" in (done := sign(tmp_path, "--why", WHY)).output, done.output
    assert done.exit_code == 0
    signed = read(page)
    assert signed.why == WHY
    assert signed.changed == []
    assert page.read_text().endswith("After.\n")
    assert "every page is signed" in sign(tmp_path, "--why", WHY).output
    stale = next(iter(signed.functions.values()))
    page.write_text(page.read_text().replace(stale, "0" * 12))
    assert read(page).changed == list(signed.functions)


def test_a_page_is_not_signed_without_a_reason_or_when_something_fails(tmp_path):
    failing = tmp_path / "test_it.py"
    failing.write_text("def test_it():\n    assert not 'broken'\n")
    page = page_of(tmp_path, audits="", tests=f" {failing}")
    before = page.read_text()
    assert "why the proof still holds" in str(sign(tmp_path).exception)
    refused = sign(tmp_path, "--why", WHY)
    assert "not signed" in refused.output
    assert refused.exit_code != 0
    assert page.read_text() == before


def test_a_page_whose_audit_fails_is_not_signed(tmp_path, monkeypatch):
    from fairveil.privacy.mechanisms import RandomizedResponse

    monkeypatch.setattr(RandomizedResponse, "weights", (2**60, 2**50))
    page = page_of(tmp_path)
    refused = sign(tmp_path, "--why", WHY)
    assert "not signed" in refused.output, refused.output
    assert read(page).why == ""
