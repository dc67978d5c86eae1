"""Pages of whoever runs the service, its state and its tokens; and of whoever checks: ledgers with their proof, and
what operators did."""

from __future__ import annotations

from typing import Any

from fairveil.errors import FairveilError
from fairveil.loop import listing, tokens, trail
from fairveil.loop.clock import SECOND, in_words, seconds_of
from fairveil.loop.problems import Invalid
from fairveil.loop.storage import Transaction
from fairveil.loop.tokens import Token
from fairveil.service.messages import Refused, of_error
from fairveil.service.pages.visit import Onward, Page, Visit
from fairveil.service.pages.words import rounded, url
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


# Audit ---------------------------------------------------------------------------------------------------------------


ROWS = 50


@route("GET", "/ledgers", "audit", "all ledgers", page=True)
def ledgers(visit: Visit) -> Page:
    after = visit.query.get("after", "")
    found = visit.ask("GET", f"/v1/ledgers?after={url(after)}")["ledgers"]
    more = found[-1]["name"] if len(found) == listing.PAGE else None
    return Page("ledgers.html", {"rows": [_rounded(table) for table in found], "after": after, "more": more})


@route("GET", "/ledgers/{ledger}", "audit", "one ledger", page=True)
def ledger(visit: Visit) -> Page:
    path = f"/v1/ledgers/{url(visit.names[0])}"
    table = visit.ask("GET", path)
    proof = visit.ask("GET", f"{path}/verify")
    newest = -1 if proof["entries"] is None else proof["entries"] - 1 - ROWS
    after = _after(visit, max(newest, -1))
    rows = visit.ask("GET", f"{path}/entries?after={after}")["entries"][:ROWS] if proof["verdict"] == "intact" else []
    last = rows[-1]["sequence"] if rows else after
    more = proof["entries"] is not None and last < proof["entries"] - 1
    context = {
        "ledger": _rounded(table),
        "accounts": [{**one, "charge": rounded(one["charge"])} for one in table["accounts"]],
        "proof": proof,
        "rows": rows,
        "earlier": max(after - ROWS, -1) if after >= 0 else None,
        "later": last if more else None,
    }
    return Page("ledger.html", context)


@route("GET", "/trail", "audit", "what operators did", page=True)
def what_was_done(visit: Visit) -> Page:
    [(newest,)] = visit.service.store.read("SELECT coalesce(max(seq), 0) FROM trail")
    after = _after(visit, max(newest - ROWS, 0))
    rows = visit.ask("GET", f"/v1/trail?after={after}")["entries"][:ROWS]
    last = rows[-1]["seq"] if rows else after
    context = {
        "rows": list(reversed(rows)),
        "earlier": max(after - ROWS, 0) if after > 0 else None,
        "later": last if rows and last < newest else None,
    }
    return Page("trail.html", context)


def _after(visit: Visit, otherwise: int) -> int:
    given = visit.query.get("after")
    if given is None:
        return otherwise
    if not given.removeprefix("-").isdecimal() or len(given) > 17:
        raise Invalid("a listing goes on after a number", path="after", allowed="a whole number")
    return int(given)


def _rounded(table: dict[str, object]) -> dict[str, object]:
    words = ("limit", "spent", "reserved", "remaining", "words")
    return {**table, **{key: rounded(str(table[key])) for key in words if key in table}}
