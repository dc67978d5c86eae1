"""`docs/papers.md`: nothing of the five documents is without a row, and every row leads somewhere."""

import re
from pathlib import Path

import pytest

from fairveil import registry
from fairveil.lab import papers
from fairveil.lab.artefact import SCALES
from fairveil.lab.papers import MEASURED

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/papers.md").read_text()
TEXTS = ROOT.parent / "shared/papers"
SECTIONS = {
    "DP-NCB": "dp-ncb",
    "FairX": "fairx-federated",
    "Private-Fair-Greedy": "private-fair-greedy",
    "Fair private classification": "fair-private-classification",
    "Thesis": "thesis",
}
NUMBERED = re.compile(
    r"\b(Theorem|Lemma|Proposition|Corollary|Remark|Algorithm|Figure|Table) (\d+(?:\.\d+)?|A\.\d)(?!\w|\.\d)"
)
PANEL = re.compile(r"\b(\d\.\d+)([a-f])(?![a-z_])")
LEMMAS = re.compile(r"\b[Ll]emmas ([^.]*)")
ELSEWHERE = {
    "fairx-federated": {"Lemma 22", "Proposition 2", "Remark 3", "Theorem 2"},
    "private-fair-greedy": {"Lemma 1.7", "Proposition 1.3", "Proposition 1.6", "Theorem 1.2"},
    "thesis": {"Theorem 3.2"},
}
"""Items of other authors' papers that a text cites by number."""


def rows(title):
    part = PAGE.split(f"\n## {title}")[1].split("\n## ")[0]
    found = [line.strip("|").split("|") for line in part.splitlines() if line.startswith("|")][2:]
    return {cells[0].strip(): tuple(cell.strip() for cell in cells[1:]) for cells in found}


def listed(title):
    """Items of a section; a range ('Lemmas 10 to 12') counts for each of its numbers."""
    found = set()
    for item in rows(title):
        span = re.match(r"(\w+?)s (\d+) to (\d+)$", item)
        found |= {f"{span[1]} {n}" for n in range(int(span[2]), int(span[3]) + 1)} if span else {item}
    return found


@pytest.mark.parametrize("title", SECTIONS)
def test_every_numbered_item_of_the_text_has_a_row(title):
    text = TEXTS / f"{SECTIONS[title]}.txt"
    if not text.exists():
        pytest.skip("the papers' texts are not beside the repository")
    numbered = {f"{kind} {number}" for kind, number in NUMBERED.findall(text.read_text())}
    for named in LEMMAS.findall(text.read_text()):  # 'lemmas 10-12 (for GDP) and 17-19 (for LDP)'
        for first, final in re.findall(r"\b(\d+)-(\d+)\b", named):
            numbered |= {f"Lemma {n}" for n in range(int(first), int(final) + 1)}
    numbered -= ELSEWHERE.get(SECTIONS[title], set())
    panels = {item.split(" (")[0] for item in listed(title)}
    assert numbered - panels == set()


def test_every_lettered_panel_stands_in_the_row_of_its_figure():
    text = TEXTS / "thesis.txt"
    if not text.exists():
        pytest.skip("the papers' texts are not beside the repository")
    shown = dict(
        re.match(r"Figure ([\d.]+)(?: \((.*)\))?$", item).groups("") for item in listed("Thesis") if "Figure" in item
    )
    named = {(figure, letter) for figure, letter in PANEL.findall(text.read_text()) if figure in shown}
    assert {figure for figure, _ in named} > {"2.6", "4.5", "6.13"}
    for figure, letter in named:
        first, *others = re.findall(r"\b[a-f]\b", shown[figure]) or [""]
        assert first <= letter <= (others or [""])[-1], (figure, letter)


@pytest.mark.parametrize("title", SECTIONS)
def test_every_row_leads_somewhere(title):
    papers.load()
    artefacts = {entry.name for entry in registry.entries("artefact")}
    for item, (where, verdict, _) in rows(title).items():
        assert verdict, item
        assert not verdict.startswith("see the"), f"{item}: a verdict, not where to look for one"
        if where in ("not done", "cited"):
            assert verdict.startswith(f"{where}: "), item
            continue
        for name in re.findall(r"`([a-z0-9-]+/[a-z0-9.-]+)`", where):
            if not name.startswith("fairness/"):
                assert name in artefacts, (item, name)
        for path in re.findall(r"`(tests/[\w/.]+)`", where):
            assert (ROOT / path).exists(), (item, path)
        for link in re.findall(r"\]\((errata/[\w-]+\.md)\)", where):
            assert (ROOT / "docs" / link).exists(), (item, link)


@pytest.mark.parametrize("title", SECTIONS)
def test_the_scale_of_a_row_is_the_largest_that_all_its_artefacts_were_run_at(title):
    for item, (where, _, scale) in rows(title).items():
        named = [name for name in re.findall(r"`([a-z0-9-]+/[a-z0-9.-]+)`", where) if name in MEASURED]
        largest = [max(MEASURED[name], key=SCALES.index) for name in named]
        assert scale == (min(largest, key=SCALES.index) if largest else "-"), item


def test_every_artefact_has_one_row_with_what_it_cost_at_paper_scale():
    part = (ROOT / "docs/reproduce.md").read_text().split("\n## What was run at paper scale")[1].split("\n## ")[0]
    found = re.findall(r"^\| `([^`]+)` \| (\d+) \| (\d+) \| \d+ \w", part, re.M)
    papers.load()
    assert sorted(name for name, _, _ in found) == sorted(entry.name for entry in registry.entries("artefact"))
    seconds, peak = re.search(r"All of them together: ([\d,]+) CPU seconds.* at most ([\d,]+) MB", part).groups()
    assert abs(sum(int(cpu) for _, cpu, _ in found) - int(seconds.replace(",", ""))) <= 50
    assert max(int(memory) for _, _, memory in found) == int(peak.replace(",", ""))


def test_every_artefact_is_named():
    papers.load()
    named = set(re.findall(r"`([a-z0-9-]+/[a-z0-9.-]+)`", PAGE))
    between = {f"fairx/exp{n}" for n in (2, 3)}
    assert {entry.name for entry in registry.entries("artefact")} - named - between == set()


@pytest.mark.parametrize("title", SECTIONS)
def test_the_counts_are_those_of_the_rows(title):
    lines = [line.strip("|").split("|") for line in PAGE.split("\n## ")[0].splitlines() if line.startswith("|")]
    kinds = [cell.strip() for cell in lines[0][1:]]
    [stated] = [cells[1:] for cells in lines[2:] if cells[0].strip().startswith(title)]
    for kind, cell in zip(kinds, stated, strict=True):
        assert sum(item.startswith(f"{kind} ") for item in listed(title)) == int(cell.split()[0]), kind
