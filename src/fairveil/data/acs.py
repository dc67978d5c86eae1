"""American Community Survey 2018, one-year public-use person records of fourteen states."""

from __future__ import annotations

import csv
import io
import zipfile
from typing import Literal

from fairveil.configuration import configuration
from fairveil.data.files import DataFile, Download, Origin, columns, read_csv, written
from fairveil.data.schema import Column, Dataset, Source
from fairveil.fields import described
from fairveil.registry import register

HOME = "https://www2.census.gov/programs-surveys/acs/data/pums/2018/1-Year/"

# state, FIPS code, sha256 of the Census Bureau's own archive
ARCHIVES = (
    ("de", 10, "a9f680033e3ce6f20b01fce916abdee68026429fd737f958f83281cb372719c5"),
    ("hi", 15, "574166f4fc904c90e9f38f8a00238fa52d613bce4494d570c18ec60174324088"),
    ("id", 16, "ea743376f02ef0a0b8b00599e238e47a6073e368e8bda97fa6305da8c5dbfa91"),
    ("me", 23, "2a718c75dc732d2b4ca823bd0aee12c940b087494ef3b7a0caef0534165b7cc7"),
    ("mt", 30, "f20f67ad53ea1d9d17c9b1c7f1a3fe70ddbb84b96044b7c98f445e868989437e"),
    ("nd", 38, "6707385427a4c0e3902661038192c10a27d3f0e6c7b79e7dda7400a7bf3c6192"),
    ("ne", 31, "f1f5a56c7bec8de9ef2b1d98fbc9ba6afd3f7ed936c959d6d3392c899fe2db7d"),
    ("nh", 33, "17c68e50530b61197abb9fd78a1678a5360bf05654d105501f4a5f73dccc70c8"),
    ("nm", 35, "b4f0a7190a5a4a1e6102d1e3fef13d723cbd93bea46e2420ada5c70b593c9629"),
    ("ri", 44, "c5a7155543b1e4296420955714e3160563c4bbe9682299c2761434e4007bd331"),
    ("sd", 46, "14a45f25ae73f68f3ab01307b111a3650cd997c0a93de174fe488de4b56c30a9"),
    ("vt", 50, "e354dc8484d234e7e328ceffb57495d3e0a8a0a8d4f2fc3cbc30b833c3ce0dde"),
    ("wv", 54, "f1a39b7be0b01aef6033ca6f3f32d954d3df07c8de12dd35da8d55be65c7cef8"),
    ("wy", 56, "236855a172f7c6fb5ac006ddd14f204b052823c084abdcd93c55d7f26751691c"),
)
_PERSON = (
    "ST PUMA POWPUMA PWGTP AGEP COW SCHL MAR OCCP POBP RELP WKHP SEX RAC1P PINCP DIS ESP CIT MIG MIL ANC NATIVITY DEAR "
    "DEYE DREM ESR GCL JWMNP JWTR POVPIP PUBCOV PRIVCOV HICOV HISP FER"
)
PERSON_COLUMNS = _PERSON.split()
_INCOME = "ST PWGTP AGEP COW SCHL MAR OCCP POBP RELP WKHP SEX RAC1P PINCP"
INCOME_COLUMNS = _INCOME.split()


def build_person(archives: list[bytes]) -> bytes:
    """Every person record of the archives, the columns above, as plain integers (blank: not applicable)."""
    rows: list[list[str]] = []
    for content, (_, code, _) in zip(archives, ARCHIVES, strict=True):
        with zipfile.ZipFile(io.BytesIO(content)) as archive, archive.open(f"psam_p{code}.csv") as member:
            reader = csv.reader(io.TextIOWrapper(member, "utf-8"))
            header = next(reader)
            picked = [header.index(name) for name in PERSON_COLUMNS]
            rows += [[str(int(row[i])) if row[i].strip() else "" for i in picked] for row in reader]
    return written(PERSON_COLUMNS, rows)


def build_income(parts: list[bytes]) -> bytes:
    """Working adults with an income: age above 16, income above 100, hours above 0, weight at least 1."""
    reader = csv.reader(io.StringIO(parts[0].decode()))
    at = {name: i for i, name in enumerate(next(reader))}

    def number(row: list[str], name: str) -> int:
        return int(row[at[name]] or 0)

    rows = [
        [row[at[name]] for name in INCOME_COLUMNS]
        for row in reader
        if number(row, "AGEP") > 16
        and number(row, "PINCP") > 100
        and number(row, "WKHP") > 0
        and number(row, "PWGTP") >= 1
    ]
    return written(INCOME_COLUMNS, rows)


PERSON = DataFile(
    "acs/acs_2018_1yr_person_14states.csv",
    "97c19c421e0de611a04455546e4ffeb35b4d6039fb8d2959cf92701a9c0442e8",
    HOME,
    Origin(tuple(Download(f"{HOME}csv_p{state}.zip", digest) for state, _, digest in ARCHIVES), build_person),
)
INCOME = DataFile(
    "acs/acs_2018_1yr_income_14states.csv",
    "8a14eb9c8d6c2793f3107872a1d92bdbebe4b5c7a50875bc5007af68aafe7342",
    HOME,
    Origin((PERSON,), build_income),
)


# Bounds and codes of the 2018 data dictionary.
INCOME_SCHEMA = (
    Column("ST", "category", categories=tuple(sorted(code for _, code, _ in ARCHIVES)), about="state"),
    Column("PWGTP", "continuous", low=1, high=9999, about="person weight"),
    Column("AGEP", "continuous", low=0, high=99, about="age"),
    Column.codes("COW", 1, 9, "class of worker"),
    Column.codes("SCHL", 1, 24, "schooling"),
    Column.codes("MAR", 1, 5, "marital status"),
    Column("OCCP", "continuous", low=0, high=9999, about="occupation code"),
    Column("POBP", "continuous", low=1, high=554, about="place of birth code"),
    Column.codes("RELP", 0, 17, "relationship to the reference person"),
    Column("WKHP", "continuous", low=0, high=99, about="hours of work a week"),
    Column.codes("SEX", 1, 2, "1 male, 2 female"),
    Column.codes("RAC1P", 1, 9, "recoded race"),
    Column("PINCP", "continuous", low=-19_998, high=4_209_995, about="total income of the person"),
    Column("income", "category", categories=(0, 1), about="1: PINCP above 50,000"),
)


@register("dataset", "acs")
@configuration
class Acs(Source):
    """ACS 2018 person records of 14 states: 90,636 workers with income (default) or all 173,916 persons.

    The states (DE HI ID ME MT ND NE NH NM RI SD VT WV WY) are whiter and more rural than the nation.

    >>> Acs().table
    'income'
    """

    table: Literal["income", "person"] = described("the income task, or every person", default="income")

    title = "American Community Survey 2018, one-year public-use microdata"
    home = HOME
    licence = "US Census Bureau, public domain; do not attempt re-identification"
    citation = "US Census Bureau (2019); task definition: Ding et al. (2021), Retiring Adult"
    files = (PERSON, INCOME)

    def load(self) -> Dataset:
        """``income``: no missing values, label PINCP above 50,000. ``person``: 35 columns, NaN where not applicable."""
        if self.table == "person":
            rows = columns(read_csv(PERSON.read()))
            known = {column.name: column for column in INCOME_SCHEMA}
            schema = tuple(known.get(name, Column(name, "text")) for name in rows)
            return Dataset("acs", rows, schema, "", ("SEX", "RAC1P"), self.facts())
        rows = columns(read_csv(INCOME.read()))
        rows["income"] = (rows["PINCP"] > 50_000).astype("int64")
        return Dataset("acs", rows, INCOME_SCHEMA, "income", ("SEX", "RAC1P"), self.facts())
