"""What a data set is: columns with public bounds, the small container of its rows, and who makes one.

A `Source` has files, a home, a licence and ``load``; a `Synthesis` has ``generate``.
Bounds and category lists come from a data set's documentation, never from the rows: a private algorithm may clip, scale
and encode with them without spending anything.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from fairveil.arrays import Floats
from fairveil.data.files import DataFile, pandas
from fairveil.data.frames import filled
from fairveil.data.public_columns import check_missing
from fairveil.errors import NOT_REPEATED, InputError, SpecError, at
from fairveil.randomness import Generator, generator
from fairveil.registry import build, entries, get, kind_of

Kind = Literal["continuous", "category", "text"]
Scale = Literal["linear", "log"]
MAX_BINS = 1000
NOTHING_DECLARED = "drop those rows, extend the schema, or declare what a missing value counts as: missing=..."


@dataclass(frozen=True)
class Column:
    """One column: a number in [low, high], one of the listed categories, or text that no algorithm reads.

    ``scale="log"`` puts public bins at equal distances of log1p(value - low), for columns with a long tail.
    ``missing``: what a missing value counts as, a number of the range or one of the categories; None: it is refused.

    >>> Column("age", "continuous", low=17, high=90).width
    1
    """

    name: str
    kind: Kind
    low: float = 0.0
    high: float = 1.0
    categories: tuple[Any, ...] = ()
    about: str = ""
    scale: Scale = "linear"
    missing: Any = None

    @classmethod
    def codes(cls, name: str, first: int, last: int, about: str = "") -> Column:
        """A category of whole numbers, the last one included."""
        return cls(name, "category", categories=tuple(range(first, last + 1)), about=about)

    def __post_init__(self) -> None:
        if self.kind == "continuous" and not -math.inf < self.low < self.high < math.inf:
            raise SpecError(
                "a continuous column needs finite bounds, the lower one first",
                path=self.name, given=f"{self.low:g} to {self.high:g}", allowed="low < high",
            )  # fmt: skip
        if self.kind == "category" and len(set(self.categories)) != len(self.categories):
            raise SpecError("the categories of a column repeat themselves", path=self.name)
        if self.scale not in ("linear", "log"):
            raise SpecError("the scale is not known", path=self.name, given=self.scale, allowed="linear, log")
        try:
            check_missing(self.missing, (self.low, self.high), self.categories if self.kind == "category" else None)
        except SpecError as problem:
            raise at(problem, self.name) from None

    def filled(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values with what is declared in the place of missing ones."""
        return values if self.missing is None else filled(np.asarray(values), self.missing)

    @property
    def width(self) -> int:
        """How many encoded columns it becomes."""
        return {"continuous": 1, "category": len(self.categories), "text": 0}[self.kind]

    def encode(self, values: NDArray[Any], signed: bool, bins: int = 0) -> Floats:
        """Numbers clipped and scaled to [0, 1] (or [-1, 1]); categories one-hot in the order of the public list.

        With ``bins`` numbers become one-hot, too: that many bins of equal width on the column's scale, from ``low`` to
        ``high``. No edge is ever read from the values.
        """
        if self.kind == "continuous":
            try:
                numbers = np.asarray(self.filled(values), np.float64)
            except (ValueError, TypeError):  # whose words repeat the cell
                raise InputError(
                    "a column has a cell that is not a number",
                    path=self.name,
                    allowed="numbers",
                    fix=NOTHING_DECLARED,
                ) from None
            if np.isnan(numbers).any():
                raise InputError("a column has missing values", path=self.name, fix=NOTHING_DECLARED)
            above, reach = np.clip(numbers, self.low, self.high) - self.low, self.high - self.low
            if bins > 0:
                place = np.log1p(above) / math.log1p(reach) if self.scale == "log" else above / reach
                cell = np.minimum((place * bins).astype(np.int64), bins - 1)
                return (cell[:, None] == np.arange(bins)).astype(np.float64)
            unit = above / reach
            return (2 * unit - 1 if signed else unit)[:, None]
        if self.kind == "text":
            raise InputError("a text column cannot be encoded", path=self.name, fix="leave it out")
        values = np.asarray(self.filled(values))
        found = np.stack([values == category for category in self.categories], axis=1)
        if not found.any(axis=1).all():
            raise InputError(
                f"a column has a value that is missing or not among its public categories ({NOT_REPEATED})",
                path=self.name,
                allowed=", ".join(map(str, self.categories)),
                fix=NOTHING_DECLARED,
            )
        return found.astype(np.float64)

    def encoded_names(self, bins: int = 0) -> list[str]:
        """Names of the encoded columns: the column itself, its categories, or its bins with their public limits.

        >>> Column("age", "continuous", low=0, high=4).encoded_names(bins=2)
        ['age in [0, 2)', 'age in [2, 4]']
        """
        if self.kind != "continuous":
            return [f"{self.name}={category}" for category in self.categories]
        if bins == 0:
            return [self.name]
        parts, reach = np.arange(bins + 1) / bins, self.high - self.low
        edges = self.low + (np.expm1(parts * math.log1p(reach)) if self.scale == "log" else parts * reach)
        ends = [")"] * (bins - 1) + ["]"]
        return [f"{self.name} in [{a:.6g}, {b:.6g}{end}" for a, b, end in zip(edges, edges[1:], ends, strict=False)]


@dataclass(frozen=True)
class Encoded:
    """A matrix with the public facts about its columns. ``norm_bound`` bounds the l2 norm of every possible row."""

    matrix: Floats = field(repr=False)
    names: tuple[str, ...]
    kinds: tuple[Literal["continuous", "one-hot"], ...]
    low: Floats
    high: Floats
    norm_bound: float


@dataclass(frozen=True)
class Dataset:
    """Rows as named numpy columns beside their public schema. Its repr shows the schema, never a row.

    >>> sample = Dataset("tiny", {"x": np.array([1.0, 3.0])}, (Column("x", "continuous", low=0, high=4),))
    >>> sample.encode(["x"]).matrix.tolist()
    [[0.25], [0.75]]
    """

    name: str
    columns: Mapping[str, NDArray[Any]] = field(repr=False)
    schema: tuple[Column, ...]
    target: str = ""
    sensitive: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        missing = [column.name for column in self.schema if column.name not in self.columns]
        lengths = {len(values) for values in self.columns.values()}
        if missing or len(lengths) != 1:
            raise InputError("columns and schema do not fit together", path=self.name, given=missing or sorted(lengths))
        declared = {c.name: c.filled(self.columns[c.name]) for c in self.schema if c.missing is not None}
        if declared:
            object.__setattr__(self, "columns", {**self.columns, **declared})

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self.columns:
            raise SpecError("there is no such column", path=name, given=name, allowed=", ".join(self.columns))
        return self.columns[name]

    def column(self, name: str) -> Column:
        """The public facts about one column."""
        for column in self.schema:
            if column.name == name:
                return column
        raise SpecError(
            "there is no such column", path=name, given=name, allowed=", ".join(c.name for c in self.schema)
        )

    @property
    def features(self) -> tuple[str, ...]:
        """Every column that can be encoded, without the target."""
        return tuple(c.name for c in self.schema if c.kind != "text" and c.name != self.target)

    def take(self, rows: NDArray[Any] | Sequence[int] | slice) -> Dataset:
        """The same data set with only these rows (indices, a mask or a slice)."""
        kept = {name: values[rows] for name, values in self.columns.items()}
        return Dataset(self.name, kept, self.schema, self.target, self.sensitive, self.facts)

    def encode(self, columns: Iterable[str] | None = None, *, signed: bool = False, bins: int = 0) -> Encoded:
        """Columns side by side by their public bounds: numbers in [0, 1] (``signed``: [-1, 1]), categories one-hot.

        ``bins`` above 0: numbers are one-hot over that many public bins, see `Column.encode`. Either way a row's norm
        is at most the square root of the number of columns.
        """
        chosen = [self.column(name) for name in (self.features if columns is None else columns)]
        if not chosen:
            raise SpecError("no column was chosen", path="columns", allowed=", ".join(self.features))
        return encode(chosen, {column.name: self[column.name] for column in chosen}, signed=signed, bins=bins)

    def frame(self) -> Any:
        """The rows as a pandas DataFrame."""
        return pandas().DataFrame(dict(self.columns))


def encode(
    chosen: Sequence[Column], values: Mapping[str, NDArray[Any]], *, signed: bool = False, bins: int = 0
) -> Encoded:
    """These columns side by side, in this order; what `Dataset.encode` and `PublicEncoder` share."""
    if isinstance(bins, bool) or not isinstance(bins, int) or not 0 <= bins <= MAX_BINS:
        raise SpecError("bins are counted", path="bins", given=bins, allowed=f"a whole number from 0 to {MAX_BINS}")
    blocks = [column.encode(values[column.name], signed, bins) for column in chosen]
    names = [name for column in chosen for name in column.encoded_names(bins)]
    kinds: list[Literal["continuous", "one-hot"]] = []
    for column, block in zip(chosen, blocks, strict=True):
        kinds += ["continuous"] if column.kind == "continuous" and bins == 0 else ["one-hot"] * block.shape[1]
    low = np.array([-1.0 if signed and kind == "continuous" else 0.0 for kind in kinds])
    matrix = np.ascontiguousarray(np.concatenate(blocks, axis=1))
    return Encoded(matrix, tuple(names), tuple(kinds), low, np.ones(len(kinds)), math.sqrt(len(chosen)))


class Source(ABC):
    """Public configuration of one data set: subclasses set the facts, add options, and implement `load`."""

    name: str = ""
    title: ClassVar[str] = ""
    home: ClassVar[str] = ""
    licence: ClassVar[str] = ""
    citation: ClassVar[str] = ""
    files: ClassVar[tuple[DataFile, ...]] = ()

    @abstractmethod
    def load(self) -> Dataset:
        """Read (or first fetch) the files and return checked rows."""

    @classmethod
    def facts(cls) -> dict[str, str]:
        """Where the rows come from: attached to what `load` returns."""
        return {"title": cls.title, "home": cls.home, "licence": cls.licence, "citation": cls.citation}


class Synthesis(ABC):
    """Public configuration of generated data: no file, no person, repeatable from a seed."""

    name: str = ""

    @abstractmethod
    def generate(self, rng: Generator) -> Dataset:
        raise NotImplementedError


def load(name: str, *, seed: int | None = None, **options: Any) -> Dataset:
    """Load a data set by its registered name, or draw one from a generator when ``seed`` is given.

    >>> len(load("synthetic-adult", seed=1, rows=100))
    100
    """
    if kind_of(name, "name", "dataset", "generator") == "generator":
        if seed is None:
            raise SpecError("a generator needs a seed", path="seed", fix=f"load({name!r}, seed=0)")
        made: Synthesis = build("generator", {"name": name, **options}, name)
        return made.generate(generator(seed, "data", name))
    if seed is not None:
        raise SpecError("a data set has no seed", path="seed", given=seed, fix="leave it out")
    source: Source = build("dataset", {"name": name, **options}, name)
    return source.load()


def sources() -> dict[str, type[Source]]:
    """Every registered data set by name."""
    return {entry.name: entry.target for entry in entries("dataset")}


def fetch(name: str, progress: bool | None = None) -> list[str]:
    """Make sure every file of a data set is there; returns their places."""
    return [str(file.fetch(progress)) for file in get("dataset", name, "dataset").files]


def verify(name: str) -> dict[str, str]:
    """``ok``, ``damaged`` or ``missing`` for every file of a data set; downloads nothing."""
    return {file.path: file.state() for file in get("dataset", name, "dataset").files}


def available(name: str) -> bool:
    """Whether every file of a data set is there and undamaged."""
    return all(state == "ok" for state in verify(name).values())
