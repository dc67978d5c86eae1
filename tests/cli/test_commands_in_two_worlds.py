"""Two worlds, byte for byte, on the command line: one person has other rows, at other times and in another order.

With equal published numbers everything that a command says is the same: its output, its words, its errors, the promise
beside it and what `ledger show` and `ledger verify` say. The break that began it: one time stamp closed the steps of
everybody.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import numpy as np
import pytest
from typer.testing import CliRunner

from fairveil.cli import app
from fairveil.proof.engine.replay import play, without_chance
from fairveil.proof.mutants import method
from fairveil.streams.serving.feed import Feed

HOURS, START = 6, datetime(2024, 1, 1)
GENESIS = re.compile(r"genesis\W+(?:u2502 )?[0-9a-f]{12}")
"""The name of a ledger, which is drawn at random."""


def some_rows(rng, who, count):
    """Rows at any time, before the stream and after it too."""
    minutes = rng.integers(-90, 60 * (HOURS + 2), count).tolist()
    return [((START + timedelta(minutes=minute)).isoformat(), who) for minute in minutes]


def options(rng):
    """What a user may ask for."""
    keys = ["--epsilon", "1", "--delta", "1e-6", "--horizon", str(HOURS), "--step", "1h", "--start", START.isoformat()]
    keys += ["--releaser", ("private-kalman", "baseline-gaussian")[int(rng.integers(2))]]
    keys += ["--neighbours", ("replace", "add-remove")[int(rng.integers(2))], "--per-step", str(rng.integers(1, 3))]
    keys += [] if rng.random() < 0.5 else ["--participation", str(rng.integers(1, HOURS))]
    keys += [key for key in ("--json", "--plain", "--nonnegative", "--round") if rng.random() < 0.3]
    closing = rng.random()
    if closing < 0.3:
        keys += ["--until", (START + timedelta(hours=int(rng.integers(1, HOURS + 1)))).isoformat()]
    elif closing < 0.5:
        keys.append("--watermark")
    return keys


class Commands:
    """The commands of one seed, with the rows of both worlds."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.options, self.worlds = options(rng), []
        others = some_rows(rng, "q", 0) + [row for who in range(5) for row in some_rows(rng, f"q{who}", 4)]
        marks = [((START + timedelta(hours=hour)).isoformat(), "") for hour in (2, 4, HOURS + 1)]
        for _ in range(2):
            rows = others + some_rows(rng, "p", int(rng.integers(0, 12)))
            mixed = [rows[place] for place in rng.permutation(len(rows))]
            self.worlds.append(mixed + (marks if "--watermark" in self.options else []))

    def __call__(self, folder, world):
        (folder / "in.csv").write_text("ts,id\n" + "".join(f"{time},{who}\n" for time, who in self.worlds[world]))
        asked = ["release", "--in", "in.csv", "--person", "id", "--time", "ts", "--ledger", "n.db", "--out", "n.csv"]
        said = {}
        for turn, words in enumerate(
            ([*asked, *self.options], ["ledger", "show", "n.db"], ["ledger", "verify", "n.db"])
        ):
            with pytest.MonkeyPatch.context() as patch:
                patch.chdir(folder)
                done = CliRunner().invoke(app, words)
            said[f"{turn} {' '.join(words[:2])}"] = without_chance([done.exit_code, done.output, repr(done.exception)])
        for file in sorted(folder.glob("n.csv*")):
            said[file.name] = without_chance(file.read_text())
        return {name: GENESIS.sub("genesis", words) for name, words in said.items()}


def differences(path):
    """What differs when both worlds publish the same numbers: every draw is moved by what the rows differ."""
    recorded, other = play(path, 0, {}), play(path, 1, {})
    assert [one.levels for one in recorded.blocks] == [one.levels for one in other.blocks]
    moves, pairs = {}, list(zip(recorded.blocks, other.blocks, strict=True))
    for at, (one, two) in enumerate(pairs):
        first = len(one.levels) - len(one.numbers) // 2  # numbers and what became of each step; draws of steps are last
        apart = one.numbers - two.numbers
        moves[at] = {first + step: round(float(apart[step])) for step in np.flatnonzero(apart).tolist()}
    again = play(path, 1, moves)
    same = all(np.array_equal(one.numbers, two.numbers) for one, two in zip(recorded.blocks, again.blocks, strict=True))
    assert same, "no draw reaches what differs"
    return [name for name in {**recorded.said, **again.said} if recorded.said.get(name) != again.said.get(name)]


@pytest.mark.parametrize(("count", "first"), [(3, 0), (100, 3)])
def test_commands_say_the_same_in_two_worlds(count, first):
    differing = {seed: found for seed in range(first, first + count) if (found := differences(Commands(seed)))}
    assert differing == {}


def says_rows(original):
    def broken(self, picked):
        print("a row of", picked[0])
        return original(self, picked)

    return broken


def test_the_commands_release_and_the_harness_sees(tmp_path):
    said = Commands(1)(tmp_path, 0)
    assert said["0 release --in"].startswith("[0,")
    assert said["n.csv"].count("\n") > 1
    with method(Feed, "_person", says_rows):
        assert differences(Commands(1)) == ["0 release --in"]
