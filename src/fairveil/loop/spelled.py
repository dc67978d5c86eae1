"""A loop's description as a complete table, the way it is stored and shown."""

from __future__ import annotations

from typing import Any

from fairveil.configuration import describe
from fairveil.loop.config import PARTS, LoopSpec


def spec_table(spec: LoopSpec, policy: dict[str, Any]) -> dict[str, Any]:
    """Everything that was declared, defaults filled; `read_spec` reads it back."""
    table = {name: getattr(spec, name) for name in LoopSpec.model_fields}
    for key in PARTS:
        table[key] = describe(table[key])
    table["features"] = None if spec.features is None else [describe(feature) for feature in spec.features]
    table["policy"] = policy
    return table
