"""Reproducing artefacts: run their specs, draw their pictures, decide their claims, remember the verdicts."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fairveil import registry
from fairveil.errors import DataError, SpecError, at, did_you_mean
from fairveil.lab import papers
from fairveil.lab.artefact import DECIDING, SCALES, Artefact, Claim, Picture, Results, Scale, have, say
from fairveil.running.engines import Engine
from fairveil.running.progress import Progress
from fairveil.running.runner import plain, run_many
from fairveil.running.store import ResultStore, write_atomically, writing

ProgressOf = Callable[[str], Progress]


@dataclass(frozen=True)
class Reproduction:
    """One artefact as it came out."""

    artefact: Artefact
    scale: Scale
    results: Results
    pictures: list[Picture]
    claims: list[Claim]
    generated: tuple[str, ...]
    cpu_seconds: float
    wall_seconds: float

    def verdicts(self) -> dict[str, int]:
        """How many claims hold, do not hold, or are undecided."""
        return {v: sum(claim.verdict == v for claim in self.claims) for v in DECIDING}

    def to_dict(self) -> dict[str, Any]:
        return {
            "artefact": self.artefact.name,
            "title": self.artefact.title,
            "source": self.artefact.source,
            "notes": list(self.artefact.notes),
            "scale": self.scale,
            "generated": list(self.generated),
            "claims": [plain(claim.to_dict()) for claim in self.claims],
            "pictures": [
                {"kind": type(picture).__name__.lower(), **plain(asdict(picture))} for picture in self.pictures
            ],
        }


def artefacts(wanted: list[str] | None = None) -> list[type[Artefact]]:
    """The artefacts of these names: ``all``, a paper (``dp-ncb``), or one (``dp-ncb/b``)."""
    papers.load()
    known = {entry.name: entry.target for entry in registry.entries("artefact")}
    names = sorted(known, key=_natural)
    if not wanted or wanted == ["all"]:
        return [known[name] for name in names]
    chosen: list[str] = []
    for want in wanted:
        found = [name for name in names if want == "all" or name == want or name.startswith(f"{want}/")]
        if not found:
            papers_too = sorted({name.split("/")[0] for name in names})
            raise SpecError(
                "there is no artefact or paper of this name",
                path="artefact",
                given=want,
                allowed=f"all, {', '.join(papers_too)}, or one of {len(names)} artefacts (fairveil reproduce --list)",
                fix=did_you_mean(want, [*papers_too, *names]),
            )
        chosen += [name for name in found if name not in chosen]
    return [known[name] for name in chosen]


def reproduce(
    kind: type[Artefact],
    scale: Scale,
    *,
    engine: str | Engine = "serial",
    store: ResultStore | None = None,
    progress: Progress | None = None,
) -> Reproduction:
    """Run one artefact at a scale. Data sets that are not on the machine are replaced by generated ones and named."""
    if scale not in SCALES:
        raise SpecError("there is no such scale", path="scale", given=scale, allowed=", ".join(SCALES))
    artefact = kind()
    started = time.perf_counter()
    try:
        results = run_many(artefact.specs(scale), engine=engine, store=store, progress=progress)
    except SpecError as problem:
        raise at(problem, artefact.name) from None
    pictures = [say(picture, artefact.words) for picture in artefact.pictures(results)]
    claims = [say(claim, artefact.words) for claim in artefact.claims(results)]
    cpu = sum(result["meta"]["cpu_seconds"] for result in results.values())
    generated = tuple(name for name in artefact.data if not have(name))
    return Reproduction(artefact, scale, results, pictures, claims, generated, cpu, time.perf_counter() - started)


def reproduce_all(
    kinds: list[type[Artefact]],
    scale: Scale,
    folder: Path,
    *,
    engine: Engine,
    progress: ProgressOf,
) -> Iterator[tuple[type[Artefact], Reproduction | DataError]]:
    """Reproduce one after the other into a folder; an artefact whose data cannot be had is reported, not fatal."""
    store = ResultStore(folder / "results")
    for kind in kinds:
        try:
            made = reproduce(kind, scale, engine=engine, store=store, progress=progress(kind.name))
        except DataError as problem:
            yield kind, problem
            continue
        remember(made, folder)
        yield kind, made


def remember(made: Reproduction, folder: Path) -> Path:
    """Write what an artefact showed (equal runs, equal files) and, beside it, what it cost."""
    place = folder / "artefacts" / made.scale
    stem = made.artefact.name.replace("/", "-")
    body = json.dumps(made.to_dict(), sort_keys=True, indent=1, allow_nan=False) + "\n"
    cost = {"cpu_seconds": made.cpu_seconds, "wall_seconds": made.wall_seconds}
    with writing(place):
        place.mkdir(parents=True, exist_ok=True)
        write_atomically(place / f"{stem}.json", body.encode())
        write_atomically(place / f"{stem}.cost.json", (json.dumps(cost) + "\n").encode())
    return place / f"{stem}.json"


def remembered(name: str, scale: Scale, folder: Path) -> dict[str, Any] | None:
    """The last verdicts and costs of an artefact in this folder, None when it has not been made there."""
    stem = name.replace("/", "-")
    place = folder / "artefacts" / scale
    if not (place / f"{stem}.json").exists():
        return None
    body = json.loads((place / f"{stem}.json").read_text())
    cost = place / f"{stem}.cost.json"
    return {**body, "cost": json.loads(cost.read_text()) if cost.exists() else None}


def _natural(name: str) -> list[Any]:
    """Sort key that puts 4.10 after 4.9."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]
