"""Equal results are equal files; interrupted sweeps resume; a full or read-only disk gives one clear message."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

import fairveil
from fairveil.errors import StoreError
from fairveil.running import store as store_module
from fairveil.running.runner import REPEATED_KEYS, complete
from fairveil.running.store import ResultStore, read_result

SPEC = {"task": "coins", "runs": 8, "seed": 2}


def files(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "provenance.json"
    }


def test_a_stored_result_is_the_result(tmp_path):
    store = ResultStore(tmp_path)
    fresh = fairveil.run(SPEC, store=store)
    again = fairveil.run(SPEC, store=store)
    assert again == fresh, "the second run reads the stored result, timings included"
    assert read_result(store.folder(complete(SPEC))) == fresh


def test_equal_results_are_equal_files(tmp_path):
    fairveil.run(SPEC, store=ResultStore(tmp_path / "a"))
    fairveil.run(SPEC, store=ResultStore(tmp_path / "b"), engine="processes", workers=2)
    assert files(tmp_path / "a") == files(tmp_path / "b")
    assert len(files(tmp_path / "a")) == 3


def test_secure_noise_is_never_answered_from_the_store(tmp_path):
    spec = {**SPEC, "noise": "secure"}
    first = fairveil.run(spec, store=ResultStore(tmp_path))
    assert ResultStore(tmp_path).get(first["spec"]) is None


def test_a_killed_sweep_resumes_and_ends_with_the_same_files(tmp_path, coins):
    spec = {**SPEC, "runs": 40, "sleep": 0.05}
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    command = [sys.executable, "-m", "fairveil.cli", "run", str(tmp_path / "spec.json")]
    command += ["--plugin", str(coins), "--store", str(tmp_path / "cut"), "--json"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    parts = tmp_path / "cut" / "coins"
    deadline = time.monotonic() + 60
    while len(list(parts.rglob("*.npz"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    left = len(list(parts.rglob("*.npz")))
    assert 3 <= left < 20, "killed in the middle"
    assert not list(parts.rglob("provenance.json"))
    result = fairveil.run(spec, store=ResultStore(tmp_path / "cut"))
    whole = fairveil.run(spec, store=ResultStore(tmp_path / "whole"))
    assert all(result[key] == whole[key] for key in REPEATED_KEYS)
    assert files(tmp_path / "cut") == files(tmp_path / "whole")
    assert not list(parts.rglob("*.npz")), "finished blocks are cleaned away"


def test_a_damaged_part_is_done_again(tmp_path):
    store = ResultStore(tmp_path)
    full = complete(SPEC)
    store.put_part(full, 0, {"draws": [0.5, 0.5]})
    place = store.folder(full) / "parts" / "000000.npz"
    place.write_bytes(place.read_bytes()[:20])
    assert fairveil.run(SPEC, store=store)["metrics"] == fairveil.run(SPEC)["metrics"]


@pytest.mark.parametrize("step", ["mkdir", "write"])
def test_a_full_disk_gives_one_clear_message_and_keeps_finished_results(tmp_path, monkeypatch, step):
    store = ResultStore(tmp_path)
    fairveil.run(SPEC, store=store)
    before = files(tmp_path)

    def full(*arguments, **keywords):
        raise OSError(28, "No space left on device")

    if step == "write":
        monkeypatch.setattr(store_module.os, "fsync", full)
    else:
        monkeypatch.setattr(store_module.Path, "mkdir", full)
    with pytest.raises(StoreError, match="No space left") as caught:
        fairveil.run({**SPEC, "seed": 3}, store=store)
    assert caught.value.exit_code == 7
    monkeypatch.undo()
    kept = files(tmp_path)
    assert {name: kept[name] for name in before} == before
    assert not [name for name in kept if name.endswith(".tmp")]


def test_a_damaged_result_says_what_to_do(tmp_path):
    store = ResultStore(tmp_path)
    result = fairveil.run(SPEC, store=store)
    (store.folder(result["spec"]) / "result.json").write_text("{")
    with pytest.raises(StoreError, match="remove the folder"):
        fairveil.run(SPEC, store=store)
