"""What is inside, as a CycloneDX 1.6 document: python deploy/sbom.py [OUT]. Run it where fairveil is installed.

The wheel with all that it needs for the service, as it stands in this environment, and what is bundled in plot.js.
"""

from __future__ import annotations

import json
import re
import sys
import uuid
from datetime import UTC, datetime
from importlib import metadata, resources
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

EXTRAS = ("service", "postgres")


def needed(name: str, extras: tuple[str, ...] = ()) -> dict[str, list[str]]:
    """A distribution and everything behind it that is installed here, each with what it asks for itself."""
    found: dict[str, list[str]] = {}
    asked = {plain(name): set(extras)}
    while asked:
        one, wanted = asked.popitem()
        found[one] = []
        for text in metadata.requires(one) or ():
            line = Requirement(text)
            fits = line.marker is None or any(line.marker.evaluate({"extra": extra}) for extra in (wanted or {""}))
            there = plain(line.name)
            if fits and _installed(there):
                found[one].append(there)
                if there not in found and there not in asked:
                    asked[there] = set(line.extras)
    return found


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def component(name: str) -> dict[str, Any]:
    facts = metadata.metadata(name)
    reference = f"pkg:pypi/{name}@{facts['Version']}"
    made = {"type": "library", "bom-ref": reference, "name": name, "version": facts["Version"], "purl": reference}
    licence = facts.get("License-Expression")
    return made | ({"licenses": [{"expression": licence}]} if licence else {})


def bundled() -> list[dict[str, Any]]:
    """The packages of the bundle of charts, from the file of their licences."""
    text = resources.files("fairveil.service.pages").joinpath("static/plot.licences.txt").read_text()
    found = re.findall(r"(?:\A|-{80}\n)(\S+) (\S+) \(([^)]+)\)\n", text)
    made = []
    for name, version, licence in found:
        reference = f"pkg:npm/{name.replace('@', '%40')}@{version}"
        given = {"license": {"id": licence}} if re.fullmatch(r"[A-Za-z0-9.+-]+", licence) else {"expression": licence}
        facts = {"type": "library", "bom-ref": reference, "name": name, "version": version, "purl": reference}
        made.append({**facts, "licenses": [given]})
    return made


def document() -> dict[str, Any]:
    tree = needed("fairveil", EXTRAS)
    parts = {name: component(name) for name in sorted(tree)}
    main, charts = parts.pop("fairveil"), bundled()
    references = {"fairveil": main["bom-ref"], **{name: part["bom-ref"] for name, part in parts.items()}}
    edges = [{"ref": references[name], "dependsOn": sorted({references[one] for one in below})}
             for name, below in sorted(tree.items())]  # fmt: skip
    edges = [edge | {"dependsOn": edge["dependsOn"] + [one["bom-ref"] for one in charts]}
             if edge["ref"] == main["bom-ref"] else edge for edge in edges]  # fmt: skip
    about = {"timestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), "component": {**main, "type": "application"}}
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid4()}",
        "version": 1,
        "metadata": about,
        "components": [*parts.values(), *charts],
        "dependencies": edges,
    }


def main() -> None:
    text = json.dumps(document(), indent=1) + "\n"
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
