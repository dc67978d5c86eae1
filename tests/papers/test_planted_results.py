"""A world without the effect, through the artefact's own measuring code, refutes what the artefact claims."""

from __future__ import annotations

import copy

import pytest

import fairveil
from fairveil.lab.papers import thesis_credit_figures, thesis_credit_tables, thesis_qualification


def alike(credit):
    """Both groups are the first one's people; costs and transitions stay."""

    def people(*given, **more):
        groups = copy.deepcopy(credit(*given, **more))
        first, second = groups.values()
        second.update({key: first[key] for key in ("features", "qualified")})
        return groups

    return people


PLANTED = {
    "table 6.2": (
        thesis_credit_tables,
        thesis_credit_tables.Table62,
        ("every entry within", "African-Americans are disadvantaged"),
    ),
    "table 6.3": (thesis_credit_tables, thesis_credit_tables.Table63, ("gain : loss",)),
    "figure 6.12": (
        thesis_credit_figures,
        thesis_credit_figures.Figure612,
        ("beta costs, eqopt: b is behind", "uniform costs, dp: b is behind"),
    ),
    "figure 5.4": (
        thesis_qualification,
        thesis_qualification.Figure54,
        (
            "(1) UN",
            "DP is more equitable than UN",
            "DP is more equitable than EqOpt",
            "(2) UN",
            "(4) EqOpt: when T10 is small",
        ),
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_groups_without_a_difference_refute(name, monkeypatch):
    module, kind, claims = PLANTED[name]
    monkeypatch.setattr(module, "credit", alike(module.credit))
    artefact = kind()
    results = {label: fairveil.run(spec) for label, spec in artefact.made("quick", "fitted").items()}
    said = {claim.text: claim.verdict for claim in artefact.said(results, "fitted")}
    for start in claims:
        found = [verdict for text, verdict in said.items() if text.startswith(start)]
        assert found
        assert "holds" not in found, (start, said)
