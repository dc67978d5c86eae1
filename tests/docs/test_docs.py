"""The documentation is true: examples run, every public name and command is there, links lead somewhere."""

import ast
import os
import re
import signal
import socket
import subprocess
import sys
import tomllib
from contextlib import suppress
from pathlib import Path

import markdown
import pytest
import typer

import fairveil
from fairveil import data, registry
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


JOBS = {part.split(":")[0]: part for part in (ROOT / "docs" / "jobs.md").read_text().split("\n## ")[1:]}
MADE = {
    "A trial": {"plan.html": "people", "report.html": "A replay", "trial.db": "", "ward.html": "never answered"},
    "A lender": {"lender.html": "Rates by group", "rates.html": "eps = 1", "lender.joblib": ""},
    "A platform": {"window.html": "newness"},
    "A city": {"private.csv": "released", "private.svg": "trips", "stream.html": "the last 336 hours"},
    "A student": {"compared/index.html": "policy moss on bernoulli", "compared.csv": "kl-ucb"},
    "A policy analyst": {"years/index.html": "years", "years.csv": "eqloss", "dp.html": "years"},
    "From Azure Personalizer": {"news.html": "culture"},
}


def commands(page):
    """All that a reader copies from a page, as one script."""
    return "\n".join(re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL))


def typed(blocks, folder):
    """Type the commands in an empty folder."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        script = blocks.replace("8091", str(free.getsockname()[1]))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    shell = subprocess.Popen(
        ["bash", "-e", "-c", script], cwd=folder, env={**os.environ, "PATH": path}, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        said, _ = shell.communicate(timeout=600)
    finally:
        with suppress(ProcessLookupError):  # a service that a failed script left behind
            os.killpg(shell.pid, signal.SIGKILL)
    assert shell.returncode == 0, said


@pytest.mark.parametrize("job", MADE)
def test_a_job_is_copied_from_its_page_and_ends_with_the_files_it_names(job, tmp_path):
    page = JOBS.get(job) or (ROOT / "docs" / "guides" / "from-personalizer.md").read_text()
    typed(commands(page), tmp_path)
    for file, words in MADE[job].items():
        assert words in (tmp_path / file).read_text(errors="replace"), file
    if job == "A platform":
        promised_weight(tmp_path / "window.html")
    if job == "A city":
        hours = (tmp_path / "private.csv").read_text().splitlines()[1:]
        lost = sum(hour.endswith(",lost") for hour in hours)
        assert (len(hours), lost) == (3000, 32)
        assert 'class="lost"' in (tmp_path / "stream.html").read_text()  # on grey ground


def promised_weight(page):
    """What visitors click on is learned: the weight of the script within 0.25, some three standard errors."""
    rows = re.findall(r"<td[^>]*>(-?[\d.]+)</td>\s*<td[^>]*>(-?[\d.]+) to -?[\d.]+</td>", page.read_text())
    _, _, (match, low) = rows
    assert float(low) > 0
    assert abs(float(match) - 0.6) < 0.25


def test_the_promised_weight_does_not_depend_on_the_speed_of_the_machine(tmp_path):
    """With a long window every visitor comes before the first release, as on a fast machine with a short one."""
    blocks = commands(JOBS["A platform"])
    assert '"wait": "1s"' in blocks
    typed(blocks.replace('"wait": "1s"', '"wait": "20s"'), tmp_path)
    promised_weight(tmp_path / "window.html")


def test_every_job_of_the_page_is_tried():
    assert set(JOBS) == set(MADE) - {"From Azure Personalizer"}


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


def all_options():
    """Every command with the options it has."""
    found = {}

    def walk(command, path):
        for name, inner in getattr(command, "commands", {}).items():
            walk(inner, (*path, name))
        if not hasattr(command, "commands"):
            params = command.get_params(typer.Context(command))
            words = {word for part in params for word in part.opts if word.startswith("--")}
            found[" ".join(path)] = words - {"--help"}

    walk(typer.main.get_command(app), ("fairveil",))
    return found


def test_every_option_is_in_the_reference():
    rows = [
        line for line in (ROOT / "docs" / "reference.md").read_text().splitlines() if line.startswith("| `fairveil ")
    ]
    for command, options in all_options().items():
        [row] = [row for row in rows if " ".join(command.split()[:2]) in row]
        for option in options:
            assert f"`{option}`" in row, f"{command} {option} is not in the reference"


def test_no_number_of_the_http_page_is_lost_to_markdown():
    """A line that begins with "422." becomes a list, and the number is gone from the built page."""
    text = (ROOT / "docs" / "http.md").read_text()
    page = markdown.markdown(text, extensions=["tables"])
    shown = re.sub(r"<[^>]+>", " ", page)
    for status in set(re.findall(r"\b[2-5]\d\d\b", text)):
        assert len(re.findall(rf"\b{status}\b", shown)) == len(re.findall(rf"\b{status}\b", text)), status
    assert "<ol" not in page


def test_version_and_date_are_the_same_everywhere():
    cited = (ROOT / "CITATION.cff").read_text()
    assert f"version: {fairveil.__version__}" in cited
    date = re.search(r"date-released: (\S+)", cited)[1]
    assert f"## {fairveil.__version__} ({date})" in (ROOT / "CHANGELOG.md").read_text()


def test_every_guide_is_reachable_from_the_front_page():
    for page in (ROOT / "docs" / "index.md", ROOT / "README.md"):
        front = page.read_text()
        missing = [file.name for file in (ROOT / "docs" / "guides").glob("*.md") if f"guides/{file.name}" not in front]
        assert not missing, page.name


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_every_reader_has_a_picture_three_commands_and_a_page_to_go_on(page):
    readers = (ROOT / page).read_text().split("## Who are you?")[1].split("\n## ")[0].split("### ")[1:]
    assert len(readers) == 7
    for reader in readers:
        words, on = reader.split("Go on: ")
        assert len(re.findall(r"^    fairveil .+$", words, flags=re.M)) == 3, words
        (shown,) = re.findall(r"!\[[^\]]+\]\(([^)]+\.svg)\)", words)
        assert "prefers-color-scheme" in (ROOT / page).parent.joinpath(shown).read_text()
        assert "](" in on


def test_every_object_of_the_api_reference_exists():
    from importlib import import_module

    for target in re.findall(r"^::: (\S+)$", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE):
        module, _, name = target.rpartition(".")
        assert hasattr(import_module(module), name) or import_module(target), target


def test_every_page_is_in_the_navigation():
    text = (ROOT / "mkdocs.yml").read_text()
    for page in (ROOT / "docs").rglob("*.md"):
        assert str(page.relative_to(ROOT / "docs")) in text


@pytest.mark.parametrize("file", sorted((ROOT / "examples").glob("*.toml")), ids=lambda file: file.stem)
def test_every_example_runs_and_is_named_in_the_quickstart(file):
    assert f"examples/{file.name}" in (ROOT / "docs" / "quickstart.md").read_text()
    spec = tomllib.loads(file.read_text())
    needed = spec.get("environment", {}).get("log", {}).get("dataset", {}).get("name")
    if needed and not data.available(needed):
        pytest.skip(f"the data set {needed} is not on this machine")
    assert fairveil.run(spec)["metrics"]


def test_the_readme_and_its_file_are_the_same_spec():
    [source] = [match.group(1) for match in FENCE.finditer((ROOT / "README.md").read_text())]
    [spec] = [
        node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Dict) and node.keys[0].value == "task"
    ]
    assert ast.literal_eval(spec) == tomllib.loads((ROOT / "examples" / "first.toml").read_text())


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
        "releaser",
        "schedule",
        "sequence",
        "metric",
    ],
)
def test_every_registered_name_is_documented(kind):
    text = everything()
    own = [entry for entry in registry.entries(kind) if entry.target.__module__.startswith("fairveil.")]
    missing = [entry.name for entry in own if f"`{entry.name}`" not in text]
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
