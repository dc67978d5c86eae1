"""Releases by hand. A summary is post-processing of what is published: it is free, and kept."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from fairveil.loop import trail
from fairveil.loop.problems import Invalid, NotYet
from fairveil.loop.public import loop_table, release_tables

if TYPE_CHECKING:
    from fairveil.loop.loop import Loop

KINDS = ("summary",)
LATER = ("fairness", "evaluation")


def release(loop: Loop, kind: str, settings: dict[str, Any] | None = None, actor: str = "local") -> tuple[Any, bool]:
    """The release, and whether it is new; the same request at the same version again gives the stored one."""
    check_kind(kind, settings)
    table = loop_table(loop)
    id = f"{kind}-{table['epoch']}-{table['version']}"
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
            (loop.facts.id, id, kind, 0, table["settled"], json.dumps(settings or {}), json.dumps(value), now),
        )
        trail.note(tx, now, actor, "release", loop.name, {"id": id})
    return next(one for one in release_tables(loop) if one["id"] == id), True


def check_kind(kind: str, settings: dict[str, Any] | None) -> None:
    if kind in LATER:
        raise NotYet("releases of this kind are not served yet", path="kind", given=kind, allowed=", ".join(KINDS))
    if kind not in KINDS:
        raise Invalid("unknown kind of release", path="kind", given=kind, allowed=", ".join(KINDS))
    if settings:
        raise Invalid("a summary has no settings", path="settings", allowed="nothing")
