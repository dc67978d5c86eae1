"""A program that ends with whoever started it: `leash.py PIDFILE COMMAND...`, alone in its process group.

Standard input is the leash: when it closes, because its owner closed it or died, the program ends with all that it has
started, also in sessions of their own. Flower's SuperLink and SuperNode start such, and some of them wait for ever.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time

GRACE = 10.0
LEFT = 3.0
"""Seconds that what the child left behind has to end."""
PR_SET_CHILD_SUBREAPER = 36


def end_with_owner() -> None:
    while os.read(0, 1024):
        pass
    end_all(GRACE)
    os.killpg(0, signal.SIGKILL)


def main() -> int:
    assert os.getpgid(0) == os.getpid(), "a leash leads a process group of its own"
    signal.signal(signal.SIGTERM, lambda *_: None)  # it goes to the whole group; a child would inherit `SIG_IGN`
    if sys.platform == "linux":  # whoever is left behind becomes a child of this process, and can be found
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    child = subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL)
    with open(sys.argv[1], "w", encoding="ascii") as file:
        file.write(str(child.pid))
    threading.Thread(target=end_with_owner, daemon=True).start()
    code = child.wait()
    end_all(LEFT)
    return code if 0 <= code < 256 else 1


def end_all(seconds: float) -> None:
    """Ask all that was started here to end, and end what has not after so many seconds."""
    os.killpg(0, signal.SIGTERM)
    if not os.path.isdir("/proc"):  # nobody can be found: what is in the group has this time
        time.sleep(seconds)
    end, asked = time.monotonic() + seconds, set[int]()
    while (left := descendants()) and time.monotonic() < end:
        send(signal.SIGTERM, left - asked)
        asked |= left
        time.sleep(0.1)
    while left := descendants():
        send(signal.SIGKILL, left)
        time.sleep(0.1)


def send(number: int, processes: set[int]) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)


def descendants() -> set[int]:
    """Processes that this one or one of them has started and that live, where the system shows them as files."""
    parents = dict[int, int]()
    for name in os.listdir("/proc") if os.path.isdir("/proc") else []:
        with contextlib.suppress(OSError, ValueError):
            with open(f"/proc/{int(name)}/stat", encoding="ascii", errors="replace") as file:
                state, parent = file.read().rpartition(")")[2].split()[:2]
            if state not in "ZX":
                parents[int(name)] = int(parent)
    found = {os.getpid()}
    while more := {process for process, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {os.getpid()}


if __name__ == "__main__":
    threading.excepthook = lambda _: os.killpg(0, signal.SIGKILL)
    sys.exit(main())
