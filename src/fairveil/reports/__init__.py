"""Private reports: what may be published about a decision rule, with intervals, at a stated price.

`FairnessReport` takes rows of decisions and gives rates, means, gap and impact ratio by group; `Evaluation` gives the
value of other rules on the same decisions. Both work on arrays and on a `data.logs.Log`, with or without a ledger; a
decision loop makes its reports with them.
"""

from fairveil.privacy.vectors import Price
from fairveil.reports.evaluation import Evaluation
from fairveil.reports.export import as_csv, as_json
from fairveil.reports.fairness import FairnessReport
from fairveil.reports.quotes import budget_for, half_widths
from fairveil.reports.rows import PlaceRows, rounds, trial

__all__ = [
    "Evaluation",
    "FairnessReport",
    "Price",
    "PlaceRows",
    "as_csv",
    "as_json",
    "budget_for",
    "half_widths",
    "rounds",
    "trial",
]
