"""The routes that operators, auditors and the public take. Each runs in a thread and answers with plain data."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple
from urllib.parse import parse_qs

from pydantic import BaseModel, ConfigDict, Field

from fairveil.errors import LedgerTampered
from fairveil.ledger.verify import verify
from fairveil.loop import listing, trail
from fairveil.loop.audits import audit_tables
from fairveil.loop.events import event_lines
from fairveil.loop.paying import accounts, ledger_table
from fairveil.loop.problems import Invalid, NameTaken, Unknown, UnknownLoop
from fairveil.loop.public import PublicView, history, loop_table, public_view, same_spec
from fairveil.loop.quoting import quote
from fairveil.loop.reports import quote_release, release
from fairveil.loop.requests import Id
from fairveil.loop.tokens import Token
from fairveil.reports.export import as_csv
from fairveil.service.messages import Refused
from fairveil.service.routes import EVENT, LOOP, SLOW, route
from fairveil.service.streams import stream_tables

if TYPE_CHECKING:
    from fairveil.loop.store import Store
    from fairveil.service.app import Service

PAGE = 500
LEDGER = "/v1/ledgers/{ledger}"
HISTORY = f"{LOOP}/history"
STREAMS = "/v1/streams"
_RULES = ConfigDict(extra="forbid", strict=True)
Budget = Annotated[float, Field(ge=1e-6, le=1e6, allow_inf_nan=False)]


class Attachment(NamedTuple):
    """An answer that is no JSON: its bytes and what they are."""

    data: bytes
    media: bytes


@dataclass(frozen=True)
class Request:
    """A request as a handler sees it: names from the path, checked body, who asks."""

    names: tuple[str, ...]
    body: Any
    token: Token
    query: bytes = b""

    @property
    def after(self) -> int:
        """Where a listing goes on; -1 from the beginning."""
        given = parse_qs(self.query.decode("latin-1")).get("after", ["-1"])[-1]
        if re.fullmatch("-?[0-9]{1,17}", given) is None:
            raise Invalid("a listing goes on after a number", path="after", allowed="a whole number")
        return int(given)

    @property
    def after_name(self) -> str:
        """The name after which a listing goes on; empty from the beginning."""
        return parse_qs(self.query.decode("latin-1"), encoding="utf-8", errors="replace").get("after", [""])[-1]

    def view(self, store: Store, path: str, streams: str | None = None) -> PublicView:
        """What the public handler of a path sees; ``streams``: the folder of private streams."""
        if path.startswith(STREAMS):
            return PublicView(streams=None if streams is None else stream_tables(streams))
        if path == HISTORY:
            return PublicView(history={self.names[0]: history(store.loop(self.names[0]))})
        if self.names:
            return public_view(store, self.names[0])
        return PublicView(listing.page(store, self.after_name, self.token.loop))


Answer = tuple[int, Any]

# Bodies --------------------------------------------------------------------------------------------------------------


class LoopBody(BaseModel):
    """A loop; keys and their meaning are in the guide. Checked by `fairveil.loop.config.read_spec`."""

    model_config = _RULES

    name: str
    policy: dict[str, Any]
    actions: list[str] | None = None
    groups: list[str] | dict[str, list[str]] | None = None
    features: list[dict[str, Any]] | None = None
    reward: dict[str, Any] | None = None
    person: dict[str, Any] | None = None
    max_candidates: int | None = None
    budget: dict[str, Any] | None = None
    explore: float | None = None
    allocation: dict[str, Any] | None = None
    targets: list[dict[str, Any]] | None = None
    reports: dict[str, Any] | None = None
    retention: dict[str, Any] | None = None
    start_from: str | None = None
    mode: str | None = None
    simulated: bool | None = None
    plan: dict[str, Any] | None = Field(None, description="for a quote: people, per_day, typical delay")


class ModeBody(BaseModel):
    model_config = _RULES

    mode: str


class SubjectBody(BaseModel):
    model_config = _RULES

    subject: Id


class QuoteBody(BaseModel):
    """A release: its kind, for a report the range of places, the budget of the whole release, and settings."""

    model_config = _RULES

    kind: str
    first: Annotated[int, Field(ge=0, le=2**53)] | None = None
    stop: Annotated[int, Field(ge=0, le=2**53)] | None = None
    epsilon: Budget | None = None
    rho: Budget | None = None
    mu: Budget | None = None
    settings: dict[str, Any] | None = None
    half_width: Annotated[float, Field(gt=0.0, le=1e12, allow_inf_nan=False)] | None = None
    dry_run: bool | None = Field(None, description="with what would be published, on made-up rows")

    def asked(self) -> dict[str, Any]:
        """What was given, but for kind and settings."""
        return {name: value for name, value in self if name not in ("kind", "settings") and value is not None}


class AuditBody(BaseModel):
    """``trials``: runs of each of two worlds that differ in one person."""

    model_config = _RULES

    trials: Annotated[int, Field(ge=100, le=1_000_000)] = 20_000


class ReleaseBody(QuoteBody):
    half_width: None = None
    dry_run: None = None
    request_id: Id | None = None


# Public: these see a PublicView, never the store ---------------------------------------------------------------------


@route("GET", "/v1/loops", "public", "loops in pages, with budget and last release")
def list_loops(view: PublicView, call: Request) -> Answer:
    return 200, {"loops": list(view.loops.values())}


@route("GET", LOOP, "public", "one loop")
def get_loop(view: PublicView, call: Request) -> Answer:
    return 200, view.loops[call.names[0]]


@route("GET", HISTORY, "public", "what was known after each release")
def get_history(view: PublicView, call: Request) -> Answer:
    return 200, {"releases": view.history[call.names[0]]}


@route("GET", f"{LOOP}/budget", "public", "limit, spent and left")
def get_budget(view: PublicView, call: Request) -> Answer:
    return 200, view.budgets[call.names[0]]


@route("POST", f"{LOOP}/budget/quote", "public", "what a release would cost", body=QuoteBody, channel="operator")
def quote_of_release(service: Service, call: Request) -> Answer:
    """From configuration, public counts and the ledger alone."""
    return 200, quote_release(
        service.store.loop(call.names[0]), call.body.kind, call.body.settings, **call.body.asked()
    )


@route("GET", f"{LOOP}/releases", "public", "all releases")
def list_releases(view: PublicView, call: Request) -> Answer:
    return 200, {"releases": view.releases[call.names[0]]}


@route("GET", f"{LOOP}/releases/{{release}}", "public", "one release")
def get_release(view: PublicView, call: Request) -> Answer:
    return 200, _one(view.releases[call.names[0]], call.names[1], "release")


# Operators -----------------------------------------------------------------------------------------------------------


@route("POST", "/v1/loops", "operate", "create a loop", body=LoopBody, statuses=(201, 200), deadline=SLOW)
def create_loop(service: Service, call: Request) -> Answer:
    """A repeated request finds the loop that the first one made; the name of a different or closed one is taken."""
    table = _given(call.body)
    try:
        return 201, loop_table(service.store.create(actor=call.token.name, **table))
    except NameTaken as taken:
        try:
            found = service.store.loop(table["name"])
        except UnknownLoop:
            raise taken from None
        if found.status().closed is not None or not same_spec(found.facts, table):
            raise
        return 200, loop_table(found)


@route("POST", "/v1/quote", "operate", "what a loop would cost", body=LoopBody, deadline=SLOW)
def quote_loop(service: Service, call: Request) -> Answer:
    return 200, quote(_given(call.body), service.store)


@route("PUT", f"{LOOP}/mode", "operate", "change the mode", body=ModeBody)
def put_mode(service: Service, call: Request) -> Answer:
    loop = service.store.loop(call.names[0])
    loop.set_mode(call.body.mode, call.token.name)
    return 200, loop_table(loop)


@route("DELETE", LOOP, "operate", "close a loop", statuses=(204,))
def close_loop(service: Service, call: Request) -> Answer:
    service.store.loop(call.names[0]).close(call.token.name)
    return 204, None


@route("DELETE", f"{LOOP}/actions/{{action}}", "operate", "close an arm, for ever", statuses=(204,))
def close_action(service: Service, call: Request) -> Answer:
    """What was published of it stays. Adding an arm is a new loop with `start_from`."""
    service.store.loop(call.names[0]).close_action(call.names[1], call.token.name)
    return 204, None


@route("POST", f"{LOOP}/releases", "operate", "make a release", body=ReleaseBody, statuses=(201, 200), deadline=SLOW)
def make_release(service: Service, call: Request) -> Answer:
    body, loop = call.body, service.store.loop(call.names[0])
    made, new = release(loop, body.kind, body.settings, call.token.name, **body.asked())
    return (201 if new else 200), made


@route("DELETE", f"{LOOP}/subjects", "operate", "erase a person's raw data", body=SubjectBody)
def erase_subject(service: Service, call: Request) -> Answer:
    found = service.store.loop(call.names[0]).erase_subject(call.body.subject, call.token.name)
    return 200, {"events": found}


@route("GET", f"{LOOP}/releases/{{release}}/csv", "public", "one report as CSV")
def get_release_csv(view: PublicView, call: Request) -> Answer:
    _, one = get_release(view, call)
    if one["kind"] == "summary" or one["value"].get("status") == "lost":
        raise Unknown("this release has no table", path="release", fix="see its JSON")
    return 200, Attachment(as_csv(one["value"]).encode(), b"text/csv; charset=utf-8")


@route("GET", f"{LOOP}/events", "operate", "what is still kept of events, as NDJSON", deadline=SLOW)
def get_events(service: Service, call: Request) -> Answer:
    """One page; the last line's ``seq`` is where the next one goes on (``?after=``)."""
    lines = event_lines(service.store.loop(call.names[0]), call.after, PAGE)
    return 200, Attachment(lines.encode(), b"application/x-ndjson")


@route("GET", EVENT, "decide", "the stored reply and the fate of its reward")
def get_event(service: Service, call: Request) -> Answer:
    return 200, service.store.loop(call.names[0]).event(call.names[1])


@route("POST", f"{LOOP}/audits", "operate", "attack the loop's policy on made-up rows", body=AuditBody, statuses=(202,))
def begin_audit(service: Service, call: Request) -> Answer:
    """One at a time, beside the service; `GET` says what became of it."""
    loop = service.store.loop(call.names[0])
    id = service.auditor.start(loop, call.body.trials, call.token.name)
    return 202, next(table for table in audit_tables(loop) if table["id"] == id)


@route("GET", f"{LOOP}/audits", "public", "all audits")
def list_audits(view: PublicView, call: Request) -> Answer:
    return 200, {"audits": view.audits[call.names[0]]}


@route("GET", f"{LOOP}/audits/{{audit}}", "public", "one audit")
def get_audit(view: PublicView, call: Request) -> Answer:
    return 200, _one(view.audits[call.names[0]], call.names[1], "audit")


@route("GET", STREAMS, "public", "private streams in the folder of --streams")
def list_streams(view: PublicView, call: Request) -> Answer:
    last = [{**table, "lines": table["lines"][-1:]} for table in _streams(view).values()]
    return 200, {"streams": last}


@route("GET", f"{STREAMS}/{{stream}}", "public", "one private stream, its newest 200 lines")
def get_stream(view: PublicView, call: Request) -> Answer:
    found = _streams(view).get(call.names[0])
    if found is None:
        raise Unknown("there is no such stream", path="stream", fix=f"see GET {STREAMS}")
    return 200, found


def _streams(view: PublicView) -> dict[str, dict[str, Any]]:
    if view.streams is None:
        raise Refused(404, "not-found", "this service shows no streams", fix="serve with --streams FOLDER")
    return view.streams


# Audit ---------------------------------------------------------------------------------------------------------------


@route("GET", "/v1/ledgers", "audit", "ledgers in pages")
def list_ledgers(service: Service, call: Request) -> Answer:
    after, only = call.after_name, call.token.loop
    names = [name for name in service.store.driver.ledgers() if name > after and only in (None, name)]
    return 200, {"ledgers": [_ledger(service, name) for name in names[: listing.PAGE]]}


@route("GET", LEDGER, "audit", "one ledger")
def get_ledger(service: Service, call: Request) -> Answer:
    name = _known(service, call.names[0])
    return 200, {**_ledger(service, name), "accounts": accounts(service.ledger(name))}


@route("GET", f"{LEDGER}/entries", "audit", "entries with hashes, without values")
def get_entries(service: Service, call: Request) -> Answer:
    ledger = service.ledger(_known(service, call.names[0]))
    found = []
    for entry in ledger.entries(after=call.after):
        found.append(entry)
        if len(found) == PAGE:
            break
    return 200, {"entries": found}


@route("GET", f"{LEDGER}/verify", "audit", "check chain and anchor", deadline=SLOW)
def verify_ledger(service: Service, call: Request) -> Answer:
    name = _known(service, call.names[0])
    path, inside = service.store.driver.ledger(name)
    try:
        report = verify(path, service.store.anchor_of(name), ledger=inside)
    except LedgerTampered as problem:
        return 200, {"verdict": "tampered", "entries": None, "head": None, "anchor": None, "words": problem.problem}
    words = "; ".join(("every link, charge and total fits", *report.notes))
    facts = {"entries": report.entries, "head": report.head, "anchor": report.anchor}
    return 200, {"verdict": "intact", **facts, "words": words}


@route("GET", "/v1/trail", "audit", "what operators did")
def get_trail(service: Service, call: Request) -> Answer:
    with service.store.reading() as tx:
        found = trail.entries(tx, max(call.after, 0), PAGE, call.token.loop)
    return 200, {"entries": found}


# Operation -----------------------------------------------------------------------------------------------------------


@route("GET", "/metrics", "operate", "counters for Prometheus")
def metrics(service: Service, call: Request) -> Answer:
    return 200, service.metrics.page(service)


@route("GET", "/openapi.json", "none", "this contract as OpenAPI")
def openapi(service: Service, call: Request) -> Answer:
    return 200, service.document


def _one(rows: list[dict[str, Any]], id: str, what: str) -> dict[str, Any]:
    for row in rows:
        if row["id"] == id:
            return row
    raise Unknown(f"there is no such {what}", path=what, fix=f"see the list of {what}s")


def _given(body: Any) -> dict[str, Any]:
    """What was written, without the keys that were left out."""
    return dict(body.model_dump(exclude_none=True))


def _known(service: Service, name: str) -> str:
    if name not in service.store.driver.ledgers():
        raise Unknown("there is no ledger of this name", path="ledger", fix="see GET /v1/ledgers")
    return name


def _ledger(service: Service, name: str) -> dict[str, Any]:
    table = ledger_table(name, service.ledger(name), None)
    return {"name": name, **{key: value for key, value in table.items() if key not in ("ledger", "unit")}}


def encode_answer(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
