"""Tables and pictures of what was found, each marked by what it is: private, raw or simulated.

*Raw* numbers are those of people as they are. They are for whoever may see the people's rows anyway, and inside a run
under a ledger nobody may: there a raw table or picture is refused.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Literal

from fairveil.errors import DependencyError, PrivacyError

Kind = Literal["private", "raw", "simulated"]


def check_may_be_seen(title: str, kind: Kind) -> str:
    """The title with its mark; raises where numbers of people would leave a run under a ledger."""
    if kind == "raw":
        from fairveil.ledger.account import ledger_of_run  # here: whoever has estimates need not have a ledger

        if ledger_of_run() is not None:
            raise PrivacyError(
                "raw numbers do not leave a run under a ledger",
                path=title,
                fix="use what was released: report_, estimates or a report of the ledger",
            )
    return f"{title} ({kind})"


def frame_of(rows: list[dict[str, Any]], title: str, kind: Kind, **marks: Any) -> Any:
    """Rows as a pandas table; its title and what it is stand in its attributes."""
    marked = check_may_be_seen(title, kind)
    try:
        import pandas
    except ImportError:
        raise DependencyError("tables need pandas", fix="pip install 'fairveil[lab]'") from None
    table = pandas.DataFrame(rows)
    table.attrs.update({"title": marked, "kind": kind, **marks})
    return table


class Drawable:
    """Something that `fairveil.lab.pictures` can draw."""

    __slots__ = ()

    def plot(self) -> Any:
        """An Altair chart, marked private, raw or simulated in its title; `.save("file.html")` writes it."""
        return import_module("fairveil.lab.pictures").plot(self)
