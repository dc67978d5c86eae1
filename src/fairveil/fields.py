"""Number types of public configurations, and the words that describe a field.

>>> from dataclasses import fields
>>> from fairveil.configuration import configuration
>>> @configuration
... class Coin:
...     sides: Count = described("how many sides it has", default=2)
>>> Coin().sides, fields(Coin)[0].metadata["description"]
(2, 'how many sides it has')
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import Field, Strict

# Budgets below one micro-unit or above a million are refused: zero, subnormal, negative, NaN, infinite and string
# budgets therefore fail closed in one place.
Epsilon = Annotated[float, Strict(), Field(ge=1e-6, le=1e6, allow_inf_nan=False)]
Delta = Annotated[float, Strict(), Field(gt=1e-300, lt=1.0, allow_inf_nan=False)]
Positive = Annotated[float, Strict(), Field(gt=0.0, le=1e300, allow_inf_nan=False)]
NonNegative = Annotated[float, Strict(), Field(ge=0.0, le=1e300, allow_inf_nan=False)]
Probability = Annotated[float, Strict(), Field(ge=0.0, le=1.0, allow_inf_nan=False)]
OpenUnit = Annotated[float, Strict(), Field(gt=0.0, lt=1.0, allow_inf_nan=False)]
Count = Annotated[int, Strict(), Field(ge=1, le=10**12)]
Natural = Annotated[int, Strict(), Field(ge=0, le=2**63 - 1)]
Vector = Annotated[tuple[float, ...], Strict(False)]
Matrix = Annotated[tuple[Vector, ...], Strict(False)]


def described(
    words: str,
    *,
    default: Any = dataclasses.MISSING,
    default_factory: Callable[[], Any] | Any = dataclasses.MISSING,
    example: Any = dataclasses.MISSING,
    key: str | None = None,
    later: bool = False,
) -> Any:
    """A field of a public configuration with its description; without a default it is required.

    ``example`` is its value in the configuration's ``example()``, where that is not the default. ``key``: its name in
    tables and calls, where the attribute cannot have it. ``later``: tables of earlier versions do not have it and mean
    its default, so that a digest of a table leaves the default out.
    """
    facts: dict[str, Any] = {"description": words} | ({} if example is dataclasses.MISSING else {"example": example})
    facts |= ({} if key is None else {"key": key}) | ({"later": True} if later else {})
    return dataclasses.field(default=default, default_factory=default_factory, metadata=facts)
