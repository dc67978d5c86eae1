"""Every figure and table of chapters 4-6 at quick scale: pictures are plain data and the claims get their verdicts."""

from __future__ import annotations

import json
import re

import pytest

from fairveil import registry
from fairveil.lab import papers
from fairveil.lab.reproduce import reproduce

#: Claims that this project does not reproduce, by how they begin; the notes of the artefact say so.
OPEN = {
    "thesis/4.10": "demographic parity:",
    "thesis/theorems": "theorem 16 (demographic parity, label rates react)",
}
CODE_NAMES = re.compile(
    r"(?<![\w-])(?:alpha|beta|sigma|[nNC])_[ab]0?\b|\b(?:eqopt|EqOpt|EqLos|Simple|DP|UN|u_plus|groups\.\w+)\b"
)
SLOW = {"thesis/4.5", "thesis/4.8", "thesis/4.10"}
EXPECTED = [
    *("4.3", "4.4", "4.5", "4.6", "4.7", "4.8", "4.9", "4.10"),
    *("5.2", "5.3", "5.4", "5.5", "5.6", "table-5.1", "table-5.2", "table-5.3", "table-5.4"),
    *(f"6.{k}" for k in range(3, 15)),
    *("table-6.1", "table-6.2", "table-6.3", "examples", "theorems"),
]
NAMES = [f"thesis/{key}" for key in EXPECTED]


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in NAMES])
def test_artefact(name):
    papers.load()
    made = reproduce(registry.get("artefact", name), "quick")
    body = json.loads(json.dumps(made.to_dict(), allow_nan=False))
    assert not CODE_NAMES.findall(json.dumps([body["claims"], body["pictures"]])), "a reader meets plain words"
    assert made.pictures
    assert made.claims
    verdicts = {claim.text: claim.verdict for claim in made.claims}
    if name in OPEN:
        assert made.artefact.notes
        assert any(text.startswith(OPEN[name]) for text in verdicts)
        verdicts = {text: verdict for text, verdict in verdicts.items() if not text.startswith(OPEN[name])}
    if not made.generated:
        assert set(verdicts.values()) == {"holds"}, verdicts
