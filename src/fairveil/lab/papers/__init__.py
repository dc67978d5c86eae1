"""Figures and tables of papers as artefacts, in modules named by paper (or chapter) and by what they show.

A new module adds one line here. What artefacts cost on ordinary cores was measured once (``costs.txt``);
`fairveil reproduce --list` prefers what a run here cost.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from fairveil.lab.artefact import SCALES

MODULES = (
    "dp_ncb",
    "dp_ncb_theorems",
    "private_fair_greedy",
    "fairx",
    "fairx_ours",
    "fairx_readings",
    "fairx_theorems",
    "thesis_consensus",
    "thesis_consensus_private",
    "thesis_streams",
    "thesis_streams_ar1",
    "fair_private_classification_theorems",
    "fair_private_classification",
    "thesis_participation",
    "thesis_learned",
    "thesis_qualification",
    "thesis_compas",
    "thesis_strategic",
    "thesis_strategic_surfaces",
    "thesis_credit_tables",
    "thesis_credit_figures",
    "thesis_theorems",
)

NAMES = {
    "dp-ncb": "DP-NCB: Nash-fair private bandits",
    "private-fair-greedy": "Private-Fair-Greedy: group-meritocratic private bandits",
    "fair-private-classification": "Fair private classification: what privacy and group fairness allow together",
    "fairx": "FairX: exposure-fair federated bandits",
    "thesis": "Thesis: private distributed learning and streams; who stays, who becomes qualified, who manipulates",
}
"""What readers call a paper; artefacts are named by the short form."""


def _measured(table: str) -> dict[str, dict[str, int]]:
    """A name and one column a scale on each line; "-" was not measured."""
    rows = [row.split() for row in table.splitlines() if not row.startswith("#")]
    return {
        name: {scale: int(cost) for scale, cost in zip(SCALES, costs, strict=True) if cost != "-"}
        for name, *costs in rows
    }


MEASURED = _measured(Path(__file__).with_name("costs.txt").read_text(encoding="utf-8"))
"""About how many CPU seconds, by artefact and scale, once everything is compiled. What is absent was not measured.

At paper scale with what a first run compiles.
"""


def load() -> None:
    """Import every paper module, so that its artefacts are registered."""
    for module in MODULES:
        import_module(f"{__name__}.{module}")
