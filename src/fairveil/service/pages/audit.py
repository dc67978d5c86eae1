"""Pages of whoever checks: ledgers with their proof, and what operators did."""

from __future__ import annotations

from urllib.parse import quote

from fairveil.loop import listing
from fairveil.loop.problems import Invalid
from fairveil.service.pages.visit import Page, Visit
from fairveil.service.pages.words import rounded
from fairveil.service.routes import route

ROWS = 50


@route("GET", "/ledgers", "audit", "all ledgers", page=True)
def ledgers(visit: Visit) -> Page:
    after = visit.query.get("after", "")
    found = visit.ask("GET", f"/v1/ledgers?after={quote(after, safe='')}")["ledgers"]
    more = found[-1]["name"] if len(found) == listing.PAGE else None
    return Page("ledgers.html", {"rows": [_rounded(table) for table in found], "after": after, "more": more})


@route("GET", "/ledgers/{ledger}", "audit", "one ledger", page=True)
def ledger(visit: Visit) -> Page:
    path = f"/v1/ledgers/{quote(visit.names[0], safe='')}"
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
def trail(visit: Visit) -> Page:
    with visit.service.store.reading() as tx:
        [(newest,)] = tx.execute("SELECT coalesce(max(seq), 0) FROM trail")
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
