"""One module per paper (or chapter): its figures and tables as artefacts. A new paper adds one line here."""

from __future__ import annotations

from importlib import import_module

MODULES = (
    "dp_ncb",
    "private_fair_greedy",
    "fairx",
    "fairx_map",
    "thesis_consensus",
    "thesis_streams",
    "thesis_streams_ar1",
    "fair_private_classification",
    "thesis_participation",
    "thesis_learned",
    "thesis_qualification",
    "thesis_compas",
    "thesis_strategic",
    "thesis_credit",
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


def load() -> None:
    """Import every paper module, so that its artefacts are registered."""
    for module in MODULES:
        import_module(f"{__name__}.{module}")
