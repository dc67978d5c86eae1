"""Run the numerical tests as other machines would: other BLAS kernels, other SIMD, another compiler target, one thread.

    python bench/machines.py            # tests of the numerical packages under each setting
    python bench/machines.py Zen Core2  # under the settings of these kernels
    python bench/machines.py --whole    # the whole suite under the first setting
    python bench/machines.py --list     # what this CPU can execute and what it cannot

Prints one line a setting and every test that failed. Compiled code is cached apart for each compiler target.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ["tests/privacy", "tests/bandits", "tests/classify", "tests/dynamics"]

#: Kernels of OpenBLAS and the CPU flags each needs.
CORES = {
    "Prescott": {"pni"},
    "Core2": {"ssse3"},
    "Nehalem": {"sse4_2"},
    "Sandybridge": {"avx"},
    "Haswell": {"avx2", "fma"},
    "Zen": {"avx2", "fma", "bmi2"},
    "SkylakeX": {"avx512f", "avx512dq", "avx512bw", "avx512vl"},
    "Cooperlake": {"avx512_bf16"},
    "SapphireRapids": {"amx_bf16"},
    "Barcelona": {"3dnow"},
    "Bulldozer": {"fma4"},
}

#: What goes with the kernels in turn, so that every value is run: SIMD of NumPy, compiler target, threads.
OTHERS: tuple[dict[str, str], ...] = (
    {"NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4", "NUMBA_CPU_NAME": "generic"},
    {"NPY_DISABLE_CPU_FEATURES": "X86_V4"},
    {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2", "NUMBA_NUM_THREADS": "2"},
)


def settings() -> tuple[dict[str, dict[str, str]], list[str]]:
    """Environments this CPU can execute, by name, and the kernels it cannot."""
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    found = re.search(r"^flags\s*:\s*(.*)$", text, re.MULTILINE)
    flags = set(found.group(1).split()) if found else set()
    runnable, absent = {}, []
    for place, (core, needed) in enumerate(CORES.items()):
        if not needed <= flags:
            absent.append(core)
            continue
        more = OTHERS[place % len(OTHERS)]
        name = ", ".join([f"{core} BLAS", *(f"{key}={value}" for key, value in more.items())])
        runnable[name] = {"OPENBLAS_CORETYPE": core, **more}
    return runnable, absent


def run(name: str, extra: dict[str, str], what: list[str], caches: Path) -> bool:
    """One setting: pytest in a process of its own; True when it is green."""
    environment = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", **os.environ, **extra}
    environment["NUMBA_CACHE_DIR"] = str(caches / extra.get("NUMBA_CPU_NAME", "host"))
    command = [sys.executable, "-m", "pytest", "-q", "-n", "auto", "--dist", "worksteal", "-p", "no:cacheprovider"]
    done = subprocess.run([*command, *what], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    lines = done.stdout.strip().splitlines()
    print(f"{'green' if done.returncode == 0 else 'RED':6} {name:90} {lines[-1] if lines else done.stderr[-200:]}")
    for line in lines:
        if line.startswith(("FAILED", "ERROR")):
            print(f"       {line}")
    sys.stdout.flush()
    return done.returncode == 0


def main() -> int:
    runnable, absent = settings()
    print("not executable on this CPU: " + (", ".join(absent) or "none"))
    if "--list" in sys.argv:
        print("\n".join(runnable))
        return 0
    if "--whole" in sys.argv:
        first = next(iter(runnable))
        runnable, what = {first: runnable[first]}, ["--doctest-modules", "src/fairveil", "tests"]
    else:
        named = sys.argv[1:]
        runnable = {name: extra for name, extra in runnable.items() if not named or extra["OPENBLAS_CORETYPE"] in named}
        what = PACKAGES
    with tempfile.TemporaryDirectory() as folder:
        results = [run(name, extra, what, Path(folder)) for name, extra in runnable.items()]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
