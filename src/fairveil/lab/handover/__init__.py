"""A report to hand over: what was decided, what is known, what it cost and what is promised, in plain words."""

from fairveil.lab.handover.classifiers import report_on_classifier as report_on_classifier
from fairveil.lab.handover.document import Document as Document
from fairveil.lab.handover.ledgers import report_on_ledger as report_on_ledger
from fairveil.lab.handover.loops import report_on_loop as report_on_loop
from fairveil.lab.handover.loops import report_on_store as report_on_store
from fairveil.lab.handover.plans import report_on_plan as report_on_plan
from fairveil.lab.handover.results import report_on_result as report_on_result
from fairveil.lab.handover.write import write_document as write_document
