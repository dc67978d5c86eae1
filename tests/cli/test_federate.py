"""`fairveil federate`: plans, keys, a trial run, how far it is."""

import json
from pathlib import Path

import pytest

from fairveil.cli import main

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "federation"


def done(*words):
    with pytest.raises(SystemExit) as ended:
        main(["federate", *words])
    assert ended.value.code == 0


def said(capsys, *words):
    done(*words, "--json")
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("kind", ["exposure", "consensus"])
def test_every_example_runs_and_goes_on(kind, tmp_path, capsys):
    file = str(EXAMPLES / f"{kind}.toml")
    plan = said(capsys, "check", file)
    assert plan["keys"].startswith("missing: north")
    assert plan["synchronisations"] == 5
    assert "X25519" in " ".join(plan["notes"])
    first = said(capsys, "local", file, "--folder", str(tmp_path))
    again = said(capsys, "local", file, "--folder", str(tmp_path))
    assert first == again  # a finished run says the same and draws nothing
    assert first["synchronisations"] == 5
    party = said(capsys, "status", str(tmp_path / "north"))
    assert party["releases"] == 5
    assert (party["party"], party["lost"]) == ("north", 0)
    log = said(capsys, "status", str(tmp_path / "coordinator"))
    assert (log["synchronisations"], log["void"], log["statements"]) == (5, 0, first["statements"])
    assert party["plan"] == log["plan"] == first["fingerprint"]


def test_keys_are_made_once_and_kept_to_their_owner(tmp_path, capsys):
    for _ in range(2):
        done("keys", str(tmp_path / "north"))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert lines[:2] == lines[2:]
    assert lines[0].startswith('signing_key = "')
    assert lines[1].startswith('node_key = "ecdsa-sha2-nistp384 ')
    for name in ("signing.key", "node.key"):
        assert (tmp_path / "north" / name).stat().st_mode & 0o777 == 0o600
    done("keys", str(tmp_path / "coordinator"), "--host", "host.example")
    assert {file.name for file in (tmp_path / "coordinator").glob("*.pem")} == {"ca.pem", "server.pem"}


@pytest.mark.parametrize(
    "old, new, words",
    [
        ("quorum = 3", "quorum = 4", "quorum is above"),
        ("colluding = 1", "colluding = 3", "collude"),
        ("batched-priv-fairx", "priv-fairx", "no secure sums"),
        ("epsilon = 2.0", "epsilon = -1.0", "epsilon"),
        ('kind = "exposure"', 'kind = "exposure"\ncolour = 1', "colour"),
    ],
)
def test_a_plan_that_cannot_work_is_one_sentence_and_a_code(old, new, words, tmp_path, capsys):
    file = tmp_path / "plan.toml"
    file.write_text((EXAMPLES / "exposure.toml").read_text().replace(old, new, 1))
    with pytest.raises(SystemExit) as ended:
        main(["federate", "check", str(file)])
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


def test_a_folder_of_something_else_has_no_status(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["federate", "status", str(tmp_path)])
    assert ended.value.code == 2
    assert "no folder of a federation" in capsys.readouterr().err
