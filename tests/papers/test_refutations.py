"""No claim that cannot fail: every one in the registry says what would refute it, and a planted result refutes it."""

from __future__ import annotations

import pytest
from plants import refutations

from fairveil.federated.schedules import Doubling, Paper
from fairveil.lab import papers
from fairveil.lab.papers import dp_ncb, dp_ncb_theorems, fairx_theorems, thesis_credit_figures, thesis_strategic
from fairveil.lab.papers import fair_private_classification_theorems as classification
from fairveil.lab.reproduce import artefacts, reproduce


class Apart(Paper):
    """A protocol that doubles for ever."""

    def times(self, rounds, agents, dimension):
        return Doubling().times(rounds, agents, dimension)


def relabelled(fico_groups):
    """Who repays and who does not, under one another's names."""

    def groups(*given, **more):
        found = fico_groups(*given, **more)
        return {
            name: {**table, "features": {"0": table["features"]["1"], "1": table["features"]["0"]}}
            for name, table in found.items()
        }

    return groups


def doubled(local_sensitivities):
    """Two rows replaced instead of one."""
    return lambda *given: {size: (2.5 * true, bound) for size, (true, bound) in local_sensitivities(*given).items()}


def fewer_trials(specs):
    """An audit is as easily refuted with half of its trials."""
    return lambda audit, scale: {label: {**spec, "trials": 20_000} for label, spec in specs(audit, scale).items()}


def larger(factor, place=None):
    """A quantity of a lemma that is so many times as large."""

    def patched(found):
        def measured(*given):
            seen = found(*given)
            return seen * factor if place is None else (*seen[:place], seen[place] * factor, *seen[place + 1 :])

        return measured

    return patched


#: Where a claim is not read from results: modules and names that are replaced, and by what.
WORLDS = {
    "dp-ncb/theorems": [(dp_ncb_theorems, "ALPHA", lambda found: 1.0)],
    "fair-private-classification/lemma-2": [(classification, "local_sensitivities", doubled)],
    "fairx/theorems": [
        (fairx_theorems, "potential", larger(5.0, 0)),
        (fairx_theorems, "wandering", larger(50.0)),
        (fairx_theorems, "instantaneous", larger(10.0)),
        (fairx_theorems, "Paper", lambda found: Apart),
        (fairx_theorems, "lemmas", lambda found: found.__wrapped__),
    ],
    "thesis/6.3": [(thesis_strategic, "disincentive_condition", lambda found: lambda *given: True)],
    "thesis/6.4": [(thesis_strategic, "rising_gain_limit", lambda found: lambda cost: 0.5)],
    "thesis/6.10": [(thesis_credit_figures, "fico_groups", relabelled)],
    "thesis/6.11": [(thesis_credit_figures, "fico_groups", relabelled)],
}
papers.load()
NAMES = [kind.name for kind in artefacts()]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_every_claim_is_refuted_by_a_planted_result(name, results_of_papers, monkeypatch):
    [kind] = artefacts([name])
    monkeypatch.setattr(dp_ncb.ReleaseAudit, "specs", fewer_trials(dp_ncb.ReleaseAudit.specs))
    made = reproduce(kind, "quick", store=results_of_papers)
    artefact = made.artefact
    claims = artefact.claims(made.results)
    counted = [claim for claim in claims if claim.verdict != "illustration"]
    assert all(claim.refuted_by for claim in counted)
    found = refutations(artefact, made.results, claims)
    if name in WORLDS:
        for module, what, replaced in WORLDS[name]:
            monkeypatch.setattr(module, what, replaced(getattr(module, what)))
        found |= {claim.text: name for claim in artefact.claims(made.results) if claim.verdict == "does not hold"}
    open_ones = [claim.text for claim in counted if claim.verdict != "does not hold" and claim.text not in found]
    assert not open_ones, "nothing that was planted refutes these: make them fail, or mark them as illustrations"


def test_a_claim_that_cannot_fail_is_found_out():
    from fairveil.lab.artefact import Artefact, Claim

    class Always(Artefact):
        def specs(self, scale):
            return {}

        def pictures(self, results):
            return []

        def claims(self, results):
            return [Claim.exact("one is above zero", "arithmetic", 1.0)]

    results = {"a": {"metrics": {"x": [1.0, 2.0]}, "series": {}, "spec": {"runs": 1}}}
    assert refutations(Always(), results, Always().claims(results)) == {}
