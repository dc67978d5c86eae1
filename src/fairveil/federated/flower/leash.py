"""A program that ends with whoever started it: `leash.py PIDFILE COMMAND...`, alone in its process group.

Standard input is the leash: when it closes, because its owner closed it or died, the whole group ends.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

GRACE = 10.0


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
    return code if 0 <= code < 256 else 1


if __name__ == "__main__":
    threading.excepthook = lambda _: os.killpg(0, signal.SIGKILL)
    sys.exit(main())
