"""EPA dynamometer drive schedules: speed against time, one value a second."""

from __future__ import annotations

from typing import Literal

from fairveil.configuration import configuration
from fairveil.data.files import DataFile, Download, Origin, columns, read_csv
from fairveil.data.schema import Column, Dataset, Source
from fairveil.fields import described
from fairveil.registry import register

HOME = "https://www.epa.gov/vehicle-and-fuel-emissions-testing/dynamometer-drive-schedules"
UDDS_SECONDS = 1370

FTP = DataFile(
    "drive_cycles/ftpcol.txt",
    "9791a45a7fb2415de0bf01948b96e8aeff499bfd63744a8c6ca781ae88826f8a",
    HOME,
    Origin((Download("https://www.epa.gov/sites/default/files/2015-10/ftpcol.txt"),)),
)
SCHEMA = (
    Column("seconds", "continuous", low=0, high=1874),
    Column("mph", "continuous", low=0, high=60, about="target speed, miles an hour"),
)


@register("dataset", "drive-cycles")
@configuration
class DriveCycles(Source):
    """EPA drive schedules FTP-75 (1,875 s) and UDDS (1,370 s): vehicle speed each second.

    FTP-75 is the UDDS followed by its first 505 seconds, so one file holds both.
    """

    cycle: Literal["ftp", "udds"] = described("which driving cycle", default="ftp")

    title = "EPA FTP-75 and UDDS drive schedules"
    home = HOME
    licence = "US EPA, public domain"
    citation = "US EPA, dynamometer drive schedules"
    files = (FTP,)

    def load(self) -> Dataset:
        rows = columns(read_csv(FTP.read(), sep="\t", skiprows=2, header=None, names=["seconds", "mph"]))
        data = Dataset("drive-cycles", rows, SCHEMA, "mph", (), self.facts())
        return data.take(slice(0, UDDS_SECONDS)) if self.cycle == "udds" else data
