"""Artefacts that use a data set are made from generated data, and marked, where the data set is not on the machine."""

import pytest

from fairveil.lab.reproduce import artefacts, reproduce


@pytest.fixture
def empty_machine(tmp_path, monkeypatch):
    monkeypatch.setenv("FAIRVEIL_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("FAIRVEIL_OFFLINE", "1")


@pytest.mark.parametrize("name", ["thesis/4.8", "thesis/5.3", "thesis/5.5", "thesis/table-5.3", "thesis/table-6.1"])
def test_an_artefact_without_its_data_is_made_and_marked(empty_machine, name):
    made = reproduce(artefacts([name])[0], "quick")
    assert made.generated == type(made.artefact).data
    assert made.pictures
    assert made.claims


def test_every_artefact_has_specs_that_can_be_completed_without_data(empty_machine):
    from fairveil.running.runner import complete

    for kind in artefacts():
        for label, spec in kind().specs("quick").items():
            assert complete(spec)["task"] == spec["task"], (kind.name, label)


def test_the_console_says_that_verdicts_are_of_generated_data(empty_machine, tmp_path, capsys):
    from fairveil.cli import main

    with pytest.raises(SystemExit):
        main(["reproduce", "thesis/5.3", "--engine", "serial", "--out", str(tmp_path / "out")])
    assert "on generated data, not fico" in capsys.readouterr().out
