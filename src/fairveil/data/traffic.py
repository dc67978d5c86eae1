"""NYC DOT hourly traffic volume counts."""

from __future__ import annotations

from typing import Literal

import numpy as np

from fairveil.configuration import configuration
from fairveil.data.files import DataFile, Download, Origin, pandas, read_csv
from fairveil.data.schema import Column, Dataset, Source
from fairveil.fields import described
from fairveil.registry import register

HOME = "https://data.cityofnewyork.us/d/wng2-85mv"


def _file(period: str, digest: str, view: str = "") -> DataFile:
    address = f"https://data.cityofnewyork.us/api/views/{view}/rows.csv?accessType=DOWNLOAD"
    origin = Origin((Download(address),)) if view else None
    return DataFile(f"nyc_traffic/Traffic_Volume_Counts__{period}_.csv", digest, HOME, origin)


# The third release was extended on the portal since, so its pinned edition has to be supplied by hand.
FILES = {
    "2011-2012": _file("2011-2012", "c3c7918518c1b0ff8d3faf495bea338be832c896424e5ff6044b3500358f4251", "wng2-85mv"),
    "2012-2013": _file("2012-2013", "04fb7008888d0d7db6d37c8d3756cd14702872a59db30e651b219128fddb460e", "p424-amsu"),
    "2014-2018": _file("2014-2018", "d4c13863fe00c02ce18a2daee61e795671334c7b52c27561400ccd1cf18c19da"),
}
IDENTITY = 7
SCHEMA = (
    Column("roadway", "text"),
    Column("direction", "text"),
    Column("date", "text", about="ISO date"),
    Column("hour", "continuous", low=0, high=23),
    Column("count", "continuous", low=0, high=20_000, about="vehicles in this hour"),
)


@register("dataset", "traffic")
@configuration
class Traffic(Source):
    """NYC traffic volume counts: one row per segment, direction, date and hour (hours without a count left out).

    The release called 2011-2012 holds dates from January and February 2012 only.
    """

    period: Literal["2011-2012", "2012-2013", "2014-2018"] = described("which years", default="2011-2012")

    title = "NYC DOT Traffic Volume Counts"
    home = HOME
    licence = "NYC Open Data terms of use"
    citation = "New York City Department of Transportation"
    files = tuple(FILES.values())

    def load(self) -> Dataset:
        """Long form, in the order of the file: the 24 hours of a row follow each other."""
        wide = read_csv(FILES[self.period].read(), thousands=",", low_memory=False)
        names = wide.columns
        counts = wide[names[IDENTITY:]].to_numpy(float)
        present = ~np.isnan(counts).ravel()
        hours = counts.shape[1]

        def spread(values: object) -> np.ndarray:
            return np.repeat(np.asarray(values, object), hours)[present]

        dates = pandas().to_datetime(wide[names[6]], format="%m/%d/%Y").dt.strftime("%Y-%m-%d")
        rows = {
            "roadway": spread(wide[names[2]].astype(str).to_list()),
            "direction": spread(wide[names[5]].astype(str).to_list()),
            "date": spread(dates.to_list()),
            "hour": np.tile(np.arange(hours, dtype=float), len(wide))[present],
            "count": counts.ravel()[present],
        }
        return Dataset("traffic", rows, SCHEMA, "count", (), self.facts())
