"""Ctrl-C: that it is heard wherever it falls, and what it leaves behind, said of the command that was given."""

from __future__ import annotations

import _thread
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

AGAIN_SECONDS = 0.05

KEEPING = ("compare", "demo", "reproduce", "data fetch", "federate local", "federate coordinate", "federate join")
"""Commands that keep what is done without being told to."""
ON_A_LEDGER = (
    "what was released is paid for and stays in the ledger: fairveil report LEDGER --policy SPEC shows it. A run on a "
    "ledger does not go on: once it has released, the next one takes a new ledger and pays again for the same people"
)
PAYS_AGAIN = (
    "without --ledger nothing is kept: the same command begins anew and pays again for the same people; with "
    "--ledger FILE it would go on"
)


def after_interruption(given: Sequence[str]) -> str:
    """What is kept, and what the same command does next."""
    command, both = " ".join(given[:1]), " ".join(given[:2])
    options = {word.partition("=")[0] for word in given}
    if command == "run" and "--ledger" in options:
        return ON_A_LEDGER
    if command in KEEPING or both in KEEPING or (command in ("run", "release") and options & {"--store", "--ledger"}):
        return "what was stored is kept: the same command goes on from there"
    if command == "run":
        return "nothing is kept: the same command begins anew; with --store FOLDER it would go on"
    if command == "release" and not options & {"--quote", "--simulate"}:
        return PAYS_AGAIN
    return "give the same command again"


@contextmanager
def heard() -> Iterator[None]:
    """Ctrl-C that falls into a function which cannot raise is raised again a moment later.

    LLVM works for seconds and then calls back, and so does a destructor: Python writes down what they raise, and goes
    on. A Ctrl-C of these seconds would be swallowed.
    """
    before = sys.unraisablehook

    def told(unraised: Any) -> None:
        if unraised.exc_type is KeyboardInterrupt:
            again = threading.Timer(AGAIN_SECONDS, _thread.interrupt_main)
            again.daemon = True
            again.start()
        else:
            before(unraised)

    sys.unraisablehook = told
    try:
        yield
    finally:
        sys.unraisablehook = before
