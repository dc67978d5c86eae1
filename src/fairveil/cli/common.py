"""What several commands share: reading spec files, what the Tab key offers (names, without loading what they name), and
tables that a terminal of 80 columns can hold.
"""

from __future__ import annotations

import errno
import json
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from fairveil import contents, plugins, registry
from fairveil.errors import SpecError

if TYPE_CHECKING:
    from fairveil.running.engines import Engine

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
PluginFiles = Annotated[
    list[Path] | None, typer.Option("--plugin", help="A Python file that registers names of its own.")
]
EngineName = Annotated[str, typer.Option(help="serial, processes or ray.")]
Workers = Annotated[int | None, typer.Option(help="Workers of the engine; all cores by default.")]
Address = Annotated[str | None, typer.Option(help="Address of a Ray cluster.")]


def load_plugins(files: list[Path] | None) -> None:
    """Load the files that --plugin names."""
    for file in files or []:
        plugins.load_file(file)


def working(engine: str, workers: int | None, address: str | None = None) -> AbstractContextManager[Engine]:
    """Who does the work, for the length of a block."""
    from fairveil.running.engines import make_engine

    return closing(make_engine(engine, workers, address))


@contextmanager
def doing(words: str) -> Iterator[None]:
    """Says on a terminal what is done, for as long as that takes, and while code is compiled for it, that.

    A log gets a line now and then.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        from fairveil.running.progress import murmuring

        with murmuring(lambda: words, console):
            yield
        return
    with console.status(escape(words)) as status:
        from fairveil.compiling import told_of_compiling
        from fairveil.running.progress import COMPILING

        with told_of_compiling(lambda begins: status.update(escape(f"{words}, {COMPILING}" if begins else words))):
            yield


def loading(what: str) -> AbstractContextManager[object]:
    """Says on a terminal what is loaded, for as long as that takes."""
    return doing(f"loading {what}")


def read_spec(file: Path) -> dict[str, Any]:
    """A spec from a .toml or .json file; a wrong file says where it is wrong. Paths in it start in its own folder."""
    allowed = "a TOML file, or JSON when its name ends in .json"
    if not file.exists():
        raise SpecError("the spec file does not exist", path=str(file), allowed=allowed, fix="check the path")
    if file.is_dir():
        raise SpecError("this is a folder", path=str(file), allowed=allowed, fix="name a file in it")
    try:
        text = file.read_text(encoding="utf-8")
        table = json.loads(text) if file.suffix == ".json" else tomllib.loads(text)
    except OSError as problem:
        raise SpecError(
            f"the spec file cannot be opened: {problem.strerror}", path=str(file), allowed=allowed
        ) from None
    except (ValueError, RecursionError) as problem:  # not UTF-8, not TOML, not JSON, or too deep
        fix = "compare it with examples/first.toml"
        raise SpecError(f"the spec file cannot be read: {problem}", path=str(file), allowed=allowed, fix=fix) from None
    if not isinstance(table, dict):
        raise SpecError("a spec is a table", path=str(file), given=type(table).__name__, allowed='{"task": ..., ...}')
    return beside(table, file.parent)


def beside(value: Any, folder: Path) -> Any:
    """A spec whose files (keys called ``file``) are looked for in the folder that it lies in.

    >>> beside({"log": {"file": "trial.csv"}, "seed": 1}, Path("studies"))
    {'log': {'file': 'studies/trial.csv'}, 'seed': 1}
    """
    if isinstance(value, list):
        return [beside(item, folder) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: str(folder / item) if key == "file" and isinstance(item, str) else beside(item, folder)
        for key, item in value.items()
    }


def folder_to_write(folder: Path) -> Path:
    """The folder, made now: that it cannot be written is said before the work, not after it."""
    from fairveil.running.store import writing

    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))
    return folder


def kinds(start: str) -> list[str]:
    """Kinds of names."""
    return [kind for kind in (*contents.HOMES, registry.AUDIT, "artefact") if kind.startswith(start)]


def names(start: str) -> list[str]:
    """Built-in names, and ``kind:name`` once a kind is typed."""
    known = [(kind, name) for kind, homes in contents.HOMES.items() for name in homes if "/" not in name]
    typed = [f"{kind}:{name}" for kind, name in known] if ":" in start else [name for _, name in known]
    return sorted({name for name in typed if name.startswith(start)})


def artefacts(start: str) -> list[str]:
    """Papers, and their figures and tables."""
    from fairveil.lab import papers
    from fairveil.lab.papers import MEASURED

    return [name for name in ("all", *papers.NAMES, *MEASURED) if name.startswith(start)]


def data_sets(start: str) -> list[str]:
    """Data sets."""
    return [name for name in contents.HOMES["dataset"] if name.startswith(start)]


def plain(stderr: bool = False) -> Console:
    """A console whose lines come out as they are given: whole, and without colours of its own."""
    return Console(stderr=stderr, highlight=False, markup=False, soft_wrap=True)


def table_of_facts(facts: Mapping[str, Any]) -> Table:
    """What things are called, and what they are, without lines around them."""
    table = Table(show_header=False, box=None)
    for name, value in facts.items():
        table.add_row(f"[bold]{name}[/]", escape(str(value)))
    return table


def table_of_two(first: str, second: str, rows: Iterable[tuple[str, str, str]], title: str | None = None) -> Table:
    """Names that are never cut (people copy them), each with a sentence and, below it in grey, its facts."""
    table = Table(Column(first, no_wrap=True), second, title=title, box=box.SIMPLE_HEAD, pad_edge=False)
    for name, words, facts in rows:
        table.add_row(escape(name), escape(words) + (f"\n[dim]{escape(facts)}[/]" if facts else ""))
    return table
