"""Record what the specs of `specs.py` give, or compare with what was recorded.

    python tests/golden/record.py                  write records.json (before a change)
    python tests/golden/record.py --only a,b       write these records anew; changed.toml says why
    python tests/golden/record.py --check          compare: floats to 1e-9 relative, everything else exactly
    python tests/golden/record.py --check --exact  compare bit for bit; only on the machine that recorded
    python tests/golden/record.py --check --only private-nash,ba

``records.json`` holds ``spec``, ``guarantee``, ``metrics`` and ``series`` of every result, one spec a line. A list of
more than 24 values is kept as its length, a digest of all (compared with ``--exact``) and 8 of them.
What may differ from the record stands in ``changed.toml`` with the reason; an entry that matches nothing is an error.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
import tomllib
import warnings
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
RECORDS, CHANGED = HERE / "records.json", HERE / "changed.toml"
KEPT = ("spec", "guarantee", "metrics", "series")
LONG, SHOWN = 24, 8
RELATIVE, ABSOLUTE = 1e-9, 1e-12


class Difference(NamedTuple):
    """A place where a result is not what was recorded."""

    name: str
    path: str
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.name}: {self.path}: recorded {_short(self.before)}, now {_short(self.after)}"


class Allowed(NamedTuple):
    """An entry of ``changed.toml``: patterns of names and of paths, and why these values may differ."""

    name: str
    path: str
    reason: str

    def covers(self, difference: Difference) -> bool:
        return fnmatchcase(difference.name, self.name) and fnmatchcase(difference.path, self.path)


def specs() -> dict[str, dict[str, Any]]:
    """The list, by name."""
    sys.path.insert(0, str(HERE))
    try:
        from specs import SPECS
    finally:
        sys.path.remove(str(HERE))
    return SPECS


def result(spec: dict[str, Any]) -> dict[str, Any]:
    """The repeatable part of a result, as it is recorded."""
    import fairveil

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # small sizes are below what some theorems ask for, and say so
        found = fairveil.run(spec)
    return {key: condensed(json.loads(json.dumps(found[key]))) for key in KEPT}


def condensed(value: Any) -> Any:
    """A value with long lists cut down to their length, digest and some values."""
    if isinstance(value, dict):
        return {key: condensed(own) for key, own in value.items()}
    if not isinstance(value, list):
        return value
    if len(value) <= LONG or not all(isinstance(own, (int, float, str, type(None))) for own in value):
        return [condensed(own) for own in value]
    digest = hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]
    places = [round(k * (len(value) - 1) / (SHOWN - 1)) for k in range(SHOWN)]
    return {"length": len(value), "digest": digest, "some": [value[place] for place in places]}


def differences(name: str, before: Any, after: Any, exact: bool, path: str = "") -> Iterator[Difference]:
    """Where two recorded values are not the same."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            own = f"{path}.{key}" if path else key
            if key == "digest" and "some" in before and not exact:
                continue
            yield from differences(name, before.get(key, "(absent)"), after.get(key, "(absent)"), exact, own)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for place, (own, other) in enumerate(zip(before, after, strict=True)):
            yield from differences(name, own, other, exact, f"{path}.{place}")
    elif not same(before, after, exact):
        yield Difference(name, path, before, after)


def same(before: Any, after: Any, exact: bool) -> bool:
    """Equal bit for bit, or, for a number that is not an integer, to 1e-9."""
    if type(before) is not type(after):
        return False
    if not isinstance(before, float) or math.isnan(before) or math.isinf(before):
        return json.dumps(before) == json.dumps(after)
    if exact:
        return before.hex() == after.hex()
    return math.isclose(before, after, rel_tol=RELATIVE, abs_tol=ABSOLUTE)


def allowed() -> list[Allowed]:
    """What ``changed.toml`` says may differ."""
    return [Allowed(**entry) for entry in tomllib.loads(CHANGED.read_text()).get("change", [])]


def check(name: str, exact: bool) -> list[Difference]:
    """All differences of one spec from its record, allowed or not."""
    return list(differences(name, recorded()[name], result(specs()[name]), exact))


def recorded() -> dict[str, Any]:
    """Every record, by name."""
    return json.loads(RECORDS.read_text())


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 100 else f"{text[:100]}..."


def write(names: list[str]) -> None:
    """Record these specs; the others keep their records."""
    kept = recorded() if RECORDS.exists() else {}
    made = {name: result(spec) if name in names else kept[name] for name, spec in specs().items()}
    lines = [f"{json.dumps(name)}: {json.dumps(record, separators=(',', ':'))}" for name, record in made.items()]
    RECORDS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{len(names)} specs recorded, {RECORDS.stat().st_size // 1024} KB")


def main() -> int:
    parser = argparse.ArgumentParser(description="golden results: record them, or compare with them")
    parser.add_argument("--check", action="store_true", help="compare instead of recording")
    parser.add_argument("--exact", action="store_true", help="bit for bit, on the machine that recorded")
    parser.add_argument("--only", default="", help="names, with commas")
    given = parser.parse_args()
    names = [name for name in given.only.split(",") if name] or list(specs())
    if not given.check:
        write(names)
        return 0
    entries, used, wrong = allowed(), set(), 0
    for name in names:
        found = check(name, given.exact)
        used |= {entry for entry in entries for difference in found if entry.covers(difference)}
        bad = [difference for difference in found if not any(entry.covers(difference) for entry in entries)]
        wrong += bool(bad)
        for difference in bad[:5]:
            print(difference)
        if len(bad) > 5:
            print(f"{name}: and {len(bad) - 5} more")
    unused = [] if given.only else [entry for entry in entries if entry not in used]
    for entry in unused:
        print(f"changed.toml: nothing differs for {entry.name} {entry.path}: remove the entry")
    print(f"{len(names) - wrong} of {len(names)} specs {'bit-identical' if given.exact else 'equal to 1e-9'}")
    return int(bool(wrong or unused))


if __name__ == "__main__":
    raise SystemExit(main())
