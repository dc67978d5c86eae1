"""A report to hand over: what was decided, what is known, what it cost and what is promised, in plain words."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairveil.lab.handover.classifiers import report_on_classifier as report_on_classifier
    from fairveil.lab.handover.document import Document as Document
    from fairveil.lab.handover.ledgers import report_on_ledger as report_on_ledger
    from fairveil.lab.handover.loops import report_on_loop as report_on_loop
    from fairveil.lab.handover.loops import report_on_store as report_on_store
    from fairveil.lab.handover.plans import report_on_plan as report_on_plan
    from fairveil.lab.handover.results import report_on_result as report_on_result
    from fairveil.lab.handover.write import write_document as write_document

_HOMES = {
    "report_on_classifier": "classifiers",
    "Document": "document",
    "report_on_ledger": "ledgers",
    "report_on_loop": "loops",
    "report_on_store": "loops",
    "report_on_plan": "plans",
    "report_on_result": "results",
    "write_document": "write",
}


def __getattr__(name: str) -> Any:
    """A report loads what it reports on and nothing else."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
