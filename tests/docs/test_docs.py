"""The documentation is true: examples run, every public name and command is there, links lead somewhere."""

import re
import subprocess
from pathlib import Path

import pytest

import fairveil
from fairveil import registry
from fairveil.cli import app

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
WITH_CODE = [page for page in PAGES if FENCE.search(page.read_text())]


def name(page):
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", WITH_CODE, ids=name)
def test_examples_on_the_page_run_from_top_to_bottom(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    source = "\n".join(match.group(1) for match in FENCE.finditer(page.read_text()))
    exec(compile(source, name(page), "exec"), {"__name__": "docs"})


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
        if re.match(r"[a-z]+:", target):
            continue
        base = ROOT if page.is_symlink() else page.parent
        assert (base / target).exists(), f"{name(page)} links to {target}"


def everything():
    return "\n".join(page.read_text() for page in PAGES)


def test_every_public_name_and_command_is_documented():
    text = everything()
    for public in fairveil.__all__:
        if public != "__version__":
            assert public in text, f"{public} is not in the docs"
    commands = [command.name for command in app.registered_commands] + [group.name for group in app.registered_groups]
    for command in commands:
        assert f"fairveil {command}" in text, f"fairveil {command} is not in the docs"


@pytest.mark.parametrize(
    "kind",
    [
        "policy",
        "environment",
        "task",
        "mechanism",
        "sum",
        "dataset",
        "generator",
        "learner",
        "merit",
        "schedule",
        "metric",
    ],
)
def test_every_registered_name_is_documented(kind):
    text = everything()
    missing = [entry.name for entry in registry.entries(kind) if f"`{entry.name}`" not in text]
    assert not missing, f"{kind}s that no page names in backticks: {missing}"


def test_the_repository_names_no_machine_and_no_registry():
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    if not tracked:
        pytest.skip("not a git checkout")
    wrong = re.compile(
        r"/(?:w"
        + r"ork|r"
        + r"oot|ho"
        + r"me)/|py"
        + r"pi\.org|python"
        + r"hosted|registry\.np"
        + r"mjs|deb\.deb"
        + r"ian"
    )
    found = []
    for file in tracked:
        path = ROOT / file
        if path.is_file() and path.suffix not in (".png", ".parquet"):
            found += [f"{file}: {match.group()}" for match in wrong.finditer(path.read_text(errors="ignore"))]
    assert not found
