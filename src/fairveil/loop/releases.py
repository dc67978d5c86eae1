"""Releases by hand. A summary is post-processing of what is published: free, and kept. Reports cost their budget."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fairveil.loop import trail
from fairveil.loop.asked import quoted, wanted
from fairveil.loop.problems import Invalid
from fairveil.loop.public import loop_table, release_tables
from fairveil.loop.reporting import KINDS as REPORTS
from fairveil.loop.reports import make, of_request

if TYPE_CHECKING:
    from fairveil.loop.loop import Loop

KINDS = ("summary", *REPORTS)
BUDGETS = ("epsilon", "delta", "rho", "mu")
ASKED = ("first", "stop", *BUDGETS, "half_width", "dry_run")


def release(
    loop: Loop, kind: str, settings: dict[str, Any] | None = None, actor: str = "local", **asked: Any
) -> tuple[Any, bool]:
    """The release, and whether it is new; the same request again gives the stored one.

    ``request_id``, made by the caller, names a request whose range is left open: a retry gives what the first one made.
    """
    request = asked.pop("request_id", None)
    check_kind(kind, settings, asked)
    if kind == "summary":
        return _summary(loop, actor)
    price = {name: asked[name] for name in BUDGETS if asked.get(name) is not None}
    if not price:
        raise Invalid("a report has a budget", path="epsilon", allowed="epsilon, rho or mu of the whole release")
    known = of_request(loop, request)
    if known is None:
        known = wanted(loop, kind, asked.get("first"), asked.get("stop"), price, settings)
    return make(loop, replace(known, request=request), actor)


def _summary(loop: Loop, actor: str) -> tuple[Any, bool]:
    table = loop_table(loop)
    id = f"summary-{table['epoch']}-{table['version']}"
    found = [one for one in release_tables(loop) if one["id"] == id]
    if found:
        return found[0], False
    keys = ("mode", "rounds", "settled", "version", "epoch", "published", "guarantee", "person_guarantee", "simulated")
    value = {key: table[key] for key in keys}
    now = loop.store.clock.now()
    with loop.store.writing() as tx:
        tx.execute(
            "INSERT INTO releases (loop, id, kind, first, stop, settings, value, created) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (loop, id) DO NOTHING",
            (loop.facts.id, id, "summary", 0, table["settled"], "{}", json.dumps(value), now),
        )
        trail.note(tx, now, actor, "release", loop.name, {"id": id})
    return next(one for one in release_tables(loop) if one["id"] == id), True


def quote_release(loop: Loop, kind: str, settings: dict[str, Any] | None = None, **asked: Any) -> dict[str, Any]:
    """Cost, whether the ledger admits it, and expected half-widths; nothing is charged."""
    if kind == "summary":
        check_kind(kind, settings, asked)
        left = loop.ledger.limit.words(loop.ledger.remaining)
        return {"kind": kind, "cost": "nothing", "admitted": True, "largest_admissible": left, "half_widths": []}
    check_kind(kind, settings, asked)
    price = {name: asked[name] for name in BUDGETS if asked.get(name) is not None}
    return quoted(loop, kind, asked.get("first"), asked.get("stop"), price, settings, asked.get("half_width"),
                  asked.get("dry_run", False))  # fmt: skip


def check_kind(kind: str, settings: dict[str, Any] | None, asked: dict[str, Any]) -> None:
    if kind not in KINDS:
        raise Invalid("unknown kind of release", path="kind", given=kind, allowed=", ".join(KINDS))
    if unknown := set(asked) - set(ASKED):
        raise Invalid(
            "a release is not asked for with this", path=min(unknown), allowed=", ".join(ASKED),
            fix="a level and targets stand in settings",
        )  # fmt: skip
    if kind != "summary":
        return
    if settings:
        raise Invalid("a summary has no settings", path="settings", allowed="nothing")
    for name, value in asked.items():
        if value is not None:
            raise Invalid("a summary covers all that is published, for free", path=name, allowed="nothing")
