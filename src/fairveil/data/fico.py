"""TransUnion TransRisk scores by race: the tables known as the FICO data."""

from __future__ import annotations

import numpy as np

from fairveil.configuration import configuration
from fairveil.data.files import DataFile, Download, Origin, read_csv
from fairveil.data.schema import Column, Dataset, Source
from fairveil.registry import register

HOME = "https://github.com/fairmlbook/fairmlbook.github.io/tree/master/code/creditscore/data"
_RAW = (
    "https://raw.githubusercontent.com/fairmlbook/fairmlbook.github.io/eb8a58b0a5b39c73803565e32ab4695ebed33702/"
    "code/creditscore/data/"
)


def _file(name: str, digest: str) -> DataFile:
    return DataFile(f"fico/{name}", digest, HOME, Origin((Download(_RAW + name, digest),)))


TOTALS = _file("totals.csv", "60ba4af53f9e61dedad3a5c4246390e666760e7552c98b08084dd3abf6b73f13")
CDF = _file("transrisk_cdf_by_race_ssa.csv", "04c9691aa4b9fad43cc9722bc35a7d3f3f02ae1d724d49ae9d3bbe153f5b4f67")
DEFAULTS = _file(
    "transrisk_performance_by_race_ssa.csv", "77af654ac4173978c3cdb3a9186becb12ec35666d9e34e5b666a6a3972692ff9"
)
GROUPS = {"white": "Non- Hispanic white", "black": "Black", "hispanic": "Hispanic", "asian": "Asian"}

SCHEMA = (
    Column("group", "category", categories=tuple(GROUPS)),
    Column("score", "continuous", low=0, high=100, about="score percentile"),
    Column("cdf", "continuous", about="share of the group at or below this score"),
    Column("repay", "continuous", about="share that repays at this score"),
    Column("people", "continuous", low=0, high=1e6, about="size of the group"),
)


@register("dataset", "fico")
@configuration
class Fico(Source):
    """TransRisk credit scores by race: CDF and repayment rate at 198 score percentiles for four groups.

    One row per group and score. ``facts`` hold the group sizes, their shares and each group's repayment rate.
    """

    title = "TransUnion TransRisk scores by race (Federal Reserve Board 2007)"
    home = HOME
    licence = "none stated; figures of a US federal report"
    citation = "Federal Reserve Board (2007), Report on Credit Scoring; tables of Hardt, Price and Srebro (2016)"
    files = (TOTALS, CDF, DEFAULTS)

    def load(self) -> Dataset:
        """Rates are fractions here: repayment is one minus the default share that the table prints in per cent."""
        totals, cdf, defaults = (read_csv(file.read()) for file in self.files)
        blocks: dict[str, list[np.ndarray]] = {column.name: [] for column in SCHEMA}
        sizes, rates = {}, {}
        for group, label in GROUPS.items():
            below = cdf[label].to_numpy(float) / 100
            repay = 1 - defaults[label].to_numpy(float) / 100
            count = len(below)
            sizes[group] = int(totals[label].iloc[0])
            rates[group] = float(np.diff(below, prepend=0.0) @ repay)
            blocks["group"].append(np.full(count, group, object))
            blocks["score"].append(cdf["Score"].to_numpy(float))
            blocks["cdf"].append(below)
            blocks["repay"].append(repay)
            blocks["people"].append(np.full(count, sizes[group], float))
        total = sum(sizes.values())
        facts = {
            **self.facts(),
            "sizes": sizes,
            "shares": {group: size / total for group, size in sizes.items()},
            "repay_rate": rates,
        }
        rows = {name: np.concatenate(parts) for name, parts in blocks.items()}
        return Dataset("fico", rows, SCHEMA, "", ("group",), facts)
