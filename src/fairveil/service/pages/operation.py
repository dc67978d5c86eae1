"""Pages of whoever runs the service: its state and its tokens."""

from __future__ import annotations

from typing import Any

from fairveil.errors import FairveilError
from fairveil.loop import tokens, trail
from fairveil.loop.clock import SECOND, in_words, seconds_of
from fairveil.loop.storage import Transaction
from fairveil.loop.tokens import Token
from fairveil.service.messages import Refused, of_error
from fairveil.service.pages.visit import Onward, Page, Visit
from fairveil.service.routes import route


@route("GET", "/status", "operate", "store, clock, ticks and queue", page=True)
def status(visit: Visit) -> Page:
    watch, pumps = visit.service.watch, visit.service.pumps
    if not watch.running:
        watch.once()
    ready = {"clock": "unknown", "ledgers": "unknown", "ticks": "unknown", "anchors": None, **watch.table}
    facts = {"waiting": pumps.waiting(), "commits": pumps.batches, "problem_words": visit.service.store.last_problem}
    return Page("status.html", {"ready": ready, **facts})


# Tokens --------------------------------------------------------------------------------------------------------------


@route("GET", "/tokens", "operate", "who may use the service", page=True)
def show_tokens(visit: Visit) -> Page:
    return _tokens(visit)


@route("POST", "/tokens", "operate", "make or revoke a token", page=True)
def change_tokens(visit: Visit) -> Page | Onward:
    form, store, actor = visit.form, visit.service.store, visit.visitor.token
    try:
        with store.writing() as tx:
            now = store.clock.now()
            if form.get("do") == "revoke":
                id = form.get("id", "")
                tokens.revoke(tx, id, now)
                trail.note(tx, now, actor.name, "token-revoke", id)
            else:
                text = _added(tx, form, actor, now)
    except (FairveilError, Refused) as error:
        return _tokens(visit, problem=of_error(error))
    visit.service.gate.renew()
    return Onward("/tokens") if form.get("do") == "revoke" else _tokens(visit.without_form(), made=text)


def _added(tx: Transaction, form: dict[str, str], actor: Token, now: int) -> str:
    """A new token, with no role that its maker does not have."""
    roles = form.get("role", "").split()
    if not set(roles) <= actor.roles:
        words = "a token cannot give what it does not have"
        raise Refused(403, "forbidden", words, path="role", allowed=", ".join(sorted(actor.roles)))
    lasts = form.get("expires", "").strip()
    until = now + seconds_of(lasts, "expires") * SECOND if lasts else None
    text = tokens.add(tx, form.get("name", ""), roles, now, form.get("loop", "").strip() or None, until)
    trail.note(tx, now, actor.name, "token-add", text.split("_")[1], {"roles": sorted(set(roles))})
    return text


def _tokens(visit: Visit, **more: Any) -> Page:
    if visit.visitor.token.loop is not None:
        raise Refused(403, "forbidden", "a token for one loop does not manage tokens", fix="use one without a loop")
    store = visit.service.store
    with store.reading() as tx:
        rows, now = tokens.every(tx), store.clock.now()
    listed = [
        {
            **row,
            "state": "revoked"
            if row["revoked"]
            else "expired"
            if row["expires"] and row["expires"] <= now
            else "valid",
            "until": None if row["expires"] is None else in_words(row["expires"]),
            "since": in_words(row["created"]),
        }
        for row in rows
    ]
    status = int(more["problem"]["status"]) if more.get("problem") else 200
    roles = sorted(visit.visitor.token.roles)
    return Page("tokens.html", {"rows": listed, "roles": roles, "given": visit.form, "made": None, **more}, status)
