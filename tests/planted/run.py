"""Plant mistakes in a copy of the source, one at a time, and see who notices.

    python tests/planted/run.py                     # all, each against what is said to catch it, at three seeds
    python tests/planted/run.py loop/limit-one-more --seeds 3
    python tests/planted/run.py --wide --out found.json    # against all tests and audits of the part

A mistake is a piece of text in one file that becomes another (`*.toml`). The copy is a folder of links in which that
file is written anew, so tests, command line and servers that they start all run the broken code. Whoever notices a
mistake at a seed must find nothing at that seed in the code without it: that is asked first (`other_seeds`). Who does
not end in time has noticed nothing: the mistake is left open, and the next run with the same ``--out`` asks again.
Every answer is in that file as soon as it is there: a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SOURCE = ROOT / "src" / "fairveil"
PATIENCE = float(os.environ.get("FAIRVEIL_PATIENCE", "900"))
SEEDS = "0,1,2"

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
    "reports/": (
        ("report:fairness", "report:evaluation", "adapter:service-replayed"),
        ("tests/reports", "tests/loop/test_loop_reports.py"),
    ),
    "federated/": (
        ("adapter:agent", "adapter:node", "adapter:parties-replayed"),
        ("tests/federated/test_secure_sums.py", "tests/federated/test_party.py", "tests/federated/test_plan.py"),
    ),
    "storage/": (("adapter:ledger",), ("tests/storage", "tests/ledger", "tests/service/test_faults.py")),
    "ledger/": (("adapter:ledger",), ("tests/ledger", "tests/storage")),
}


@dataclass(frozen=True)
class Mistake:
    """One mistake: a piece of text of a file that becomes another.

    ``caught``: who notices, ``audit:KIND:NAME`` or a test, empty where nobody was asked yet; ``harmless``: why nobody
    has to; ``first``: whether anybody noticed it in the first run (None: it was not drawn for that); ``day``: when it
    was last noticed at every one of `SEEDS`.
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
    day: str = ""

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


def asked(who: Sequence[str], folder: Path, seeds: str) -> dict[str, str]:
    """What an audit, or tests, say of the package in a folder: the last words of what failed at a seed, by seed."""
    if who[0].startswith("audit:"):
        command = [sys.executable, __file__, "--audit", who[0].removeprefix("audit:"), "--seeds", seeds]
    else:
        quiet = ["-n", "0", "-q", "-m", "not long", "-p", "no:cacheprovider", "-p", "other_seeds", "--no-header"]
        tests = [file for one in who for file in one.split()]
        command = [sys.executable, "-m", "pytest", *quiet, "--tb=no", *tests]
    paths = os.pathsep.join([str(folder), str(ROOT / "tests" / "support")])
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": "0", "FAIRVEIL_SEEDS": seeds}
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"{who[0]} did not end in {PATIENCE:g} s") from None
    if done.returncode == 0:
        return {}
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    named = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    found = {seed: words[-1][:200] for seed in seeds.split(",") if (words := [n for n in named if _at(seed, n)])}
    if not found and named and done.returncode == 2:  # it cannot even be imported
        return dict.fromkeys(seeds.split(","), named[-1][:200])
    if not found or "No module named 'fairveil'" in done.stderr:
        raise SystemExit(f"{who[0]} could not be asked: {lines[-1] if lines else done.returncode}")
    return found


def _at(seed: str, line: str) -> bool:
    return re.search(rf"\bseed{seed}\b", line) is not None


def audit(title: str, seeds: str) -> int:
    """The laws of an adapter, or the quick audit of a thing, of the package that this process sees."""
    from other_seeds import moved_to

    from fairveil.proof.engine.adapter import adapters
    from fairveil.proof.engine.everything import QUICK, examine, things

    kind, _, name = title.partition(":")
    failed = 0
    for seed in seeds.split(","):
        try:
            with moved_to(int(seed)):
                if kind == "adapter":
                    adapters()[name]().check()
                    continue
                [thing] = [one for one in things((kind,)) if one.name == name]
                verdict = examine(thing, QUICK, seed=int(seed))
                said = "" if verdict.fine else str(verdict)
        except Exception as problem:
            said = str(problem) or type(problem).__name__
        if said:
            print("FAILED", f"seed{seed}", " ".join(said.split()))
            failed = 1
    return failed


def look(mistake: Mistake, folder: Path, wide: bool, seeds: str) -> tuple[str, dict[str, str]]:
    """Who noticed and what they said at each seed; nothing for nobody."""
    audits, tests = next(asked for start, asked in WIDE.items() if mistake.file.startswith(start))
    everybody = [*(f"audit:{one}" for one in audits), *tests] if wide else [mistake.caught]
    with planted(mistake, folder):
        for who in everybody:
            if who and (words := asked([who], folder, seeds)):
                return who, words
    return "", {}


class Answers:
    """What was answered, by whom: with a file, an answer is in it at once and is not asked for again.

    ``mistakes``: who noticed which and what they said, by seed; ``sound``: what they say of the code without a mistake.
    """

    def __init__(self, place: Path | None, seeds: str, wide: bool = False) -> None:
        self.place, self.seeds, self.wide = place, seeds, wide
        kept = json.loads(place.read_text()) if place is not None and place.exists() else {}
        if kept and (kept["seeds"], kept["wide"]) != (seeds, wide):
            raise SystemExit(f"{place} has answers at seeds {kept['seeds']}, wide: {kept['wide']}; give another --out")
        self.sound: dict[str, dict[str, str]] = kept.get("sound", {})
        self.mistakes: dict[str, tuple[str, dict[str, str]]] = kept.get("mistakes", {})

    def write(self) -> None:
        if self.place is not None:
            kept = {"seeds": self.seeds, "wide": self.wide, "sound": self.sound, "mistakes": self.mistakes}
            half = self.place.with_suffix(".half")
            half.write_text(json.dumps(kept, indent=1) + "\n")
            half.replace(self.place)

    def ask_without(self, everybody: set[str], folder: Path) -> None:
        """What fails at a seed in the code without a mistake: nobody who fails so can be said to notice one."""
        files: dict[str, list[str]] = {}
        for one in sorted(everybody - set(self.sound)):  # an audit by itself, tests of one file together
            files.setdefault(one if one.startswith("audit:") else one.partition("::")[0], []).append(one)
        for file, group in files.items():
            words = asked(group, folder, self.seeds)
            self.sound.update(dict.fromkeys(group, words))
            self.write()
            for seed, said in words.items():
                print(f"the code without a mistake is found wrong by {file}, seed {seed}: {said}", flush=True)

    def ask(self, mistake: Mistake, folder: Path) -> tuple[str, dict[str, str]]:
        """Who notices a mistake, and what they say at each seed at which they find nothing without it."""
        kept = self.mistakes.get(mistake.title)
        if kept is None or not (self.wide or kept[0] in ("", mistake.caught)):
            self.mistakes[mistake.title] = look(mistake, folder, self.wide, self.seeds)
            self.write()
        who, words = self.mistakes[mistake.title]
        return who, {seed: said for seed, said in words.items() if seed not in self.sound.get(who, {})}


TABLE = "| mistake | in | noticed by | at three seeds |\n|---|---|---|---|\n"


def page(text: str) -> str:
    """The page of planted mistakes with a table of all of them."""
    rows = []
    for one in mistakes():
        by = f"harmless: {one.harmless}" if one.harmless else f"`{one.caught}`" if one.caught else "not asked yet"
        mark = {True: "", False: " (not in the first run)", None: ""}[one.first]
        rows.append(f"| `{one.title}`: {one.words} | `{one.file}` | {by}{mark} | {one.day} |\n")
    return text[: text.index(TABLE)] + TABLE + "".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="part/name, or a part; all when left out")
    parser.add_argument("--wide", action="store_true", help="ask every audit and test of the part")
    parser.add_argument("--seeds", default=SEEDS, help=f"numbers with commas between them; {SEEDS} when left out")
    parser.add_argument("--out", type=Path, help="add findings to this JSON file; what is in it is not asked again")
    parser.add_argument("--audit", help=argparse.SUPPRESS)
    parser.add_argument("--page", action="store_true", help="write the table of docs/guarantees/planted.md")
    given = parser.parse_args()
    if given.page:
        place = ROOT / "docs" / "guarantees" / "planted.md"
        place.write_text(page(place.read_text()))
        return 0
    if given.audit is not None:
        return audit(given.audit, given.seeds)
    return run(given.names, Answers(given.out, given.seeds, given.wide))


def run(names: Sequence[str], answers: Answers) -> int:
    """Ask about the mistakes of these names and parts, all when there are none; 1 where one is not noticed."""
    chosen = [one for one in mistakes() if not names or {one.part, one.title} & set(names)]
    missed, seeds = list[str](), answers.seeds.split(",")
    caught = dict.fromkeys(seeds, 0)
    with copied() as folder:
        if not answers.wide:
            answers.ask_without({one.caught for one in chosen if one.caught}, folder)
        for mistake in chosen:
            if not mistake.stands or not (answers.wide or mistake.caught):
                print(f"{mistake.title}: {'nobody was asked yet' if mistake.stands else 'its line was rewritten'}")
                continue
            try:
                who, words = answers.ask(mistake, folder)
            except TimeoutError as problem:
                print(f"{mistake.title}: left open, {problem}", flush=True)
                missed.append(mistake.title)
                continue
            silent = [seed for seed in seeds if seed not in words]
            if silent and not mistake.harmless:
                missed.append(mistake.title)
            for seed in words:
                caught[seed] += 1
            quiet = f"NOBODY NOTICED at seed {', '.join(silent)}" if silent else ""
            print(f"{mistake.title}: {quiet} {who}: {next(iter(words.values()), '')}", flush=True)
    print(f"noticed of {len(chosen)}: " + ", ".join(f"{number} at seed {seed}" for seed, number in caught.items()))
    if missed:
        print("not noticed:", *missed)
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
