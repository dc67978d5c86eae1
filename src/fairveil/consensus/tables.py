"""From a data set with its public schema to the rows of every node.

Numbers are clipped to [0, high] and divided by the schema's high (a column that may be negative: to [low, high],
divided by the larger of both), categories are one-hot by their public list, rows are divided by their norm where it
exceeds 1. Nothing is computed from the data. ``encoding: log`` writes capital gain and loss of Adult as log(1 +
v)/log(1 + high).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairveil import registry
from fairveil.arrays import Floats, Ints
from fairveil.configuration import describe, field_names
from fairveil.consensus.rows import Rows
from fairveil.data.files import columns, read_csv
from fairveil.data.schema import NOTHING_DECLARED, Column, Dataset, load
from fairveil.errors import InputError, SpecError
from fairveil.randomness import Generator, generator

ENCODINGS = ("thesis", "log")
LOGARITHMIC = ("capital_gain", "capital_loss")
COLUMNS = {"acs": ("AGEP", "WKHP", "COW", "SCHL", "MAR", "RELP", "SEX", "RAC1P", "OCCP", "POBP")}
"""Features of data sets whose schema holds more than a classifier should see."""
TRAIN = {"adult": 40_000, "acs": 80_000}
OWN_KEYS = ("encoding", "train", "split")
"""Keys of the data table that belong to the task and never reach a loader."""


@dataclass(frozen=True)
class Encoding:
    """Encoded rows of a whole data set, its labels, and the columns that a split may use."""

    values: Floats
    columns: NDArray[np.int32]
    signs: Floats
    width: int
    groups: Mapping[str, NDArray[Any]]

    @property
    def nonzeros(self) -> int:
        """Most nonzero entries of a row, a fact of the schema: one an attribute."""
        return self.values.shape[1]

    def rows(self, chosen: Ints) -> Rows:
        return Rows.entries(self.values[chosen], self.columns[chosen], self.signs[chosen], self.width)


def encode(data: Dataset, encoding: str = "thesis", features: tuple[str, ...] = ()) -> Encoding:
    """Sparse rows by the public schema.

    >>> people = load("synthetic-adult", seed=0, rows=20)
    >>> made = encode(people)
    >>> made.width, made.nonzeros
    (11, 7)
    """
    if not data.target:
        raise SpecError("this data set has no label", path="data.name", given=data.name)
    label = data.column(data.target)
    if len(label.categories) != 2:
        raise SpecError("a consensus classifier needs two classes", path="data.name", given=data.name)
    names = features or COLUMNS.get(data.name, data.features)
    values, places, start = [], [], 0
    for name in names:
        entry, place, width = _column(data.column(name), data[name], encoding)
        values.append(entry)
        places.append(start + place)
        start += width
    signs = np.where(data[data.target] == label.categories[1], 1.0, -1.0)
    matrix = np.stack(values, axis=1)
    matrix /= np.maximum(1.0, np.linalg.norm(matrix, axis=1, keepdims=True))
    groups = {column.name: data[column.name] for column in data.schema if column.kind == "category"}
    return Encoding(matrix, np.stack(places, axis=1).astype(np.int32), signs, start, groups)


def _column(column: Column, values: NDArray[Any], encoding: str) -> tuple[Floats, Ints, int]:
    """One entry a row: its value, its place within the column's block, the block's width."""
    if column.kind == "continuous":
        numbers = np.asarray(values, np.float64)
        if np.isnan(numbers).any():
            raise InputError("a column has missing values", path=column.name, fix=NOTHING_DECLARED)
        low, high = min(column.low, 0.0), max(column.high, 0.0)
        clipped = np.clip(numbers, low, high)
        if encoding == "log" and column.name in LOGARITHMIC:
            return np.log1p(clipped) / np.log1p(high), np.zeros(len(numbers), np.int64), 1
        return clipped / max(-low, high), np.zeros(len(numbers), np.int64), 1
    found = np.stack([np.asarray(values) == category for category in column.categories], axis=1)
    if not found.any(axis=1).all():
        raise InputError(
            "a column has a value that is missing or not among its public categories", path=column.name,
            allowed=", ".join(map(str, column.categories)), fix=NOTHING_DECLARED,
        )  # fmt: skip
    return np.ones(len(values)), found.argmax(axis=1), column.width


def read_rows(file: str | Path, schema: tuple[Column, ...], target: str, encoding: str = "thesis") -> tuple[Rows, int]:
    """One node's rows from its CSV file, by a schema that all nodes share, and the most nonzero entries of a row."""
    rows = columns(read_csv(Path(file).read_bytes()))
    missing = [column.name for column in schema if column.name not in rows]
    if missing:
        raise InputError("the file lacks columns of the schema", path=str(file), given=missing)
    made = encode(Dataset(Path(file).stem, {c.name: rows[c.name] for c in schema}, schema, target), encoding)
    return made.rows(np.arange(len(made.signs))), made.nonzeros


@lru_cache(maxsize=4)
def _loaded(name: str, options: tuple[tuple[str, Any], ...], encoding: str) -> Encoding:
    return encode(load(name, **dict(options)), encoding)


def is_generated(name: str) -> bool:
    return name in registry.names("generator")


def encoded(table: Mapping[str, Any], seed: int, run: int) -> Encoding:
    """The rows that a data table describes; generated data are drawn afresh for every run."""
    options = {key: value for key, value in table.items() if key not in (*OWN_KEYS, "name")}
    if is_generated(table["name"]):
        made = registry.build("generator", {"name": table["name"], **options}, "data")
        return encode(made.generate(generator(seed, "consensus", "data", run)), table["encoding"])
    return _loaded(table["name"], tuple(sorted(options.items())), table["encoding"])


def data_table(table: Mapping[str, Any]) -> dict[str, Any]:
    """A complete data table: the loader's own options and the task's keys with their defaults."""
    name = table.get("name", "")
    kind = registry.kind_of(name, "data.name", "dataset", "generator")
    target = registry.get(kind, name, "data.name")
    options = {key: value for key, value in table.items() if key not in OWN_KEYS}
    made = registry.build(kind, options, "data")
    full = describe(made)
    if kind == "dataset" and "split" in field_names(target):
        del full["split"]  # the loader's own split means all, train or test: always all here
    encoding = table.get("encoding", "thesis")
    if encoding not in ENCODINGS:
        raise SpecError("there is no such encoding", path="data.encoding", given=encoding, allowed=", ".join(ENCODINGS))
    train = table.get("train")
    if train is None:
        train = TRAIN.get(name) or _default_train(full)
    if isinstance(train, bool) or not (train is None or isinstance(train, int)) or (train is not None and train < 1):
        raise SpecError("train counts rows", path="data.train", given=train, allowed="a whole number from 1 on")
    return {**full, "encoding": encoding, "train": train, "split": split_table(table.get("split", "even"))}


def _default_train(options: Mapping[str, Any]) -> int | None:
    """All rows of a generator that draws test rows beside them, four fifths of another one's, all of a data set's."""
    rows = options.get("rows")
    if not isinstance(rows, int):  # a data set may name its rows by a word
        return None
    if "test" in options:
        return rows
    return max(1, rows * 4 // 5)


def split_table(split: Any) -> Any:
    """Check the form of a split; what it needs of the data is checked when the data are there."""
    if split == "even":
        return "even"
    if isinstance(split, Mapping):
        keys = set(split)
        if keys == {"sizes"}:
            return {"sizes": _sizes(split["sizes"])}
        if keys == {"by", "skew"} and split["by"] == "label" and _is_share(split["skew"]):
            return {"by": "label", "skew": float(split["skew"])}
        if keys == {"by"} and isinstance(split["by"], str) and split["by"] != "label":
            return {"by": split["by"]}
    raise SpecError(
        "there is no such split", path="data.split", given=split,
        allowed='even, {"sizes": [...]}, {"by": "label", "skew": 0 to 1}, {"by": "<column>"}',
    )  # fmt: skip


def _sizes(given: Any) -> list[int]:
    if isinstance(given, list | tuple) and given and all(_counts(size) for size in given):
        return list(given)
    raise SpecError(
        "sizes are rows by node", path="data.split.sizes", given=given, allowed="a list of whole numbers from 1 on"
    )


def _is_share(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _counts(size: Any) -> bool:
    return isinstance(size, int) and not isinstance(size, bool) and size >= 1


@dataclass(frozen=True)
class Share:
    """Rows of every node and the rows for testing."""

    nodes: tuple[Rows, ...]
    test: Rows
    nonzeros: int

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(len(rows) for rows in self.nodes)


def deal(found: Encoding, table: Mapping[str, Any], nodes: int, rng: Generator) -> Share:
    """Draw the training rows, deal them to the nodes, keep the rest for testing."""
    total, train = len(found.signs), table["train"]
    train = total if train is None else train
    if train > total:
        raise SpecError("there are fewer rows", path="data.train", given=train, allowed=f"at most {total}")
    order = rng.permutation(total)
    chosen, rest = order[:train], order[train:]
    split = table["split"]
    if split == "even":
        parts = np.array_split(chosen, nodes)
    elif "sizes" in split:
        parts = _by_sizes(chosen, split["sizes"], nodes)
    elif split["by"] == "label":
        parts = _by_label(chosen, found.signs[chosen], split["skew"], nodes)
    else:
        parts = _by_column(chosen, found.groups, split["by"], nodes)
    for node, part in enumerate(parts):
        if len(part) == 0:
            raise SpecError("a node has no rows", path="data.split", given=f"node {node}", allowed="at least one row")
    if len(np.unique(found.signs[chosen])) < 2:
        raise InputError("all rows of all nodes have one label", path="data", allowed="two classes")
    return Share(tuple(found.rows(part) for part in parts), found.rows(rest), found.nonzeros)


def _by_sizes(chosen: Ints, sizes: list[int], nodes: int) -> list[Ints]:
    if len(sizes) != nodes or sum(sizes) > len(chosen):
        raise SpecError(
            "the sizes do not fit",
            path="data.split.sizes",
            given=sizes,
            allowed=f"{nodes} sizes, together {len(chosen)}",
        )
    return np.split(chosen[: sum(sizes)], np.cumsum(sizes)[:-1])


def _by_label(chosen: Ints, signs: Floats, skew: float, nodes: int) -> list[Ints]:
    """A share of the rows sorted by label and dealt in order, the rest evenly: all nodes have equal sizes."""
    count = round(skew * len(chosen))
    skewed = chosen[:count][np.argsort(signs[:count], kind="stable")]
    return [
        np.concatenate(pair)
        for pair in zip(np.array_split(skewed, nodes), reversed(np.array_split(chosen[count:], nodes)))
    ]


def _by_column(chosen: Ints, groups: Mapping[str, NDArray[Any]], name: str, nodes: int) -> list[Ints]:
    if name not in groups:
        raise SpecError(
            "there is no such column to split by", path="data.split.by", given=name, allowed=", ".join(sorted(groups))
        )
    values = groups[name]
    present = sorted(set(values.tolist()), key=str)
    if len(present) != nodes:
        raise SpecError("there is one node a category", path="nodes", given=nodes, allowed=f"{len(present)} for {name}")
    return [chosen[values[chosen] == category] for category in present]
