"""Parallel efficiency: one artefact on the serial engine against all cores and a local Ray cluster, as ratios.

python bench/engines.py [artefact] [scale]        default: dp-ncb/c quick
"""

from __future__ import annotations

import os
import sys
import time

from fairveil.lab.reproduce import artefacts
from fairveil.running.engines import make_engine
from fairveil.running.runner import REPEATED_KEYS, run, run_many


def main() -> None:
    name = sys.argv[1] if len(sys.argv) > 1 else "dp-ncb/c"
    scale = sys.argv[2] if len(sys.argv) > 2 else "quick"
    specs = artefacts([name])[0]().specs(scale)  # type: ignore[arg-type]
    cores = os.cpu_count() or 1
    os.environ["FAIRVEIL_THREADS"] = "1"
    for spec in specs.values():
        run({**spec, **({"runs": 2} if "runs" in spec else {})})  # compile everything once
    times, results = {}, {}
    for engine_name in ("serial", "processes", "ray"):
        if engine_name != "serial":
            os.environ.pop("FAIRVEIL_THREADS", None)
        engine = make_engine(engine_name)
        try:
            warm = next(iter(specs.values()))
            run_many({str(i): {**warm, "seed": 10**6 + i, "runs": 2} for i in range(2 * cores)}, engine=engine)
            started = time.perf_counter()
            results[engine_name] = run_many(specs, engine=engine)
            times[engine_name] = time.perf_counter() - started
        finally:
            engine.close()
    print(f"{name} at {scale} scale, {len(specs)} specs, {cores} cores")
    for engine_name, seconds in times.items():
        ratio = times["serial"] / seconds
        workers = 1 if engine_name == "serial" else cores
        same = all(
            results[engine_name][label][key] == results["serial"][label][key]
            for label in specs
            for key in REPEATED_KEYS
        )
        share = 100 * ratio / workers
        print(f"{engine_name:>10}  {seconds:8.2f} s  speed-up {ratio:5.2f}  efficiency {share:5.1f} %  same: {same}")


if __name__ == "__main__":
    main()
