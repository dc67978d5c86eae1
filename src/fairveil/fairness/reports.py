"""The report that a learner publishes about itself: plain data that is also a table and a picture."""

from __future__ import annotations

from typing import Any

from fairveil.frames import Drawable, Kind, frame_of
from fairveil.privacy.guarantee import Guarantee


class GroupReport(dict[str, Any], Drawable):
    """What `report_` of a classifier holds; ``kind`` says whether it was released with noise or counted as it is.

    >>> found = GroupReport("private", error=0.2, by_group={"a": {"count": 40.0, "selected": 0.5}})
    >>> found["error"], found.kind
    (0.2, 'private')
    """

    promise = ""
    """What it cost and whom that protects, in words for a title."""

    def __init__(self, kind: Kind, **found: Any) -> None:
        super().__init__(found)
        self.kind: Kind = kind

    def under(self, promise: Guarantee, *, simulated: bool) -> GroupReport:
        """The same report with what it cost; seeded noise makes it a simulation."""
        self.promise = str(promise)
        self.kind = "simulated" if simulated else self.kind
        return self

    def __reduce__(self) -> Any:
        return _again, (self.kind, dict(self), self.promise)

    def to_frame(self) -> Any:
        """One row a group where it has groups, else one row a notion of fairness."""
        if "by_group" in self:
            rows = [{"group": name, **rates} for name, rates in self["by_group"].items()]
        else:
            rows = [{"notion": name, "gap": gap} for name, gap in self["discrimination"].items()]
        return frame_of(rows, "report by group", self.kind, error=self["error"])


def _again(kind: Kind, found: dict[str, Any], promise: str = "") -> GroupReport:
    made = GroupReport(kind, **found)
    made.promise = promise
    return made
