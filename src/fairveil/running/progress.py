"""Progress of long work: silent by default, a rich bar in the terminal, a line now and then in a log."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as RichProgress
from rich.text import Text

from fairveil.task import hearing

COMPILING = "compiling (once, about 10 s)"
"""Code that a run needs for the first time; the next run finds it in its cache."""


EVERY = 30.0
"""Seconds between two lines about long work where nothing can be drawn."""


@contextmanager
def murmuring(words: Callable[[], str], console: Console) -> Iterator[None]:
    """Say now and then what is done and for how long: a line in a log, for work that would be silent otherwise."""
    over, began = threading.Event(), time.monotonic()

    def tell() -> None:
        while not over.wait(EVERY):
            said = f"{words()}; {time.monotonic() - began:.0f} s so far"
            console.print(said, markup=False, highlight=False, soft_wrap=True)

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join()


class Progress:
    """What a runner tells about its blocks; this one says nothing."""

    def start(self, total: int, done: int) -> None: ...

    def advance(self) -> None: ...

    def finish(self) -> None: ...

    def watch(self, compiling: Callable[[], bool]) -> None:
        """Ask this, from time to time, whether workers elsewhere are compiling."""


class _Doing(TextColumn):
    """What is done, and whether a worker compiles what it will use."""

    def __init__(self) -> None:
        super().__init__("{task.description}")
        self.compiling: Callable[[], bool] = bool

    def render(self, task: Task) -> Text:
        words = super().render(task)
        return words.append(f", {COMPILING}") if self.compiling() else words


class Bar(Progress):
    """One line per piece of work with count, elapsed and remaining time; use as a context manager.

    Where standard error is not a terminal nothing is drawn; work that takes long says now and then how far it is.
    """

    def __init__(self, label: str = "", console: Console | None = None) -> None:
        self.label = label
        self.console = console = console or Console(stderr=True)
        self.doing = _Doing()
        self.bars = RichProgress(
            self.doing,
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self.task: TaskID | None = None
        self.compiling: TaskID | None = None
        self.around = ExitStack()

    def labelled(self, label: str) -> Bar:
        """The same bar under another name."""
        self.label = label
        return self

    def __enter__(self) -> Bar:
        from fairveil.compiling import told_of_compiling

        self.bars.start()
        if self.bars.disable:
            self.around.enter_context(murmuring(self.in_words, self.console))
        self.around.enter_context(told_of_compiling(self.show_compiling))
        hearing.append(self.say)
        self.around.callback(hearing.remove, self.say)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.around.close()
        self.bars.stop()

    def in_words(self) -> str:
        """How far everything is that is under way."""
        known = [task for task in self.bars.tasks if task.total is not None]
        far = [f"{task.description}: {task.completed:,.0f} of {task.total:,.0f}" for task in known]
        busy = [COMPILING] if self.compiling is not None or self.doing.compiling() else []
        return ", ".join([*far, *busy]) or self.label

    def show_compiling(self, begins: bool) -> None:
        """A line of its own while a first run compiles what it will use."""
        if begins:
            self.compiling = self.bars.add_task(COMPILING, total=None)
        elif self.compiling is not None:
            self.bars.remove_task(self.compiling)
            self.compiling = None

    def say(self, words: str) -> None:
        """How far a long block is, beside the name of the work."""
        if self.task is not None:
            self.bars.update(self.task, description=f"{self.label}, {words}")

    def watch(self, compiling: Callable[[], bool]) -> None:
        self.doing.compiling = compiling

    def start(self, total: int, done: int) -> None:
        self.task = self.bars.add_task(self.label, total=total, completed=done)

    def advance(self) -> None:
        if self.task is not None:
            self.bars.update(self.task, advance=1, description=self.label)

    def finish(self) -> None:
        if self.task is not None:
            self.bars.remove_task(self.task)
            self.task = None
