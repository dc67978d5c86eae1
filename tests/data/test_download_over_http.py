"""The downloader against a real server on the loopback interface: whole, cut, wrong, absent, resumed."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from fairveil.data import download as transfer
from fairveil.data.files import DataFile, Download, Origin, cache_folder, find
from fairveil.errors import DataError

CONTENT = bytes(range(256)) * 1024
DIGEST = hashlib.sha256(CONTENT).hexdigest()


@dataclass
class Served:
    url: str = ""
    ranges: list[str] = field(default_factory=list)
    cut_after: list[int] = field(default_factory=list)
    ignore_range: bool = False
    status: int = 200
    hits: int = 0


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path) -> Iterator[Served]:
    served = Served()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.hits += 1
            served.ranges.append(self.headers.get("Range", ""))
            if served.status != 200:
                self.send_error(served.status)
                return
            start = 0
            if self.headers.get("Range") and not served.ignore_range:
                start = int(self.headers["Range"].removeprefix("bytes=").rstrip("-"))
                if start > len(CONTENT):
                    self.send_error(416)
                    return
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}")
            else:
                self.send_response(200)
            body = CONTENT[start:]
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            stop = served.cut_after.pop(0) if served.cut_after else len(body)
            with contextlib.suppress(ConnectionError):
                self.wfile.write(body[:stop])

        def log_message(self, *_: object) -> None:
            pass

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("FAIRVEIL_DATA", raising=False)
    monkeypatch.delenv("FAIRVEIL_OFFLINE", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        served.url = f"http://127.0.0.1:{running.server_address[1]}/file.bin"
        yield served
        running.shutdown()
        thread.join()


def test_a_whole_file_arrives_and_no_part_is_left(server: Served, tmp_path) -> None:
    target = transfer.download(server.url, tmp_path / "deep" / "file.bin", sha256=DIGEST)
    assert target.read_bytes() == CONTENT
    assert not target.with_name("file.bin.part").exists()


def test_a_cut_transfer_resumes_by_itself_where_it_stopped(server: Served, tmp_path) -> None:
    server.cut_after = [1000, 5000]
    target = transfer.download(server.url, tmp_path / "file.bin", sha256=DIGEST, pause=0.0)
    assert target.read_bytes() == CONTENT
    assert server.ranges == ["", "bytes=1000-", "bytes=6000-"]


def test_an_interrupted_download_continues_at_the_next_call(server: Served, tmp_path) -> None:
    server.cut_after = [700] + [0] * (transfer.ATTEMPTS - 1)
    with pytest.raises(DataError, match="700 bytes are kept"):
        transfer.download(server.url, tmp_path / "file.bin", sha256=DIGEST, pause=0.0)
    assert not (tmp_path / "file.bin").exists()
    transfer.download(server.url, tmp_path / "file.bin", sha256=DIGEST, pause=0.0)
    assert (tmp_path / "file.bin").read_bytes() == CONTENT
    assert server.ranges[-1] == "bytes=700-"


def test_a_server_without_ranges_sends_everything_again(server: Served, tmp_path) -> None:
    server.ignore_range = True
    (tmp_path / "file.bin.part").write_bytes(b"something else")
    assert transfer.download(server.url, tmp_path / "file.bin", sha256=DIGEST).read_bytes() == CONTENT


def test_a_part_longer_than_the_file_is_thrown_away(server: Served, tmp_path) -> None:
    (tmp_path / "file.bin.part").write_bytes(b"x" * (len(CONTENT) + 5))
    assert transfer.download(server.url, tmp_path / "file.bin", sha256=DIGEST, pause=0.0).read_bytes() == CONTENT


def test_a_wrong_checksum_leaves_nothing_behind(server: Served, tmp_path) -> None:
    with pytest.raises(DataError, match="checksum"):
        transfer.download(server.url, tmp_path / "file.bin", sha256="0" * 64)
    assert not (tmp_path / "file.bin").exists()
    assert not (tmp_path / "file.bin.part").exists()


def test_a_missing_file_is_asked_for_once(server: Served, tmp_path) -> None:
    server.status = 404
    with pytest.raises(DataError, match="404"):
        transfer.download(server.url, tmp_path / "file.bin", sha256=DIGEST, pause=0.0)
    assert server.hits == 1


def test_a_busy_server_is_asked_again(server: Served, tmp_path) -> None:
    server.status = 503
    with pytest.raises(DataError, match="503"):
        transfer.download(server.url, tmp_path / "file.bin", pause=0.0)
    assert server.hits == transfer.ATTEMPTS


def test_only_web_addresses_are_opened(tmp_path) -> None:
    (tmp_path / "secret").write_text("x")
    with pytest.raises(DataError, match="https"):
        transfer.download((tmp_path / "secret").as_uri(), tmp_path / "copy")


def test_a_folder_that_cannot_be_written_is_named(server: Served, tmp_path) -> None:
    (tmp_path / "blocked").write_text("a file where a folder should be")
    with pytest.raises(DataError, match="blocked"):
        transfer.download(server.url, tmp_path / "blocked" / "file.bin")


def test_a_progress_bar_can_be_shown(server: Served, tmp_path, capsys) -> None:
    transfer.download(server.url, tmp_path / "file.bin", progress=True)
    assert (tmp_path / "file.bin").read_bytes() == CONTENT


def _file(server: Served, digest: str = DIGEST, personal: bool = False) -> DataFile:
    return DataFile("thing/file.bin", digest, "https://example.org", Origin((Download(server.url),), personal=personal))


def test_fetching_fills_the_cache_once_and_reading_uses_it(server: Served) -> None:
    file = _file(server)
    assert file.state() == "missing"
    assert file.read() == CONTENT
    assert find("thing/file.bin") == cache_folder() / "thing" / "file.bin"
    assert file.read() == CONTENT
    assert (server.hits, file.state()) == (1, "ok")
    assert list((cache_folder() / "downloads").glob("*[!k]")) == []  # only lock files stay


def test_what_changed_at_home_is_refused_and_not_stored(server: Served) -> None:
    with pytest.raises(DataError, match="edition"):
        _file(server, digest="1" * 64).read()
    assert find("thing/file.bin") is None


def test_a_personal_part_is_never_kept(server: Served) -> None:
    assert _file(server, personal=True).read() == CONTENT
    assert not (cache_folder() / "downloads").exists()


def test_offline_says_what_to_do(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRVEIL_OFFLINE", "1")
    with pytest.raises(DataError, match=r"FAIRVEIL_OFFLINE.*example\.org.*FAIRVEIL_DATA"):
        _file(server).read()
    assert server.hits == 0


def test_an_unreachable_server_says_what_to_do(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer.time, "sleep", lambda _: None)
    file = DataFile("thing/x", DIGEST, "https://example.org", Origin((Download("http://127.0.0.1:9/x"),)))
    with pytest.raises(DataError, match="put it at"):
        file.read()


def test_a_bar_names_the_file_and_its_home_not_the_cache() -> None:
    assert transfer._words("https://home.example/data/adult.data") == "fetching adult.data from home.example"
