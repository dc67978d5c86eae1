"""`fairveil serve`, `token`, `store` and `loop`."""

from __future__ import annotations

import json
from pathlib import Path

import even_blocks  # noqa: F401 - registers the policy of these tests
import pytest
from running_service import LOOP, bound, listening
from typer.testing import CliRunner

from fairveil import cli
from fairveil.client import Client
from fairveil.loop import Store
from fairveil.service.app import Service
from fairveil.service.serve import first_words
from fairveil.service.settings import Settings

run = CliRunner().invoke


@pytest.fixture
def url(tmp_path):
    made = f"sqlite:///{tmp_path}/data/store.db"
    with Store.open(made) as store:
        store.create(**LOOP).decide("e-1")
    return made


def stopped(capsys, *words):
    with pytest.raises(SystemExit) as end:
        cli.main(list(words))
    return end.value.code, capsys.readouterr().err


def test_tokens_are_shown_once_listed_and_revoked(url, capsys):
    text = run(
        cli.app, ["token", "add", "--name", "clinic", "--role", "decide", "--expires", "90d", "--store", url]
    ).output
    assert text.startswith("fv_")
    listed = run(cli.app, ["token", "list", "--store", url]).output
    assert "clinic" in listed
    assert text.strip().split("_", 2)[2] not in listed
    assert "revoked" in run(cli.app, ["token", "revoke", text.split("_")[1], "--store", url]).output
    assert "revoked" in run(cli.app, ["token", "list", "--store", url]).output
    code, words = stopped(capsys, "token", "add", "--name", "x", "--role", "king", "--store", url)
    assert code == 2
    assert "decide, operate, audit" in words


def test_the_store_is_checked_copied_and_put_back(url, tmp_path, capsys):
    found = json.loads(run(cli.app, ["store", "check", "--json", "--store", url]).output)
    assert found["verdict"] == "intact"
    assert found["loops"]["trial"]["rounds"] == 1
    told = run(cli.app, ["store", "check", "--store", url], env={"COLUMNS": "80"}).output
    assert told.startswith("intact: 1 loops, 1 ledgers")
    assert "trial" in told
    assert "copied" in run(cli.app, ["store", "backup", str(tmp_path / "copy"), "--store", url]).output
    other = f"sqlite:///{tmp_path}/other/store.db"
    said = run(cli.app, ["store", "restore", str(tmp_path / "copy"), "--store", other]).output
    assert "restored the copy of" in said
    assert "tokens revoked and people erased since then are back: revoke and erase again" in " ".join(said.split())
    assert (
        json.loads(run(cli.app, ["store", "check", "--json", "--store", other]).output)["loops"]["trial"]["rounds"] == 1
    )
    assert "up to date" in run(cli.app, ["store", "migrate", "--store", url]).output
    assert "erased" in run(cli.app, ["store", "forget", "--store", url]).output
    code, words = stopped(capsys, "store", "check", "--store", f"sqlite:///{tmp_path}/none/store.db")
    assert (code, "no store" in words) == (2, True)
    code, words = stopped(capsys, "store", "check", "--store", "mysql://x")
    assert code == 2


def test_the_key_is_moved_away_from_its_store(url, tmp_path, capsys):
    beside, file = Path(url[len("sqlite:///") :] + ".key"), tmp_path / "elsewhere" / "key"
    secret = beside.read_text()
    assert json.loads(run(cli.app, ["store", "check", "--json", "--store", url]).output)["key"] == "beside the store"
    code, words = stopped(capsys, "store", "move-key", "--to", str(beside.with_name("key")), "--store", url)
    assert (code, "another folder" in words) == (2, True)
    file.parent.mkdir()
    assert "--key-file" in run(cli.app, ["store", "move-key", "--to", str(file), "--store", url]).output
    assert (beside.exists(), file.read_text(), file.stat().st_mode & 0o777) == (False, secret, 0o600)
    assert json.loads(run(cli.app, ["store", "check", "--json", "--store", url]).output)["key"] == "elsewhere"
    with Store.open(url, key_file=file) as store:
        assert store.loop("trial").event("e-1")["round"] == 0
    code, words = stopped(capsys, "store", "move-key", "--to", str(tmp_path / "again"), "--store", url)
    assert (code, "no key" in words) == (2, True)


def test_the_key_is_changed_and_events_are_exported(url):
    old = Path(url[len("sqlite:///") :] + ".key").read_text()
    assert "the key is changed" in run(cli.app, ["store", "rekey", "--store", url]).output
    new = Path(url[len("sqlite:///") :] + ".key").read_text()
    assert new.splitlines()[1:] == old.splitlines()
    with Store.open(url) as store:
        assert store.loop("trial").reward("e-1", 1.0).accepted
    [line] = run(cli.app, ["store", "export", "trial", "--store", url]).output.splitlines()
    assert json.loads(line)["round"] == 0


def test_the_clock_is_shown_and_believed(url):
    shown = json.loads(run(cli.app, ["store", "clock", "--show", "--store", url]).output)
    assert (shown["state"], shown["loops_ahead"]) == ("sane", 0)
    assert json.loads(run(cli.app, ["store", "clock", "--store", url]).output)["state"] == "sane"
    with Store.open(url) as store, store.reading() as tx:
        assert tx.execute("SELECT action FROM trail ORDER BY seq DESC LIMIT 1") == [("clock",)]


def test_loops_of_a_running_service(url, capsys):
    with Store.open(url) as store, listening(Service(store, Settings())) as address:
        assert "even-blocks" in run(cli.app, ["loop", "list", "--url", address]).output
        assert json.loads(run(cli.app, ["loop", "list", "--url", address, "--json"]).output)[0]["name"] == "trial"
        assert (
            json.loads(run(cli.app, ["loop", "show", "trial", "--json", "--url", address]).output)["budget"]["epsilon"]
            == 1.0
        )
        shown = run(cli.app, ["loop", "show", "trial", "--url", address], env={"COLUMNS": "80"}).output
        assert "1 decided: 0 published; 1 not released yet" in shown
        assert "even-blocks" in shown
        assert "paid in full" in shown
        assert "frozen" in run(cli.app, ["loop", "mode", "trial", "frozen", "--url", address]).output
        for command in (["loop", "show", "trail"], ["loop", "mode", "trail", "frozen"], ["report", "--loop", "trail"]):
            code, words = stopped(capsys, *command, "--url", address)
            assert (code, "given 'trail'; allowed: trial; did you mean trial?" in words) == (2, True), words
    code, words = stopped(capsys, "report", url, "--loop", "trail")
    assert (code, "did you mean trial?" in words) == (2, True)
    code, words = stopped(capsys, "loop", "list", "--url", "http://127.0.0.1:1")
    assert (code, "reached" in words) == (7, True)


def test_outcomes_of_a_new_loop_are_taken_to_vary_by_half_their_range(url):
    policy = {"name": "batched-priv-fairx", "epsilon": 5.0, "delta": 1e-5, "horizon": 400}
    table = {"policy": policy, "features": [{"name": "price", "low": 0.0, "high": 1.0}], "reward": {"high": 10.0}}
    smaller = {**table, "policy": {**policy, "reward_std": 0.1}}
    with Store.open(url) as store, listening(Service(store, Settings())) as address, Client(address) as client:
        said = "outcomes are taken to vary by a standard deviation of 0.1 (reward_std)"
        [warning] = [words for words in client.quote("shop", **smaller)["warnings"] if words.startswith(said)]
        assert "5, half the range of an outcome, is enough for any" in warning
        assert not any("reward_std" in words for words in client.quote("shop", **table)["warnings"])
        client.create("shop", **table)
        client.create("shelf", **smaller)
        for loop, std in (("shop", "5"), ("shelf", "0.1")):
            shown = run(cli.app, ["loop", "show", loop, "--url", address], env={"COLUMNS": "200"}).output
            assert f"outcomes are taken to vary by a standard deviation of {std} (reward_std)" in shown


def test_serve_on_a_taken_port_says_what_to_do(url, capsys):
    held, port = bound()
    with held:
        held.listen()
        code, words = stopped(capsys, "serve", "--store", url, "--port", str(port))
    assert code == 2
    assert f"127.0.0.1:{port}" in words
    assert "a service that runs there can be used as it is; else choose another --port" in words
    assert "Traceback" not in words


def test_what_serve_says_first_and_what_it_refuses(url, capsys):
    assert first_words(Settings(store=url)).startswith("fairveil serves http://127.0.0.1:8080 (open")
    code, words = stopped(capsys, "serve", "--store", url, "--host", "0.0.0.0")
    assert (code, "token" in words) == (2, True)
    run(cli.app, ["token", "add", "--name", "x", "--role", "operate", "--store", url])
    assert "tokens are needed" in first_words(Settings(store=url))
    assert "no anchor" in first_words(Settings(store=url))
    assert "own folder" in first_words(Settings(store=url, anchor=f"{url.removeprefix('sqlite:///')}.anchors"))
    code, words = stopped(capsys, "serve", "--store", url, "--host", "0.0.0.0")
    assert (code, "encrypts" in words) == (2, True)
    code, words = stopped(capsys, "serve", "--store", url, "--tls-cert", "x")
    assert code == 2
