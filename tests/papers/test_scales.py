"""Every artefact can be run at every scale: no spec is refused for what only its own size shows."""

from __future__ import annotations

import pytest

from fairveil.lab import papers
from fairveil.lab.artefact import SCALES
from fairveil.lab.reproduce import artefacts
from fairveil.running.runner import complete


@pytest.mark.parametrize("scale", SCALES)
def test_every_spec_of_every_artefact_is_accepted(scale):
    papers.load()
    for kind in artefacts():
        for label, spec in kind().specs(scale).items():
            assert complete(spec)["task"] == spec["task"], (kind.name, label)
