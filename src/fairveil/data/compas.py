"""ProPublica's COMPAS two-year recidivism records, without names, birth dates and case numbers."""

from __future__ import annotations

import csv
import io
from typing import Literal

import numpy as np

from fairveil.configuration import configuration
from fairveil.data.files import DataFile, Download, Origin, columns, read_csv, written
from fairveil.data.schema import Column, Dataset, Source
from fairveil.fields import described
from fairveil.registry import register

HOME = "https://github.com/propublica/compas-analysis"
RAW = (
    "https://raw.githubusercontent.com/propublica/compas-analysis/bafff5da3f2e45eca6c2d5055faad269defd135a/"
    "compas-scores-two-years.csv"
)
IDENTIFIERS = ("name", "first", "last", "dob", "c_case_number", "r_case_number", "vr_case_number")


def build_without_identifiers(parts: list[bytes]) -> bytes:
    """Drop the columns that name a person; a repeated column gets the suffix ``.1``."""
    reader = csv.reader(io.StringIO(parts[0].decode("utf-8"), newline=""))
    header = next(reader)
    kept = [i for i, name in enumerate(header) if name not in IDENTIFIERS]
    seen: dict[str, int] = {}
    names = []
    for i in kept:
        repeat = seen.get(header[i], 0)
        seen[header[i]] = repeat + 1
        names.append(f"{header[i]}.{repeat}" if repeat else header[i])
    return written(names, ([row[i] for i in kept] for row in reader))


SCORES = DataFile(
    "compas/compas-scores-two-years-no-identifiers.csv",
    "30eb20d79ba476ec24979ea00d0e77ef74fb5adc0ee843fd0d00079465a6089d",
    HOME,
    Origin((Download(RAW),), build_without_identifiers, personal=True),
)

SCHEMA = (
    Column("sex", "category", categories=("Female", "Male")),
    Column("age", "continuous", low=18, high=100),
    Column(
        "race",
        "category",
        categories=("African-American", "Asian", "Caucasian", "Hispanic", "Native American", "Other"),
    ),
    Column("juv_fel_count", "continuous", low=0, high=20),
    Column("juv_misd_count", "continuous", low=0, high=20),
    Column("juv_other_count", "continuous", low=0, high=20),
    Column("priors_count", "continuous", low=0, high=40, scale="log"),
    Column("charge_degree", "category", categories=("F", "M"), about="felony or misdemeanour"),
    Column("decile_score", "continuous", low=1, high=10, about="the tool's own risk score"),
    Column("recidivism", "category", categories=(0, 1), about="1: charged again within two years"),
)


@register("dataset", "compas")
@configuration
class Compas(Source):
    """ProPublica COMPAS: 7,214 defendants (6,172 after ProPublica's filter), label re-arrest within two years.

    >>> Compas().rows
    'filtered'
    """

    rows: Literal["filtered", "all"] = described(
        "the rows that the published analysis keeps, or all", default="filtered"
    )

    title = "COMPAS two-year recidivism scores (ProPublica)"
    home = HOME
    licence = "none stated; published by ProPublica for re-analysis, attribute it"
    citation = "Angwin, Larson, Mattu and Kirchner (2016), Machine Bias"
    files = (SCORES,)

    def load(self) -> Dataset:
        """The published filter keeps screenings within 30 days of the arrest, known recidivism and a real charge."""
        frame = read_csv(SCORES.read(), low_memory=False)
        if self.rows == "filtered":
            frame = frame[
                frame["days_b_screening_arrest"].between(-30, 30)
                & (frame["is_recid"] != -1)
                & (frame["c_charge_degree"] != "O")
                & frame["score_text"].notna()
            ]
        frame = frame.rename(columns={"c_charge_degree": "charge_degree", "two_year_recid": "recidivism"})
        rows = columns(frame[[column.name for column in SCHEMA]])
        rows["recidivism"] = rows["recidivism"].astype(np.int64)
        return Dataset("compas", rows, SCHEMA, "recidivism", ("race", "sex"), self.facts())
