"""American Community Survey workers as candidates: income is the reward, race (or race and sex, ...) the group."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
from pydantic import Strict

from fairveil.bandits.meritocratic.scaling import Schema
from fairveil.bandits.meritocratic.world import RecordsEnvironment
from fairveil.configuration import configuration
from fairveil.data.public_columns import RARE, PublicColumn
from fairveil.fields import Count, described
from fairveil.registry import register

Attribute = Literal["RAC1P", "SEX", "MAR", "ST"]

# Code ranges of the data dictionary, then declared typical values, spreads and shares: round figures for American
# workers, not fitted to the records. (CAVEATS names what was settled after runs on these records.)
COLUMNS = {
    "AGEP": PublicColumn(low=17.0, high=99.0, typical=43.0, spread=15.0),
    "COW": PublicColumn(low=1.0, high=8.0, typical=2.0, spread=2.0),
    "SCHL": PublicColumn(low=1.0, high=24.0, typical=18.5, spread=3.5),
    "OCCP": PublicColumn(low=10.0, high=9830.0, typical=4000.0, spread=2700.0),
    "POBP": PublicColumn(low=1.0, high=554.0, typical=60.0, spread=90.0),
    "RELP": PublicColumn(low=0.0, high=17.0, typical=3.0, spread=5.0),
    "WKHP": PublicColumn(low=1.0, high=99.0, typical=38.0, spread=13.0),
    "MAR": PublicColumn(values=[1, 2, 3, 4, 5], shares=(0.51, 0.02, 0.1, 0.02, 0.35)),
    "SEX": PublicColumn(values=[1, 2], shares=(0.5, 0.5)),
    "RAC1P": PublicColumn(
        values=[1, 2, 3, 4, 5, 6, 7, 8, 9], shares=(0.72, 0.13, 0.01, 0.01, 0.01, 0.06, 0.01, 0.05, 0.03)
    ),
}
CAVEATS = (
    ("reward_bound", "the range of the reward was settled after runs on these records"),
    ("spread", f"the least spread of a rare indicator, {RARE}, was settled after runs on these records"),
)


@register("environment", "census")
@configuration
class Census(RecordsEnvironment):
    """Workers of the American Community Survey 2018 (14 states); reward is standardised income, linear in 24 features.

    Encoding: AGEP COW SCHL OCCP POBP RELP WKHP scaled by their code ranges to [-1, 1]; MAR (5), SEX (2) and RAC1P
    (9) as -1/+1 indicators; a constant 1. Target: PINCP, standardised over the hold-out. theta* is the least-squares
    fit on a hold-out fifth of the records that is never played; the others are drawn with replacement within their
    group. Groups: every value (or intersection of values) of ``attributes`` with at least ``minimum`` records.
    Reward noise has standard deviation 0.2. Needs the data set ``acs``.
    """

    records, columns, off, target, standardised = "acs", COLUMNS, -1.0, "PINCP", True
    known_attributes, reward_scale, settled = "RAC1P, SEX, MAR, ST", (0.0, 0.5), CAVEATS

    attributes: Annotated[tuple[Attribute, ...], Strict(False)] = described(
        "columns whose combinations are the groups", default=("RAC1P",)
    )
    minimum: Count = described("groups with fewer people are left out", default=1_500)

    @property
    def schema(self) -> Schema:
        """Indicators are -1 or +1, and the norm of a row follows from the ranges."""
        made = super().schema
        either = made.low == 0.0
        low, centre = np.where(either, -1.0, made.low), np.where(either, 2 * made.centre - 1, made.centre)
        return replace(made, low=low, centre=centre, spread=np.where(either, 2 * made.spread, made.spread), norm=None)
