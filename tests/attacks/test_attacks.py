"""Attacks beat the twin without protection and are at chance level against the code that serves people."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fairveil import registry
from fairveil.cli import app
from fairveil.errors import AuditViolation, SpecError
from fairveil.proof.attacks import Attack, Result, Wins, guess_chance

#: Games that decide each side with a margin of several standard errors, in a few seconds.
GAMES = {
    "low-bits": 400,
    "retries": 40,
    "rollback": 24,
    "reconstruction": 6,
    "membership": 40,
    "deletion": 3,
    "copied-counter": 6,
    "erased-subject": 3,
    "restored-store": 2,
}


@pytest.mark.parametrize("name", registry.names("attack"))
def test_attack_works_on_the_bare_twin_and_fails_on_ours(name):
    attack = registry.get("attack", name)()
    result = attack.run(seed=3, games=GAMES.get(name, 60))
    assert result.bare.rate > result.chance + 0.04
    assert result.held
    assert result.words
    assert result.game


def test_every_attack_is_on_the_page_of_pitfalls():
    page = (Path(__file__).parents[2] / "docs" / "pitfalls.md").read_text()
    assert [name for name in registry.names("attack") if f"`fairveil attack {name}`" not in page] == []


def test_intervals_and_chance():
    assert Wins(0, 100).interval[0] == 0.0
    assert Wins(50, 100).interval == pytest.approx((0.4038, 0.5962), abs=1e-3)
    assert guess_chance(0.0) == 0.5


def test_a_break_is_called_one_only_when_chance_cannot_explain_it():
    """45 of 60 wins at chance .62 is luck that one run in 40 has; 59 of 60 is not, nor is a win where none may be."""

    def held(wins, chance):
        return Result("a", "g", Wins(60, 60), Wins(wins, 60), chance, "w").held

    assert held(45, guess_chance(0.5))
    assert not held(59, guess_chance(0.5))
    assert held(0, 0.0)
    assert not held(1, 0.0)


def test_the_command_prints_a_table_writes_a_page_and_refuses_unknown_names(tmp_path):
    shown = CliRunner().invoke(app, ["attack", "low-bits", "--games", "200", "--out", str(tmp_path / "page.html")])
    assert shown.exit_code == 0
    assert "low-bits" in shown.output
    assert "held" in shown.output
    assert "chance" in (tmp_path / "page.html").read_text()
    as_json = CliRunner().invoke(app, ["attack", "low-bits", "--games", "50", "--json"])
    assert json.loads(as_json.stdout)[0]["held"] is True
    with pytest.raises(SpecError, match="no such attack"):
        CliRunner().invoke(app, ["attack", "lowbits"], catch_exceptions=False)


def test_an_attack_that_wins_ends_with_exit_code_six():
    class Wins_(Attack):
        name, game, words = "always", "win", "it does not fail"
        chance = 0.0

        def play(self, protected, rng):
            return True

    with registry.isolated():
        registry.register("attack", "always")(Wins_)
        with pytest.raises(AuditViolation, match="chance"):
            CliRunner().invoke(app, ["attack", "always", "--games", "20"], catch_exceptions=False)
