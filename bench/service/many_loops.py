"""Many loops in one process: CPU of the first look at all of them, of idling, descriptors, connections, one page.

python bench/service/many_loops.py --loops 1000            # SQLite in a temporary folder
python bench/service/many_loops.py --store postgresql://... --loops 1000
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time

from rich.progress import track

from fairveil.loop import Reward, Store
from fairveil.loop.play import warm

POLICY = {"name": "private-nash", "arms": 2, "epsilon": 1.0}
KEY = bytes(32)


def descriptors() -> int:
    """Open files of this process that are no sockets."""
    found = 0
    for number in os.listdir("/proc/self/fd"):
        try:
            found += not os.readlink(f"/proc/self/fd/{number}").startswith("socket:")
        except OSError:
            continue
    return found


def connections(store: Store) -> int | None:
    """Connections of this process to the server, None for a file."""
    if store.driver.dialect == "sqlite":
        return None
    with store.reading() as tx:
        query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND usename = current_user"
        return int(tx.execute(query)[0][0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loops", type=int, default=10_000)
    parser.add_argument("--seconds", type=int, default=10, help="how long idling is measured")
    parser.add_argument("--store", help="default: SQLite in a temporary folder")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = asked.store or f"sqlite:///{folder}/store.db"
        began = time.process_time()
        with Store.open(url, key=KEY) as store:
            known = set(store.names())
            for index in track(range(asked.loops), "making loops"):
                if f"loop-{index:05}" not in known:
                    store.create(f"loop-{index:05}", policy=POLICY, reward=Reward(0, 1, wait="1d"))
        print(f"made {asked.loops} loops in {time.process_time() - began:.1f} s CPU")
        with Store.open(url, key=KEY) as store:
            began = time.process_time()
            for name in store.kinds():
                warm(store.loop(name).facts)
            print(f"one loop of each policy is ready after {time.process_time() - began:.2f} s CPU")
            began, ticks = time.process_time(), 0
            while store.unchecked or not ticks:
                store.tick()
                ticks += 1
            print(f"all ledgers checked after {ticks} ticks, {time.process_time() - began:.1f} s CPU")
            store.tick()
            began, until = time.process_time(), time.monotonic() + asked.seconds
            while time.monotonic() < until:
                store.tick()
                time.sleep(1.0)
            print(f"idle: {(time.process_time() - began) / asked.seconds:.4f} of a core")
            print(f"descriptors besides sockets: {descriptors()}; connections to the server: {connections(store)}")


if __name__ == "__main__":
    main()
