"""Makes static/plot.js from npm: python make.py. Needs node, npm and a registry; prints the hash of Plot's style.

One bundle of the marks that charts.js uses, with the licences of everything inside.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
import tempfile
from pathlib import Path

PLOT, ESBUILD = "0.6.17", "0.25.12"
HERE = Path(__file__).resolve().parent
OUT = HERE.parent / "static" / "plot.js"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "package.json").write_text('{"private": true, "type": "module"}')
        (place / "marks.js").write_text((HERE / "marks.js").read_text())
        packages = [f"@observablehq/plot@{PLOT}", f"esbuild@{ESBUILD}"]
        quiet = ["--silent", "--no-package-lock", "--no-audit", "--no-fund"]
        subprocess.run(["npm", "install", *quiet, *packages], cwd=place, check=True)
        options = ["--bundle", "--minify", "--format=iife", "--global-name=Plot", "--metafile=meta.json"]
        subprocess.run(["npx", "esbuild", "marks.js", *options, "--outfile=plot.js"], cwd=place, check=True)
        inside = json.loads((place / "meta.json").read_text())["inputs"]
        names = sorted({found[1] for path in inside if (found := re.match(r"node_modules/((?:@[^/]+/)?[^/]+)/", path))})
        OUT.write_bytes((place / "plot.js").read_bytes())
        OUT.with_name("plot.licences.txt").write_text(licences(place / "node_modules", names))
    print(f"{OUT.name}: {len(OUT.read_bytes()):,} bytes; style {style_hash(OUT.read_text())}")


def licences(modules: Path, names: list[str]) -> str:
    """Name, version and licence text of every package in the bundle."""
    parts = []
    for name in names:
        table = json.loads((modules / name / "package.json").read_text())
        texts = [file.read_text() for file in sorted((modules / name).glob("LICENSE*"))]
        parts.append(f"{name} {table['version']} ({table.get('license', 'see below')})\n\n{''.join(texts).strip()}\n")
    return ("\n" + "-" * 80 + "\n").join(parts)


def style_hash(bundle: str) -> str:
    """The hash of the style element that every plot holds, for the policy of the pages."""
    found = re.search(r'append\("style"\)\.text\(`(:where\(\.\$\{\w+\}\) \{.*?)`\)', bundle, re.DOTALL)
    name = re.search(r'"(plot-[0-9a-f]{6})"', bundle)
    if found is None or name is None:
        raise SystemExit("the bundle has no style as expected: look at plot.js")
    text = re.sub(r"\$\{\w+\}", name[1], found[1])
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


if __name__ == "__main__":
    main()
