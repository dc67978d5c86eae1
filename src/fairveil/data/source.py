"""What a data set has: files, a home, a licence, and `load`; and what a generator has: `generate`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from fairveil.data.files import DataFile
from fairveil.data.schema import Dataset
from fairveil.errors import SpecError
from fairveil.randomness import Generator, generator
from fairveil.registry import build, entries, get, kind_of


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
