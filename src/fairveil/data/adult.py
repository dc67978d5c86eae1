"""UCI Adult: census records of 1994 with an income label."""

from __future__ import annotations

from typing import Literal

import numpy as np

from fairveil.configuration import configuration
from fairveil.data.files import DataFile, Download, Origin, columns, pandas, read_csv
from fairveil.data.schema import Column, Dataset, Source
from fairveil.fields import described
from fairveil.registry import register

HOME = "https://archive.ics.uci.edu/dataset/2/adult"
_BASE = "https://archive.ics.uci.edu/ml/machine-learning-databases/adult"


def _file(name: str, digest: str) -> DataFile:
    return DataFile(f"adult/{name}", digest, HOME, Origin((Download(f"{_BASE}/{name}"),)))


TRAIN = _file("adult.data", "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d")
TEST = _file("adult.test", "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05")

_CATEGORIES = {
    "workclass": "Private, Self-emp-not-inc, Self-emp-inc, Federal-gov, Local-gov, State-gov, Without-pay, "
    "Never-worked",
    "education": "Bachelors, Some-college, 11th, HS-grad, Prof-school, Assoc-acdm, Assoc-voc, 9th, 7th-8th, 12th, "
    "Masters, 1st-4th, 10th, Doctorate, 5th-6th, Preschool",
    "marital": "Married-civ-spouse, Divorced, Never-married, Separated, Widowed, Married-spouse-absent, "
    "Married-AF-spouse",
    "occupation": "Tech-support, Craft-repair, Other-service, Sales, Exec-managerial, Prof-specialty, "
    "Handlers-cleaners, Machine-op-inspct, Adm-clerical, Farming-fishing, Transport-moving, "
    "Priv-house-serv, Protective-serv, Armed-Forces",
    "relationship": "Wife, Own-child, Husband, Not-in-family, Other-relative, Unmarried",
    "race": "White, Asian-Pac-Islander, Amer-Indian-Eskimo, Other, Black",
    "sex": "Female, Male",
    "country": "United-States, Cambodia, England, Puerto-Rico, Canada, Germany, Outlying-US(Guam-USVI-etc), India, "
    "Japan, Greece, South, China, Cuba, Iran, Honduras, Philippines, Italy, Poland, Jamaica, Vietnam, "
    "Mexico, Portugal, Ireland, France, Dominican-Republic, Laos, Ecuador, Taiwan, Haiti, Columbia, "
    "Hungary, Guatemala, Nicaragua, Scotland, Thailand, Yugoslavia, El-Salvador, Trinadad&Tobago, Peru, "
    "Hong, Holand-Netherlands",
}


def _category(name: str) -> Column:
    return Column(name, "category", categories=tuple(_CATEGORIES[name].split(", ")))


SCHEMA = (
    Column("age", "continuous", low=17, high=90),
    _category("workclass"),
    Column("weight", "continuous", low=0, high=1_500_000, about="survey weight (fnlwgt)"),
    _category("education"),
    Column("education_years", "continuous", low=1, high=16),
    _category("marital"),
    _category("occupation"),
    _category("relationship"),
    _category("race"),
    _category("sex"),
    Column("capital_gain", "continuous", low=0, high=99_999, scale="log"),
    Column("capital_loss", "continuous", low=0, high=5_000, scale="log"),
    Column("hours", "continuous", low=1, high=99, about="hours of work a week"),
    _category("country"),
    Column("income", "category", categories=(0, 1), about="1: more than 50,000 a year"),
)


@register("dataset", "adult")
@configuration
class Adult(Source):
    """UCI Adult: 48,842 census records, 14 attributes, label income above 50,000.

    >>> Adult(split="train").complete
    True
    """

    split: Literal["all", "train", "test"] = described("which part of the published split", default="all")
    complete: bool = described("leave out rows with missing entries", default=True)

    title = "UCI Adult (Census Income)"
    home = HOME
    licence = "CC BY 4.0"
    citation = "Becker and Kohavi (1996), doi 10.24432/C5XW20"
    files = (TRAIN, TEST)

    def load(self) -> Dataset:
        """Rows without missing entries unless ``complete=False`` (then a missing entry is the text ``?``)."""
        names = [column.name for column in SCHEMA]
        parts = []
        if self.split in ("all", "train"):
            parts.append(read_csv(TRAIN.read(), header=None, names=names, skipinitialspace=True))
        if self.split in ("all", "test"):
            parts.append(read_csv(TEST.read(), header=None, names=names, skipinitialspace=True, skiprows=1))
        rows = columns(pandas().concat(parts, ignore_index=True))
        rows["income"] = np.array([label.startswith(">50K") for label in rows["income"]], np.int64)
        data = Dataset("adult", rows, SCHEMA, "income", ("sex", "race"), self.facts())
        if not self.complete:
            return data
        missing = np.zeros(len(data), bool)
        for name in _CATEGORIES:
            missing |= rows[name] == "?"
        return data.take(~missing)
