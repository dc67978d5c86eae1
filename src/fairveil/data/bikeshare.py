"""UCI Bike Sharing: hourly and daily rentals of Capital Bikeshare, 2011 and 2012."""

from __future__ import annotations

from typing import Literal

from fairveil.configuration import configuration
from fairveil.data.files import DataFile, Download, Origin, columns, member, read_csv
from fairveil.data.schema import Column, Dataset, Source
from fairveil.fields import described
from fairveil.registry import register

HOME = "https://archive.ics.uci.edu/dataset/275/bike+sharing+dataset"
_ARCHIVE = Download("https://archive.ics.uci.edu/static/public/275/bike+sharing+dataset.zip")


def _file(name: str, digest: str) -> DataFile:
    return DataFile(f"bikeshare/{name}", digest, HOME, Origin((_ARCHIVE,), member(name)))


DAY = _file("day.csv", "a6bcf826782d3c0fbfdcbeead17cd0884185a0dafe8ff10cd48a874ee7ba18be")
HOUR = _file("hour.csv", "e03de4ee4ef4dc376ac6e04bf829673c6269e8eba5c60fa121640fa2f829504f")
_COMMON = (
    Column("dteday", "text", about="date"),
    Column.codes("season", 1, 4),
    Column.codes("yr", 0, 1),
    Column.codes("mnth", 1, 12),
    Column.codes("holiday", 0, 1),
    Column.codes("weekday", 0, 6),
    Column.codes("workingday", 0, 1),
    Column.codes("weathersit", 1, 4),
    Column("temp", "continuous"),
    Column("atemp", "continuous"),
    Column("hum", "continuous"),
    Column("windspeed", "continuous"),
)


def _counts(most: int) -> tuple[Column, ...]:
    return tuple(Column(name, "continuous", low=0, high=most) for name in ("casual", "registered", "cnt"))


@register("dataset", "bikeshare")
@configuration
class Bikeshare(Source):
    """UCI Bike Sharing: 17,379 hourly or 731 daily rental counts with weather, 2011-2012.

    >>> Bikeshare(every="day").every
    'day'
    """

    every: Literal["hour", "day"] = described("one row an hour, or a day", default="hour")

    title = "UCI Bike Sharing (Capital Bikeshare 2011-2012)"
    home = HOME
    licence = "CC BY 4.0"
    citation = "Fanaee-T and Gama (2013), doi 10.24432/C5W894"
    files = (HOUR, DAY)

    def load(self) -> Dataset:
        hourly = self.every == "hour"
        rows = columns(read_csv((HOUR if hourly else DAY).read()).drop(columns="instant"))
        schema = _COMMON + ((Column.codes("hr", 0, 23), *_counts(2_000)) if hourly else _counts(20_000))
        return Dataset("bikeshare", rows, schema, "cnt", (), self.facts())
