"""Record and replay: a whole served path on two neighbouring inputs, with what it publishes frozen at the noise.

A *path* is a function ``(folder, world) -> what it says``: it serves one of two neighbouring inputs through the methods
that serve people, and gives everything that anybody can read of it by channel (answers, errors, logs, files, ...). The
first world is recorded: every block that passes `fairveil.ledger.draws`, the level of every draw in it, and what each
draw does to the published numbers (each is moved by itself). Then the second world is played with the recorded draws,
moved so that the same numbers are published. What the draws had to be moved by is what the change of the input is to
the noise: epsilon = sum |move|/scale with Laplace draws, mu = |move/sigma| with Gaussian ones, exactly. Where no move
of the draws gives the same numbers the input shows beside the noise, and the cost is infinite; and since all that is
published is the same in both worlds, everything that is said must be the same, byte for byte.

The idea is that of Re:cord-play (2026): neighbouring runs with the mechanisms' outputs held fixed.

>>> from fairveil.ledger import Limit, Ledger, OneEvent, release_once
>>> from fairveil.privacy.events import PureEvent
>>> def served(folder, world):
...     with Ledger.create(folder / "ledger.db", limit=Limit.pure(1.0)) as ledger:
...         count = 7 + world
...         once = release_once(OneEvent(ledger, PureEvent(0.5)), "n", lambda noise: count + int(noise.laplace(2.0)[0]))
...         return {"answer": once.value}
>>> compare(served)
Compared(epsilon=0.5, mu=0.0, differs=())
"""

from __future__ import annotations

import json
import math
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import qr

from fairveil.arrays import Floats, Ints
from fairveil.ledger.draws import Draws
from fairveil.privacy.noise import Noise, SeededNoise
from fairveil.proof.mutants import Method, method, twin

Said = Mapping[str, Any]
ServedPath = Callable[[Path, int], Said]
"""``path(folder, world)``: serve this world in an empty folder; what is said, by channel."""
RANDOM = re.compile(r"[0-9a-f]{32}")
"""A name that is drawn at random, in a block's id."""
CHANCE = re.compile(r"20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:.]+(?:Z|[+]00:00)?|\b[0-9a-f]{16,64}\b")
"""Times of the wall clock, ids that are drawn at random, and keyed digests, which say nothing without the key."""
MOVE = 2**20
EXACT = 1e-6
"""Relative error up to which moved draws give the difference of two worlds."""


def without_chance(said: Any) -> str:
    """What is said as text, without what differs between any two runs of one world."""
    return CHANCE.sub("*", said if isinstance(said, str) else json.dumps(said, sort_keys=True, default=str))


class Tape(Noise):
    """The draws of one block: seeded by its place, moved by ``moves``; remembers the level of each."""

    __slots__ = ("inner", "levels", "moves")

    def __init__(self, place: int, moves: Mapping[int, int]) -> None:
        self.inner, self.moves = SeededNoise(7, place), moves
        self.levels: list[tuple[str, float]] = []

    def _moved(self, drawn: Ints, law: str, level: float) -> Ints:
        first = len(self.levels)
        self.levels += [(law, float(level))] * len(drawn)
        return drawn + np.array([self.moves.get(first + place, 0) for place in range(len(drawn))], np.int64)

    def laplace(self, scale: float, size: int = 1) -> Ints:
        return self._moved(self.inner.laplace(scale, size), "laplace", scale)

    def gaussian(self, sigma: float, size: int = 1) -> Ints:
        return self._moved(self.inner.gaussian(sigma, size), "gaussian", sigma)

    def uniform_integers(self, high: int, size: int = 1) -> Ints:
        return self.inner.uniform_integers(high, size)


@dataclass
class TapedBlock:
    """What one block published: its numbers, what else is in it, and the levels of its draws."""

    name: str
    value: Any
    numbers: Floats
    facts: tuple[Any, ...]
    levels: list[tuple[str, float]]


@dataclass
class ReplayedRun:
    """One run of a path."""

    said: Said
    blocks: list[TapedBlock] = field(default_factory=list)


@dataclass(frozen=True)
class Compared:
    """What a change of the input costs at the noise, and where else it shows."""

    epsilon: float
    mu: float
    differs: tuple[str, ...]

    def within(self, *, epsilon: float = 0.0, mu: float = 0.0, slack: float = 1e-4) -> bool:
        """Whether nothing differs beside the noise and the noise hides the rest at this price."""
        return not self.differs and self.epsilon <= epsilon * (1 + slack) and self.mu <= mu * (1 + slack)


def leaves(value: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    """Everything in a published value, by where it stands."""
    if isinstance(value, Mapping):
        for key in sorted(value):
            yield from leaves(value[key], f"{at}.{key}")
    elif isinstance(value, np.ndarray | list | tuple):
        for place, item in enumerate(np.asarray(value).ravel().tolist() if isinstance(value, np.ndarray) else value):
            yield from leaves(item, f"{at}[{place}]")
    else:
        yield at, value


class Stopped(BaseException):
    """Nothing behind this block is wanted."""


def play(
    path: ServedPath,
    world: int,
    moves: Mapping[int, Mapping[int, int]],
    frozen: Sequence[TapedBlock] | None = None,
    last: int | None = None,
) -> ReplayedRun:
    """Serve one world with the draws of the tape, up to block ``last``.

    ``frozen``: these values are published whatever was drawn.
    """
    blocks: list[TapedBlock] = []

    @twin
    def release(original: Method, self: Draws, names: Sequence[str], draw: Any, noise: Any, payment: Any) -> Any:
        def taped(source: Noise, earlier: Any) -> Any:
            place = len(blocks)
            tape = Tape(place, moves.get(place, {}))
            value = draw(tape, earlier)
            name = RANDOM.sub("*", names[len(earlier)])
            found = list(leaves(value))
            told = [isinstance(item, int | float) and not isinstance(item, bool) for _, item in found]
            numbers = np.array([item for (_, item), is_number in zip(found, told) if is_number], np.float64)
            facts = tuple((at, "" if is_number else without_chance(item)) for (at, item), is_number in zip(found, told))
            blocks.append(TapedBlock(name, value, numbers, facts, tape.levels))
            if place == last:
                raise Stopped
            return value if frozen is None or place >= len(frozen) else frozen[place].value

        return original(self, names, taped, noise, payment)

    said: Said = {}
    with tempfile.TemporaryDirectory() as folder, method(Draws, "release", release), suppress(Stopped):
        said = path(Path(folder), world)
    return ReplayedRun(said, blocks)


def effect_of(path: ServedPath, recorded: ReplayedRun, world: int, at: int) -> Floats:
    """What a move of each draw of a block does to its numbers, one column a draw."""
    block = recorded.blocks[at]
    moved = [play(path, world, {at: {place: MOVE}}, last=at).blocks[at] for place in range(len(block.levels))]
    return np.stack([one.numbers - block.numbers for one in moved], axis=1) / MOVE if moved else np.zeros((0, 0))


def compare(path: ServedPath, worlds: tuple[int, int] = (0, 1)) -> Compared:
    """Record the first world, couple the second one to it, and price the difference."""
    recorded = play(path, worlds[0], {})
    moves: dict[int, dict[int, int]] = {}
    price = [0.0, 0.0]
    for _ in range(len(recorded.blocks) + 1):
        other = play(path, worlds[1], moves)
        problem = _unlike(recorded, other)
        if problem is not None:
            return Compared(math.inf, math.inf, (problem,))
        pairs = zip(recorded.blocks, other.blocks, strict=True)
        apart = [at for at, (one, two) in enumerate(pairs) if not _same(one, two)]
        if not apart:
            return Compared(price[0], math.sqrt(price[1]), _differences(recorded, other))
        at = apart[0]
        if at in moves:  # moved, and still not the same numbers
            break
        block, effect = recorded.blocks[at], effect_of(path, recorded, worlds[0], at)
        needed = block.numbers - other.blocks[at].numbers
        found = _whole_moves(effect, needed)
        if found is None:
            break
        moves[at] = {place: int(move) for place, move in enumerate(found.tolist()) if move}
        epsilon, square = _price(effect, needed, found, block.levels)
        price = [price[0] + epsilon, price[1] + square]
    where = RANDOM.sub("*", recorded.blocks[apart[0]].name)
    return Compared(math.inf, math.inf, (f"{where}: the input shows where no draw reaches",))


def _whole_moves(effect: Floats, needed: Floats) -> Floats | None:
    """Whole numbers by which as few draws as can be are moved; None where no draw reaches."""
    if effect.size == 0:
        return None
    order = qr(effect, mode="r", pivoting=True)
    rank = int((np.abs(np.diag(order[0])) > EXACT * np.abs(order[0]).max()).sum())
    found, used = np.zeros(effect.shape[1]), order[1][:rank]
    found[used] = np.rint(np.linalg.lstsq(effect[:, used], needed, rcond=None)[0])
    missed = np.linalg.norm(effect @ found - needed)
    return found if missed <= EXACT * np.linalg.norm(needed) else None


def _price(effect: Floats, needed: Floats, found: Floats, levels: Sequence[tuple[str, float]]) -> tuple[float, float]:
    """Epsilon of the Laplace draws and mu^2 of the Gaussian ones; of these the least over all ways to move them."""
    scales, laplace = np.array([level for _, level in levels]), np.array([law == "laplace" for law, _ in levels])
    epsilon = float(np.abs(found / scales)[laplace].sum())
    left = needed - effect[:, laplace] @ found[laplace]
    least = np.linalg.lstsq(effect[:, ~laplace] * scales[~laplace], left, rcond=1e-9)[0]
    return epsilon, float(np.square(least).sum())


def frozen(path: ServedPath, worlds: tuple[int, int] = (0, 1)) -> Compared:
    """The same where published numbers are not linear in the draws: they are handed out as recorded, at no price."""
    recorded = play(path, worlds[0], {})
    other = play(path, worlds[1], {}, recorded.blocks)
    problem = _unlike(recorded, other)
    return Compared(0.0, 0.0, (problem,) if problem is not None else _differences(recorded, other))


def _same(one: TapedBlock, two: TapedBlock) -> bool:
    return np.array_equal(one.numbers, two.numbers)


def _unlike(recorded: ReplayedRun, other: ReplayedRun) -> str | None:
    """What shows in which blocks there are, and with which noise."""
    if [one.name for one in recorded.blocks] != [two.name for two in other.blocks]:
        return "which blocks are released"
    for one, two in zip(recorded.blocks, other.blocks, strict=True):
        if one.levels != two.levels:
            return f"{one.name}: the noise that is drawn"
        if one.facts != two.facts:
            return f"{one.name}: what is stored beside its numbers"
    return None


def _differences(recorded: ReplayedRun, other: ReplayedRun) -> tuple[str, ...]:
    names = sorted({*recorded.said, *other.said})
    told = [{name: repr(list(leaves(one.said.get(name)))) for name in names} for one in (recorded, other)]
    return tuple(name for name in names if told[0][name] != told[1][name])
