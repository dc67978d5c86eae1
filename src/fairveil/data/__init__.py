"""Data sets with checksums and a cache, and generators that need no download.

>>> load("synthetic-compas", seed=3, rows=10).sensitive
('race', 'sex')
"""

from fairveil.data.acs import Acs
from fairveil.data.adult import Adult
from fairveil.data.bikeshare import Bikeshare
from fairveil.data.compas import Compas
from fairveil.data.drive_cycles import DriveCycles
from fairveil.data.fico import Fico
from fairveil.data.files import cache_folder, folder
from fairveil.data.ist import Ist
from fairveil.data.logistic_rows import LogisticRows
from fairveil.data.open_bandit import OpenBandit
from fairveil.data.schema import Column, Dataset, Encoded, Source, Synthesis, available, fetch, load, sources, verify
from fairveil.data.series import Ar1, BinomialAr1, Seasonal, TruncatedNormals
from fairveil.data.synthetic_census import Census, SyntheticCensus, synthetic_census
from fairveil.data.synthetic_people import SyntheticAdult, SyntheticCompas
from fairveil.data.traffic import Traffic

__all__ = [
    "Acs",
    "Adult",
    "Ar1",
    "Bikeshare",
    "BinomialAr1",
    "Census",
    "Column",
    "Compas",
    "Dataset",
    "DriveCycles",
    "Encoded",
    "Fico",
    "Ist",
    "LogisticRows",
    "OpenBandit",
    "Seasonal",
    "Source",
    "Synthesis",
    "SyntheticAdult",
    "SyntheticCensus",
    "SyntheticCompas",
    "Traffic",
    "TruncatedNormals",
    "available",
    "cache_folder",
    "fetch",
    "folder",
    "load",
    "sources",
    "synthetic_census",
    "verify",
]
