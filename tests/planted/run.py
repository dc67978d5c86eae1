"""Plant mistakes in a copy of the source, one at a time, and see who notices.

    python tests/planted/run.py                     # all, each against what is said to catch it
    python tests/planted/run.py loop/limit-one-more --seed 3
    python tests/planted/run.py --wide --out found.json    # against all tests and audits of the part

A mistake is a piece of text in one file that becomes another (`*.toml`). The copy is a folder of links in which that
file is written anew, so tests, command line and servers that they start all run the broken code.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SOURCE = ROOT / "src" / "fairveil"
PATIENCE = 900.0

#: Audits and tests of the files that begin so, asked about every mistake in them by ``--wide``.
WIDE = {
    "loop/": (
        ("adapter:loop", "adapter:people"),
        ("tests/loop", "tests/service/test_access_and_channels.py", "tests/service/test_http_contract.py"),
    ),
    "service/": (("adapter:loop",), ("tests/service", "tests/client", "tests/cli/test_service_commands.py")),
    "client/": ((), ("tests/client", "tests/service/test_http_contract.py")),
    "streams/": (("adapter:feed", "adapter:journal"), ("tests/streams/serving", "tests/cli/test_release.py")),
    "privacy/": (
        ("adapter:estimator",),
        ("tests/classify/test_copied_counters.py tests/classify/test_good_citizens.py",),
    ),
    "classify/": (
        ("adapter:estimator",),
        ("tests/classify/test_copied_counters.py tests/classify/test_private_logistic_estimator.py",),
    ),
    "consensus/": (("adapter:node",), ("tests/consensus/test_nodes.py",)),
    "evaluate/": (("adapter:evaluate", "evaluation:clipped-importance"), ("tests/evaluate",)),
    "storage/": (("adapter:ledger",), ("tests/storage", "tests/ledger", "tests/service/test_faults.py")),
    "ledger/": (("adapter:ledger",), ("tests/ledger", "tests/storage")),
}


@dataclass(frozen=True)
class Mistake:
    """One mistake: a piece of text of a file that becomes another.

    ``caught``: who notices, ``audit:KIND:NAME`` or a test, empty where nobody was asked yet; ``harmless``: why nobody
    has to; ``first``: whether anybody noticed it in the first run (None: it was not drawn for that).
    """

    part: str
    name: str
    file: str
    words: str
    old: str
    new: str
    caught: str = ""
    harmless: str = ""
    first: bool | None = None

    @property
    def title(self) -> str:
        return f"{self.part}/{self.name}"

    @property
    def stands(self) -> bool:
        """Whether its text is still a line of the file."""
        place = SOURCE / self.file
        return place.exists() and place.read_text().count(self.old) == 1

    def broken(self) -> str:
        """The file with the mistake in it."""
        text = (SOURCE / self.file).read_text()
        if text.count(self.old) != 1:
            raise SystemExit(f"{self.title}: its text stands {text.count(self.old)} times in {self.file}, not once")
        return text.replace(self.old, self.new)


def mistakes() -> list[Mistake]:
    found = []
    for file in sorted(HERE.glob("*.toml")):
        for table in tomllib.loads(file.read_text())["mistake"]:
            found.append(Mistake(file.stem, **table))
    return found


@contextmanager
def copied() -> Iterator[Path]:
    """A folder for PYTHONPATH whose package is links to ours."""
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        for place in sorted(SOURCE.rglob("*")):
            if "__pycache__" in place.parts or place.is_dir():
                continue
            shown = Path(folder) / "fairveil" / place.relative_to(SOURCE)
            shown.parent.mkdir(parents=True, exist_ok=True)
            shown.symlink_to(place)
        yield Path(folder)


@contextmanager
def planted(mistake: Mistake, folder: Path) -> Iterator[None]:
    """One file of the copy is broken inside the block."""
    target = folder / "fairveil" / mistake.file
    text, stale = mistake.broken(), list(target.parent.glob(f"__pycache__/{target.stem}.*.pyc"))
    target.unlink()
    target.write_text(text)
    for file in stale:
        file.unlink()
    try:
        yield
    finally:
        target.unlink()
        target.symlink_to(SOURCE / mistake.file)
        for file in target.parent.glob(f"__pycache__/{target.stem}.*.pyc"):
            file.unlink()


def asked(who: str, folder: Path, seed: int) -> str:
    """The last words of an audit or a test that noticed; empty when it did not."""
    if who.startswith("audit:"):
        command = [sys.executable, __file__, "--audit", who.removeprefix("audit:"), "--seed", str(seed)]
    else:
        quiet = ["-n", "0", "-q", "-x", "-m", "not long", "-p", "no:cacheprovider", "--no-header", "--tb=no"]
        command = [sys.executable, "-m", "pytest", *quiet, *who.split()]
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONHASHSEED": str(seed), "FAIRVEIL_SEED": str(seed)}
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        return "did not end"
    if done.returncode == 0:
        return ""
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    if done.returncode > 1 or "ModuleNotFoundError" in done.stderr:
        raise SystemExit(f"{who} could not be asked: {lines[-1] if lines else done.returncode}")
    named = [line for line in lines if line.startswith(("FAILED", "ERROR")) or "broken" in line]
    return (named or lines or [f"exit {done.returncode}"])[-1][:200]


def audit(title: str, seed: int) -> int:
    """The laws of an adapter, or the quick audit of a thing, of the package that this process sees."""
    from fairveil.proof.engine.adapter import adapters
    from fairveil.proof.engine.everything import QUICK, examine, things

    kind, _, name = title.partition(":")
    if kind == "adapter":
        adapters()[name]().check()
        return 0
    [thing] = [one for one in things((kind,)) if one.name == name]
    verdict = examine(thing, QUICK, seed=seed)
    print(f"broken: {verdict}" if not verdict.fine else "fine")
    return 0 if verdict.fine else 1


def look(mistake: Mistake, folder: Path, wide: bool, seed: int) -> tuple[str, str]:
    """Who noticed and what they said; two empty words for nobody."""
    audits, tests = next(asked for start, asked in WIDE.items() if mistake.file.startswith(start))
    everybody = [*(f"audit:{one}" for one in audits), *tests] if wide else [mistake.caught]
    with planted(mistake, folder):
        for who in everybody:
            if who and (words := asked(who, folder, seed)):
                return who, words
    return "", ""


TABLE = "| mistake | in | noticed by |\n|---|---|---|\n"


def page(text: str) -> str:
    """The page of planted mistakes with a table of all of them."""
    rows = []
    for one in mistakes():
        by = f"harmless: {one.harmless}" if one.harmless else f"`{one.caught}`" if one.caught else "not asked yet"
        mark = {True: "", False: " (not in the first run)", None: ""}[one.first]
        rows.append(f"| `{one.title}`: {one.words} | `{one.file}` | {by}{mark} |\n")
    return text[: text.index(TABLE)] + TABLE + "".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="part/name, or a part; all when left out")
    parser.add_argument("--wide", action="store_true", help="ask every audit and test of the part")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="add findings to this JSON file; what is in it is not asked again")
    parser.add_argument("--audit", help=argparse.SUPPRESS)
    parser.add_argument("--page", action="store_true", help="write the table of docs/guarantees/planted.md")
    given = parser.parse_args()
    if given.page:
        place = ROOT / "docs" / "guarantees" / "planted.md"
        place.write_text(page(place.read_text()))
        return 0
    if given.audit is not None:
        return audit(given.audit, given.seed)
    found = json.loads(given.out.read_text()) if given.out is not None and given.out.exists() else {}
    missed = []
    with copied() as folder:
        for mistake in mistakes():
            if given.names and not {mistake.part, mistake.title} & set(given.names):
                continue
            if not mistake.stands or not (given.wide or mistake.caught):
                print(f"{mistake.title}: {'nobody was asked yet' if mistake.stands else 'its line was rewritten'}")
                continue
            if mistake.title not in found:
                found[mistake.title] = look(mistake, folder, given.wide, given.seed)
                if given.out is not None:
                    given.out.write_text(json.dumps(found, indent=1) + "\n")
            who, words = found[mistake.title]
            if not who and not mistake.harmless:
                missed.append(mistake.title)
            print(f"{mistake.title}: {f'{who}: {words}' if who else 'NOBODY NOTICED'}", flush=True)
    print(f"{len(missed)} not noticed")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
