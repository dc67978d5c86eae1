from __future__ import annotations

import gzip
import hashlib

import pytest

from fairveil.data.files import DataFile, cache_folder, find, folder
from fairveil.errors import DataError

CONTENT = b"a,b\n1,2\n"
FILE = DataFile("set/file.csv", hashlib.sha256(CONTENT).hexdigest(), "https://example.org")


@pytest.fixture
def places(tmp_path, monkeypatch):
    named, cache = tmp_path / "named", tmp_path / "cache"
    named.mkdir()
    monkeypatch.setenv("FAIRVEIL_DATA", str(named))
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    return named, cache_folder()


def _put(path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def test_the_named_folder_comes_before_the_cache(places) -> None:
    named, cache = places
    assert folder() == named
    assert find("set/file.csv") is None
    _put(cache / "set" / "file.csv", CONTENT)
    assert find("set/file.csv") == cache / "set" / "file.csv"
    _put(named / "set" / "file.csv.gz", gzip.compress(CONTENT))
    assert find("set/file.csv") == named / "set" / "file.csv.gz"
    assert FILE.read() == CONTENT


def test_without_the_variable_the_cache_is_the_folder(places, monkeypatch) -> None:
    monkeypatch.delenv("FAIRVEIL_DATA")
    assert folder() == places[1]


def test_a_named_folder_that_does_not_exist_is_an_error(places, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("FAIRVEIL_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match="FAIRVEIL_DATA"):
        folder()


def test_damaged_files_are_refused(places) -> None:
    named, _ = places
    _put(named / "set" / "file.csv", CONTENT + b"3,4\n")
    assert FILE.state() == "damaged"
    with pytest.raises(DataError, match="damaged"):
        FILE.read()


def test_a_truncated_archive_is_refused(places) -> None:
    named, _ = places
    _put(named / "set" / "file.csv.gz", gzip.compress(CONTENT)[:-6])
    assert FILE.state() == "damaged"
    with pytest.raises(DataError, match="cannot be read"):
        FILE.read()


def test_a_file_without_an_address_says_where_to_put_it(places) -> None:
    with pytest.raises(DataError, match=r"example\.org.*set/file\.csv"):
        FILE.read()
