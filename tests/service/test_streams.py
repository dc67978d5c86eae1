"""Private streams beside the service: shown as they were released, absent without the option, never a way to a file."""

from __future__ import annotations

import json
import shutil

import pytest
from release_place import run
from running_service import Direct

from fairveil.errors import SpecError
from fairveil.ledger.verify import verify
from fairveil.service.app import Service
from fairveil.service.settings import Settings

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A stream with a ledger, one as JSON lines without, and files that are none."""
    made = tmp_path_factory.mktemp("streams")
    (made / "in.csv").write_text(f"day,{HOSTILE}\n" + "".join(f"{day},{day % 3}\n" for day in range(12)))
    shared = ["--in", str(made / "in.csv"), "--column", HOSTILE, "--time", "day", "--epsilon", "1", "--delta", "1e-7",
              "--horizon", "20", "--simulate"]  # fmt: skip
    for more in (["--out", "a.csv", "--ledger", "a.db"], ["--out", "b.jsonl", "--json"]):
        named = [str(made / word) if not word.startswith("--") else word for word in more]
        run("release", *shared, *named)
    (made / "broken.csv.guarantee.json").write_text("{")
    (made / "gone.csv.guarantee.json").write_text("{}")
    return made


@pytest.fixture
def streamed(store, folder):
    client = Direct(Service(store, Settings(streams=str(folder))))
    yield client
    client.close()


def test_streams_are_shown_as_they_were_released(streamed, folder):
    first, second = streamed.get("/v1/streams").json()["streams"]
    assert (first["name"], second["name"]) == ("a.csv", "b.jsonl")
    assert len(streamed.get("/v1/streams/a.csv").json()["lines"]) == 12
    cells = (folder / "a.csv").read_text().splitlines()[-1].split(",")
    assert first["lines"] == [
        {"at": "11", "status": "released", "values": {HOSTILE: [float(cell) for cell in cells[1:4]]}}
    ]
    assert first["journal"] == {
        "ledger": "a.db", "entries": verify(folder / "a.db").entries, "head": verify(folder / "a.db").head
    }  # fmt: skip
    assert second["journal"] is None
    page = streamed.get("/streams").text
    assert first["journal"]["head"][:12] in page
    assert "one person&#39;s whole sequence" in page
    for path in ("/streams", "/streams/a.csv", "/streams/b.jsonl"):
        text = streamed.get(path).text
        assert HOSTILE not in text, "names are escaped"
        assert "simulated" in text.lower()
    assert streamed.get("/streams/none.csv").status_code == 404
    assert streamed.get("/streams/..%2Fa.db").status_code == 404


def test_a_line_that_is_being_written_is_not_there_yet(store, folder, tmp_path):
    for file in ("a.csv", "a.csv.guarantee.json"):
        shutil.copy(folder / file, tmp_path / file)
    with open(tmp_path / "a.csv", "a") as file:
        file.write("12,0.5,0.")
    promise = json.loads((tmp_path / "a.csv.guarantee.json").read_text())
    (tmp_path / "a.csv.guarantee.json").write_text(json.dumps({**promise, "ledger": str(folder / "a.db")}))
    client = Direct(Service(store, Settings(streams=str(tmp_path))))
    try:
        [found] = client.get("/v1/streams").json()["streams"]
        assert found["lines"][0]["at"] == "11"
        assert found["journal"] is None, "a ledger elsewhere is not looked for"
    finally:
        client.close()


def test_without_the_option_there_is_no_such_page(http, trial):
    assert http.get("/streams").status_code == 404
    assert http.get("/v1/streams").status_code == 404
    assert "/streams" not in http.get("/").text
    with pytest.raises(SpecError, match="no such folder"):
        Settings(streams="/nowhere")
