"""One module per paper (or chapter): its figures and tables as artefacts. A new paper adds one line here."""

from __future__ import annotations

from importlib import import_module

MODULES = (
    "dp_ncb",
    "private_fair_greedy",
    "fairx",
    "thesis_participation",
    "thesis_learned",
    "thesis_qualification",
    "thesis_compas",
    "thesis_strategic",
    "thesis_credit",
)


def load() -> None:
    """Import every paper module, so that its artefacts are registered."""
    for module in MODULES:
        import_module(f"{__name__}.{module}")
