"""An entry of the Differential Privacy Deployments Registry (registry.opendp.org), tier 3, as far as software knows it.

What only people know (who publishes, what for, where) is left as a question in angle brackets; an entry is handed in by
a pull request and read by people.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fairveil._version import __version__
from fairveil.errors import DependencyError, PrivacyError
from fairveil.lab.handover.document import Document
from fairveil.lab.handover.words import unprotected_section
from fairveil.privacy.guarantee import Guarantee, Model

FLAVOURS = {"pure": "Pure DP", "approximate": "Approximate DP", "zcdp": "zCDP", "gaussian": "GDP"}
MODELS = {Model.GLOBAL: "Central", Model.JOINT: "Central", Model.LOCAL: "Local", Model.FEDERATED: "Distributed"}
MEASURES = {
    "pure": "max divergence",
    "approximate": "smoothed max divergence",
    "zcdp": "zero-concentrated divergence",
    "gaussian": "trade-off function of two Gaussians",
}
ASK = "<to be filled in by the data curator>"


@dataclass(frozen=True)
class Deployment:
    """What an entry is about: its promise for one unit and for one person, and how many releases it made."""

    name: str
    promise: Guarantee
    policy: str
    unit: str
    released: str
    day: str
    person: Guarantee | None = None


def registry_entry(found: Deployment) -> dict[str, Any]:
    """The entry as plain data."""
    promise = found.promise
    if not promise.established:
        raise PrivacyError("the promise of this variant is not established, so it is not handed in", given=found.policy)
    kind, local = promise.definition.value, promise.model is Model.LOCAL
    person = {} if found.person is None else {"person_level": _numbers(found.person)}
    return {
        "url_slug": found.name.lower().replace(" ", "-"),
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "product": {
                "name": found.name,
                "data_curators": [ASK],
                "intended_use": ASK,
                "data_product_type": "Decisions and published estimates",
                "data_product_region": ASK,
                "data_product_sector": ASK,
                "description": f"Decisions by the policy {found.policy} of fairveil {__version__}.",
                "publication_date": found.day,
            },
            "dp_flavor": {
                "name": FLAVOURS[kind],
                "input_metric": promise.to_dict()["neighbours_in_words"],
                "bound_on_input_distance": f"one unit: {found.unit}",
                "output_measure": MEASURES[kind],
                "bound_on_output_distance": _numbers(promise),
                "data_domain": "outcomes and features in ranges declared without the data; others are clipped",
                "unprotected_quantities": [*promise.notes, *unprotected_section(promise).points],
            },
            "privacy_loss": {
                "privacy_unit": "user-level" if found.person is not None else "event-level",
                "privacy_unit_description": f"{found.unit}; a person with k of them is protected k times less",
                "privacy_parameters": {**_numbers(promise), **person},
            },
            "model": {
                "model_name": MODELS[promise.model],
                "actors": "every person randomises on their own device"
                if local
                else "a trusted curator holds raw rows until their block is released, then erases them",
                "release_type": "Multiple releases",
                "data_source_type": "Dynamic",
                "access_type": "Non-interactive",
            },
            "accounting": {
                "post_processing": "estimates, intervals and reports are computed from released numbers alone",
                "composition": f"charged to a durable ledger before each draw; {found.released}",
            },
            "implementation": {
                "pre_processing_eda_hyperparameter_tuning": "the configuration is declared before the data; tuning on "
                "the same people would be a release of its own",
                "mechanisms": "exact discrete samplers of OpenDP on the system's entropy, on an integer grid",
                "justification": "guarantees stand beside the code and are audited: fairveil audit "
                f"{found.policy}; the ledger is a hash chain: fairveil ledger verify",
                "security": "side channels by time and memory are out of scope; see the threat model",
            },
            "resources": {"sources": ASK, "registry_authors": [ASK]},
        },
    }


def _numbers(promise: Guarantee) -> dict[str, float]:
    return {name: float(value) for name, value in promise.numbers.items() if value}


def to_yaml(entry: dict[str, Any]) -> str:
    """The entry as the registry takes it."""
    try:
        import yaml
    except ImportError:
        raise DependencyError("a registry entry needs PyYAML", fix="pip install 'fairveil[lab]'") from None
    return str(yaml.safe_dump(entry, sort_keys=False, allow_unicode=True, width=110))


def deployment_of(document: Document) -> Deployment:
    """What a report says about itself; refused where it is no deployment."""
    if document.deployment is None:
        raise PrivacyError(
            "only what was released under a promise can be registered",
            path="registry",
            given=document.title,
            fix="report on a ledger with --policy, or on a loop",
        )
    found: Deployment = document.deployment
    return found
