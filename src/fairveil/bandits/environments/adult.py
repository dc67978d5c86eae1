"""UCI Adult workers as candidates: expected income label is the reward, race or sex (or both) the group."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Strict

from fairveil.bandits.meritocratic.world import RecordsEnvironment
from fairveil.configuration import configuration
from fairveil.data.public_columns import RARE, PublicColumn
from fairveil.fields import Count, described
from fairveil.registry import register

MARITAL = ["Married-civ-spouse", "Never-married", "Divorced", "Separated", "Widowed", "Married-spouse-absent"]
WORKCLASS = ["Private", "Self-emp-not-inc", "Self-emp-inc", "Federal-gov", "Local-gov", "State-gov"]
RACE = ["White", "Black", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other"]
# Documented ranges, then declared typical values, spreads and shares.
COLUMNS = {
    "age": PublicColumn(low=17.0, high=90.0, typical=39.0, spread=13.0),
    "education_years": PublicColumn(low=1.0, high=16.0, typical=10.0, spread=2.5),
    "hours": PublicColumn(low=1.0, high=99.0, typical=40.0, spread=12.0),
    "marital": PublicColumn(values=MARITAL, shares=(0.47, 0.32, 0.14, 0.03, 0.03, 0.01)),
    "workclass": PublicColumn(values=WORKCLASS, shares=(0.74, 0.08, 0.04, 0.03, 0.07, 0.04)),
    "sex": PublicColumn(values=["Male", "Female"], shares=(0.67, 0.33)),
    "race": PublicColumn(values=RACE, shares=(0.85, 0.1, 0.03, 0.01, 0.01)),
}
CAVEATS = (
    ("spread", f"the least spread of a rare indicator, {RARE}, was settled after runs on records of another census"),
)


@register("environment", "adult")
@configuration
class Adult(RecordsEnvironment):
    """UCI Adult records; reward is the linear score of "income above 50,000", noise 0.2. Needs the data set ``adult``.

    Encoding: age, education_years and hours scaled by their documented ranges to [-1, 1]; marital status, work class,
    sex and race as 0/1 indicators; a constant 1. theta* is the least-squares fit of the label on a hold-out fifth that
    is never played. Groups: every value of ``attributes`` (race, sex, or both) with at least ``minimum`` records.
    """

    records, columns, target = "adult", COLUMNS, "income"
    known_attributes, reward_scale, settled = "race, sex", (0.25, 0.3), CAVEATS

    attributes: Annotated[tuple[Literal["race", "sex"], ...], Strict(False)] = described(
        "columns whose combinations are the groups", default=("race",)
    )
    minimum: Count = described("groups with fewer people are left out", default=300)
