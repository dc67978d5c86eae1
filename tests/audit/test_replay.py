"""Record and replay: the price of a change is exact, and what shows beside the noise is named."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import numpy as np
import pytest
from typer.testing import CliRunner

from fairveil.cli import app
from fairveil.ledger import Ledger, Limit, OneEvent, release_once
from fairveil.privacy.events import PureEvent
from fairveil.proof.adapters.replayed_stream import HOURS, MU, between
from fairveil.proof.engine.replay import Compared, compare, frozen
from fairveil.streams.serving.people import READABLE, WATERMARKS

LIMIT = Limit.pure(10.0)


def served(draw, say=lambda world, value: value):
    def path(folder, world):
        with Ledger.create(folder / "ledger.db", limit=LIMIT) as ledger:
            found = release_once(OneEvent(ledger, PureEvent(1.0)), "n", lambda noise: draw(world, noise))
            return {"answer": say(world, found.value)}

    return path


def test_a_price_is_that_of_the_draws():
    found = compare(served(lambda world, noise: 3 * world + noise.laplace(4.0, 2)))
    assert found == Compared(1.5, 0.0, ())
    found = compare(served(lambda world, noise: np.array([world, 2 * world]) + noise.gaussian(4.0, 2)))
    assert (found.epsilon, found.differs) == (0.0, ())
    assert found.mu == pytest.approx(np.sqrt(5) / 4)
    assert found.within(mu=0.56)
    assert not found.within(mu=0.55)


def test_one_draw_for_two_numbers_hides_what_moves_both():
    found = compare(served(lambda world, noise: int(noise.laplace(4.0)[0]) + np.array([world, world])))
    assert found == Compared(0.25, 0.0, ())
    apart = compare(served(lambda world, noise: int(noise.laplace(4.0)[0]) + np.array([world, -world])))
    assert "no draw reaches" in apart.differs[0]


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (lambda world, noise: {"n": int(noise.laplace(4.0)[0]), "raw": world}, "no draw reaches"),
        (lambda world, noise: {"n": int(noise.laplace(4.0)[0]), "who": "ab"[world]}, "beside its numbers"),
        (lambda world, noise: int(noise.laplace(4.0 + world)[0]), "the noise that is drawn"),
        (lambda world, noise: world, "no draw reaches"),
    ],
)
def test_what_shows_beside_the_noise_is_named(draw, words):
    found = compare(served(draw))
    assert found.epsilon == np.inf
    assert words in found.differs[0]


def test_everything_else_that_is_said_is_compared():
    path = served(lambda world, noise: world + int(noise.laplace(4.0)[0]), lambda world, value: (value, world))
    assert compare(path) == Compared(0.25, 0.0, ("answer",))
    assert frozen(path).differs == ("answer",)


def a_person(rng):
    """Rows of one person at any time, in the stream and outside, as often as anybody likes."""
    start = datetime(2024, 1, 1)
    minutes = rng.integers(-120, 60 * (HOURS + 2), rng.integers(0, 12)).tolist()
    return [((start + timedelta(minutes=minute)).isoformat(), "p") for minute in minutes]


def stream_inputs(count, first):
    for seed in range(first, first + count):
        rng = np.random.default_rng(seed)
        times = rng.integers(0, HOURS, 20)
        others = [(f"2024-01-01T{hour:02}:{rng.integers(60):02}", f"q{rng.integers(6)}") for hour in times]
        worlds = []
        for _ in range(2):
            rows = others + a_person(rng)
            worlds.append([rows[place] for place in rng.permutation(len(rows))])
        yield worlds


@pytest.mark.parametrize(("count", "first"), [(5, 0), (200, 5)])
def test_any_rows_of_one_person_in_any_order_cost_what_was_charged_and_show_nowhere(count, first):
    """A row of a later step closed every step before it: one time stamp moved 22 of 24 counts by 200."""
    dearest = 0.0
    for one, other in stream_inputs(count, first):
        found = between(one, other)
        assert found.within(mu=MU), (one, other, found)
        dearest = max(dearest, found.mu)
    assert dearest > 0.5 * MU


def test_what_is_public_of_peoples_rows_is_a_note(tmp_path):
    (tmp_path / "in.csv").write_text("ts,id\n2024-01-01T00:10,ann\n2024-01-01T01:00,\n")
    keys = [
        "--in",
        str(tmp_path / "in.csv"),
        "--person",
        "id",
        "--time",
        "ts",
        "--start",
        "2024-01-01",
        "--horizon",
        "4",
    ]
    keys += ["--epsilon", "1", "--delta", "1e-6", "--watermark", "--simulate", "--out", str(tmp_path / "out.csv")]
    assert CliRunner().invoke(app, ["release", *keys], catch_exceptions=False).exit_code == 0
    notes = json.loads((tmp_path / "out.csv.guarantee.json").read_text())["notes"]
    assert {READABLE, WATERMARKS} <= set(notes)
