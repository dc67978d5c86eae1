"""What depends on values and is not protected stands in a note."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fairveil import registry
from fairveil.configuration import field_names
from fairveil.privacy.guarantee import REFUSED

STRICT = [
    entry.name
    for entry in registry.entries("policy")
    if "strict" in field_names(entry.target) and registry.example(entry.target).guarantee() is not None
]


@pytest.mark.parametrize("name", STRICT)
def test_a_strict_policy_notes_that_refusals_depend_on_values(name):
    policy = registry.example(registry.get("policy", name))
    assert REFUSED not in policy.guarantee().notes
    assert REFUSED in replace(policy, strict=True).guarantee().notes
    assert len(STRICT) >= 10


def test_anytime_notes_what_its_windows_do():
    table = {"name": "anytime", "arms": 2, "inner": {"name": "gdp-ncb", "epsilon": 1.0, "strict": True}}
    assert REFUSED in registry.build("policy", table, "policy").guarantee().notes
