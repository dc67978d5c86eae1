"""Progress of long work: silent by default, a rich bar in the terminal."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress


class Progress:
    """What a runner tells about its blocks; this one says nothing."""

    def start(self, total: int, done: int) -> None: ...

    def advance(self) -> None: ...

    def finish(self) -> None: ...


class Bar(Progress):
    """One line per piece of work with count, elapsed and remaining time; use as a context manager.

    Nothing is drawn where standard error is not a terminal: logs stay clean.
    """

    def __init__(self, label: str = "", console: Console | None = None) -> None:
        self.label = label
        console = console or Console(stderr=True)
        self.bars = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self.task: TaskID | None = None

    def labelled(self, label: str) -> Bar:
        """The same bar under another name."""
        self.label = label
        return self

    def __enter__(self) -> Bar:
        self.bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bars.stop()

    def start(self, total: int, done: int) -> None:
        self.task = self.bars.add_task(self.label, total=total, completed=done)

    def advance(self) -> None:
        if self.task is not None:
            self.bars.advance(self.task)

    def finish(self) -> None:
        if self.task is not None:
            self.bars.remove_task(self.task)
            self.task = None
