"""Lines that a chart would hide: under another one, or on its own frame."""

from __future__ import annotations

from collections.abc import Sequence

from fairveil.lab.artefact import Line

SAME = 0.004
"""Share of an axis that an eye takes for nothing."""


def covering(lines: Sequence[Line]) -> list[bool]:
    """Which lines lie on an earlier one as far as an eye can tell.

    >>> covering([Line("a", (0, 1), (0, 1)), Line("b", (0, 1), (0, 1.001)), Line("c", (0, 1), (0.5, 1))])
    [False, True, False]
    """
    values = [y for item in lines for y in item.y if y is not None]
    near = SAME * (max(values) - min(values)) if values else 0.0

    def same(one: Line, other: Line) -> bool:
        pairs = [(a, b) for a, b in zip(one.y, other.y) if a is not None and b is not None]
        return one.x == other.x and len(pairs) > 1 and all(abs(a - b) <= near for a, b in pairs)

    return [any(same(item, earlier) for earlier in lines[:place]) for place, item in enumerate(lines)]


def on_the_frame(lines: Sequence[Line], ends: Sequence[float]) -> bool:
    """Whether a line lies from end to end on an edge of a chart whose values end at these.

    >>> on_the_frame([Line("a", (0, 1), (0, 1)), Line("b", (0, 1), (1, 1))], (0, 1))
    True
    """
    low, high = min(ends, default=0.0), max(ends, default=0.0)
    near = SAME * (high - low)
    lying = [[y for y in item.y if y is not None] for item in lines]
    return near > 0 and any(len(y) > 1 and (min(y) >= high - near or max(y) <= low + near) for y in lying)
