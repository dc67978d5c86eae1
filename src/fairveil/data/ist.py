"""The International Stroke Trial: a randomised trial of aspirin and heparin, 19,435 patients."""

from __future__ import annotations

import numpy as np

from fairveil.configuration import configuration
from fairveil.data.files import DataFile, columns, read_csv
from fairveil.data.schema import Column, Dataset, Source
from fairveil.registry import register

HOME = "https://doi.org/10.7488/ds/104"
TRIAL = DataFile("ist/IST_corrected.csv", "14ba957322d5ccbe4cd240692f1c8c70246c718076d3346a229015c440b03b54", HOME)

SCHEMA = (
    Column("SEX", "category", categories=("F", "M")),
    Column("AGE", "continuous", low=16, high=100),
    Column("RSBP", "continuous", low=50, high=300, about="systolic blood pressure at randomisation"),
    Column("RCONSC", "category", categories=("F", "D", "U"), about="fully alert, drowsy, unconscious"),
    Column("RXASP", "category", categories=("N", "Y"), about="aspirin"),
    Column("RXHEP", "category", categories=("N", "L", "M", "H"), about="heparin: none, low, medium, high"),
    Column("ID14", "category", categories=(0, 1), about="1: died within 14 days"),
)


@register("dataset", "ist")
@configuration
class Ist(Source):
    """International Stroke Trial: randomised aspirin x heparin, outcome death within 14 days.

    Not downloadable automatically: the edition read here is a re-written CSV of the published trial data.
    """

    title = "International Stroke Trial"
    home = HOME
    licence = "ODC-BY"
    citation = "Sandercock, Niewada and Czlonkowska (2011), doi 10.7488/ds/104"
    files = (TRIAL,)

    def load(self) -> Dataset:
        rows = columns(read_csv(TRIAL.read(), low_memory=False)[[column.name for column in SCHEMA]])
        rows["ID14"] = rows["ID14"].astype(np.int64)
        return Dataset("ist", rows, SCHEMA, "ID14", ("SEX",), self.facts())
