"""CPU from the start of `fairveil serve` until it is ready, with one loop of each family in the store.

python bench/service/start.py [--turns 5]

A new process that finds compiled code, as every start but a machine's first; and one with an empty cache, which
compiles what its loops need before it is ready. User and system.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import httpx
from parts import folder, serving

from fairveil.loop import Reward, Store

PEOPLE = {
    "groups": ["a", "b"],
    "features": [{"name": "x", "low": -1.0, "high": 1.0}, {"name": "y", "low": -1.0, "high": 1.0}],
}
LOOPS = {
    "private-nash": {"policy": {"arms": 3, "epsilon": 1.0}},
    "adap-ucb": {"policy": {"arms": 3, "epsilon": 1.0}},
    "local-nash": {"policy": {"arms": 3, "epsilon": 1.0}},
    "batched-private-fair-greedy": {"policy": {"epsilon": 5.0, "delta": 1e-6}, **PEOPLE},
    "batched-priv-fairx": {"policy": {"epsilon": 5.0, "delta": 1e-6, "horizon": 400}, **PEOPLE},
}
MOST = 2.5


def ready_after(store: str, cache: Path) -> float:
    os.environ["NUMBA_CACHE_DIR"] = str(cache)
    with serving(store) as service:
        while httpx.get(f"{service.url}/ready", timeout=60).status_code != 200:
            time.sleep(0.02)
        return service.cpu()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=5)
    asked = parser.parse_args()
    empty, found = list[float](), list[float]()
    with folder() as place:
        url = f"sqlite:///{place}/store.db"
        with Store.open(url, key=bytes.fromhex("7" * 64)) as store:
            for name, table in LOOPS.items():
                named = table | {"policy": {"name": name, **table["policy"]}}
                store.create(name, reward=Reward(0, 1, wait="1h"), **named)
        for _ in range(asked.turns):
            with tempfile.TemporaryDirectory() as cache:
                empty.append(ready_after(url, Path(cache)))
                found.append(ready_after(url, Path(cache)))
    middle = statistics.median(found)
    print(f"CPU until ready, {len(LOOPS)} loops, median of {asked.turns}: {middle:.2f} s ", end="")
    print(f"({min(found):.2f} to {max(found):.2f}; at most {MOST}); nothing compiled {statistics.median(empty):.2f} s")
    return int(middle > MOST)


if __name__ == "__main__":
    sys.exit(main())
