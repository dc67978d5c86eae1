"""The real files, where a data folder is present: row counts and figures that their documentation states."""

from __future__ import annotations

import csv
import io
import zipfile

import numpy as np
import pytest

from fairveil import data
from fairveil.data import acs, compas, fico
from fairveil.data.files import DataFile, find
from fairveil.errors import SpecError


def _needs(*files: DataFile) -> None:
    for file in files:
        if find(file.path) is None:
            pytest.skip(f"{file.path} is not in the data folder")


def test_adult() -> None:
    _needs(*data.Adult.files)
    people = data.load("adult")
    assert len(people) == 45_222
    assert people["income"].mean() == pytest.approx(0.2478, abs=1e-4)
    assert (people["sex"] == "Male").sum() == 30_527
    assert len(data.load("adult", complete=False)) == 48_842
    assert len(data.load("adult", split="train", complete=False)) == 32_561
    encoded = people.encode()
    assert encoded.matrix.shape == (45_222, 105)
    assert np.linalg.norm(encoded.matrix, axis=1).max() <= encoded.norm_bound


def test_acs_income_and_person() -> None:
    _needs(*data.Acs.files)
    workers = data.load("acs")
    assert len(workers) == 90_636
    assert workers["income"].mean() == pytest.approx(0.3326, abs=1e-4)
    assert (workers["RAC1P"] == 6).sum() == 4_221
    assert workers.encode().matrix.max() <= 1
    persons = data.load("acs", table="person")
    assert len(persons) == 173_916
    assert persons["PWGTP"][persons["ST"] == 10].sum() == 967_171


def test_acs_files_are_rebuilt_byte_for_byte_from_archives() -> None:
    """Archives made from the person file, with extra columns and zero padding, give the same bytes again."""
    _needs(*data.Acs.files)
    content = acs.PERSON.read()
    reader = csv.reader(io.StringIO(content.decode()))
    header = next(reader)
    by_state: dict[str, list[list[str]]] = {}
    for row in reader:
        by_state.setdefault(row[0], []).append(row)
    archives = []
    for _, code, _ in acs.ARCHIVES:
        out = io.StringIO()
        writer = csv.writer(out)
        writer.writerow(["RT", *header])
        writer.writerows(["P", f"{int(row[0]):03d}", *row[1:]] for row in by_state[str(code)])
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr(f"psam_p{code}.csv", out.getvalue())
        archives.append(packed.getvalue())
    assert acs.build_person(archives) == content
    assert acs.build_income([content]) == acs.INCOME.read()


def test_compas() -> None:
    _needs(*data.Compas.files)
    assert len(data.load("compas", rows="all")) == 7_214
    people = data.load("compas")
    assert len(people) == 6_172
    assert set(people["charge_degree"]) == {"F", "M"}
    everyone = data.load("compas", rows="all")
    assert (everyone["race"] == "African-American").sum() == 3_696
    assert everyone["recidivism"].mean() == pytest.approx(0.4507, abs=1e-4)


def test_compas_names_are_taken_out_and_repeated_columns_renamed() -> None:
    header = "id,name,first,last,age,dob,score,c_case_number,r_case_number,vr_case_number,score"
    raw = header + '\n1,"X, Y",X,Y,30,d,2,a,b,c,3\n'
    assert compas.build_without_identifiers([raw.encode()]) == b"id,age,score,score.1\n1,30,2,3\n"
    assert compas.SCORES.origin is not None
    assert compas.SCORES.origin.personal


def test_fico() -> None:
    _needs(*data.Fico.files)
    tables = data.load("fico")
    assert len(tables) == 4 * 198
    assert tables.facts["shares"]["white"] == pytest.approx(0.7651, abs=5e-5)
    expected = {"white": 0.7587, "black": 0.3366, "hispanic": 0.5681, "asian": 0.8068}
    assert tables.facts["repay_rate"] == pytest.approx(expected, abs=5e-5)
    for group in fico.GROUPS:
        mine = tables["group"] == group
        assert (np.diff(tables["cdf"][mine]) >= 0).all()
        assert tables["cdf"][mine][-1] == pytest.approx(1.0)


def test_bikeshare_hours_add_up_to_days() -> None:
    _needs(*data.Bikeshare.files)
    hours, days = data.load("bikeshare"), data.load("bikeshare", every="day")
    assert (len(hours), len(days)) == (17_379, 731)
    assert hours["cnt"].sum() == days["cnt"].sum() == 3_292_679
    assert (hours["casual"] + hours["registered"] == hours["cnt"]).all()
    assert hours["cnt"].max() <= hours.column("cnt").high


def test_drive_cycles() -> None:
    _needs(*data.DriveCycles.files)
    ftp, udds = data.load("drive-cycles"), data.load("drive-cycles", cycle="udds")
    assert (len(ftp), len(udds)) == (1_875, 1_370)
    assert ftp["mph"].max() == 56.7
    assert ftp["mph"].sum() / 3600 == pytest.approx(11.04, abs=0.01)
    assert (ftp["mph"][1370:] == udds["mph"][1:506]).all()
    place = find("drive_cycles/uddscol.txt")
    if place is not None:
        separate = np.array([float(line.split()[1]) for line in place.read_text().splitlines()])
        assert (separate == udds["mph"]).all()


def test_traffic_counts_are_long_and_without_gaps() -> None:
    _needs(*data.Traffic.files)
    counts = data.load("traffic")
    assert len(counts) == 3_393 * 24 - 3_036
    assert min(counts["date"]) == "2012-01-08"
    assert max(counts["date"]) == "2012-02-25"
    assert counts["count"].max() <= counts.column("count").high


def test_ist_and_open_bandit() -> None:
    _needs(*data.Ist.files, *data.OpenBandit.files)
    trial = data.load("ist")
    assert len(trial) == 19_435
    assert (trial["RXASP"] == "Y").sum() == 9_720
    logged = data.load("open-bandit", campaign="men")
    assert len(logged) == 10_000
    assert logged["item_id"].max() < 34
    assert (logged["propensity_score"] > 0).all()


@pytest.mark.parametrize(
    ("call", "path"),
    [
        ({"name": "adlut"}, "name"),
        ({"name": "adult", "split": "half"}, "split"),
        ({"name": "adult", "colour": 1}, "colour"),
        ({"name": "adult", "seed": 1}, "seed"),
        ({"name": "ar1"}, "seed"),
        ({"name": "ar1", "seed": 1, "rows": 0}, "rows"),
    ],
)
def test_wrong_names_and_options_are_named(call, path) -> None:
    with pytest.raises(SpecError, match=path):
        data.load(**call)
