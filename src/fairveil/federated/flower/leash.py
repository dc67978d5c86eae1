"""A program that ends with whoever started it: `leash.py PIDFILE COMMAND...`, alone in its process group.

Standard input is the leash: when it closes, because its owner closed it or died, the whole group ends.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

GRACE = 10.0
LEFT = 3.0
"""Seconds that what the child left behind has to end."""


def end_with_owner() -> None:
    while os.read(0, 1024):
        pass
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(0, signal.SIGTERM)
    time.sleep(GRACE)
    os.killpg(0, signal.SIGKILL)


def main() -> int:
    assert os.getpgid(0) == os.getpid(), "a leash leads a process group of its own"
    child = subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL)
    with open(sys.argv[1], "w", encoding="ascii") as file:
        file.write(str(child.pid))
    threading.Thread(target=end_with_owner, daemon=True).start()
    code = child.wait()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(0, signal.SIGTERM)  # what the child left behind
    end = time.monotonic() + LEFT
    while (left := others()) and time.monotonic() < end:
        time.sleep(0.1)
    for process in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    return code if 0 <= code < 256 else 1


def others() -> list[int]:
    """The other processes of this group, where the system shows them as files."""
    found = []
    for process in [int(name) for name in os.listdir("/proc") if name.isdigit()] if os.path.isdir("/proc") else []:
        with contextlib.suppress(ProcessLookupError):
            if process != os.getpid() and os.getpgid(process) == os.getpid():
                found.append(process)
    return found


if __name__ == "__main__":
    threading.excepthook = lambda _: os.killpg(0, signal.SIGKILL)
    sys.exit(main())
