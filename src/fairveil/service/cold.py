"""The routes that operators, auditors and the public take. Each runs in a thread and answers with plain data."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from fairveil.errors import LedgerTampered
from fairveil.loop import trail
from fairveil.loop.problems import Invalid, NotYet, Unknown
from fairveil.loop.public import PublicView, accounts, ledger_table, loop_table
from fairveil.loop.quotes import quote
from fairveil.loop.releases import check_kind, release
from fairveil.loop.tokens import Token
from fairveil.privacy.ledger.verify import verify

if TYPE_CHECKING:
    from fairveil.service.app import Service

PAGE = 500


@dataclass(frozen=True)
class Call:
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


Answer = tuple[int, Any]

# Public: these see a PublicView, never the store ---------------------------------------------------------------------


def list_loops(view: PublicView, call: Call) -> Answer:
    loops = [table for name, table in view.loops.items() if call.token.loop in (None, name)]
    return 200, {"loops": loops}


def get_loop(view: PublicView, call: Call) -> Answer:
    return 200, view.loops[call.names[0]]


def get_budget(view: PublicView, call: Call) -> Answer:
    return 200, view.budgets[call.names[0]]


def quote_release(view: PublicView, call: Call) -> Answer:
    check_kind(call.body.kind, call.body.settings)
    cost = {"cost": "nothing", "admitted": True, "largest_admissible": view.budgets[call.names[0]]["remaining"]}
    return 200, {**cost, "half_widths": []}


def list_releases(view: PublicView, call: Call) -> Answer:
    return 200, {"releases": view.releases[call.names[0]]}


def get_release(view: PublicView, call: Call) -> Answer:
    for one in view.releases[call.names[0]]:
        if one["id"] == call.names[1]:
            return 200, one
    raise Unknown("there is no such release", path="release", fix="see the list of releases")


# Operators -----------------------------------------------------------------------------------------------------------


def create_loop(service: Service, call: Call) -> Answer:
    table = _given(call.body)
    loop = service.store.create(actor=call.token.name, **table)
    return 201, loop_table(loop)


def quote_loop(service: Service, call: Call) -> Answer:
    return 200, quote(_given(call.body))


def put_mode(service: Service, call: Call) -> Answer:
    loop = service.store.loop(call.names[0])
    loop.set_mode(call.body.mode, call.token.name)
    return 200, loop_table(loop)


def close_loop(service: Service, call: Call) -> Answer:
    service.store.loop(call.names[0]).close(call.token.name)
    return 204, None


def make_release(service: Service, call: Call) -> Answer:
    body = call.body
    check_kind(body.kind, body.settings)
    for name in ("first", "stop", "epsilon"):
        if getattr(body, name) is not None:
            raise Invalid("a summary covers all that is published, for free", path=name, allowed="nothing")
    made, new = release(service.store.loop(call.names[0]), body.kind, body.settings, call.token.name)
    return (201 if new else 200), made


def erase_subject(service: Service, call: Call) -> Answer:
    found = service.store.loop(call.names[0]).erase_subject(call.body.subject, call.token.name)
    return 200, {"events": found}


def get_event(service: Service, call: Call) -> Answer:
    return 200, service.store.loop(call.names[0]).event(call.names[1])


def not_yet(service: Service, call: Call) -> Answer:
    raise NotYet("this part of the contract is not served yet")


# Audit ---------------------------------------------------------------------------------------------------------------


def list_ledgers(service: Service, call: Call) -> Answer:
    names = service.store.driver.ledgers()
    return 200, {"ledgers": [_ledger(service, name) for name in names if call.token.loop in (None, name)]}


def get_ledger(service: Service, call: Call) -> Answer:
    name = _known(service, call.names[0])
    return 200, {**_ledger(service, name), "accounts": accounts(service.ledger(name))}


def get_entries(service: Service, call: Call) -> Answer:
    ledger = service.ledger(_known(service, call.names[0]))
    found = []
    for entry in ledger.entries(after=call.after):
        found.append(entry)
        if len(found) == PAGE:
            break
    return 200, {"entries": found}


def verify_ledger(service: Service, call: Call) -> Answer:
    name = _known(service, call.names[0])
    path, inside = service.store.driver.ledger(name)
    anchors = service.store.anchors
    try:
        report = verify(path, None if anchors is None else anchors / f"{name}.anchor", ledger=inside)
    except LedgerTampered as problem:
        return 200, {"verdict": "tampered", "entries": None, "head": None, "anchor": None, "words": problem.problem}
    words = "; ".join(("every link, charge and total fits", *report.notes))
    facts = {"entries": report.entries, "head": report.head, "anchor": report.anchor}
    return 200, {"verdict": "intact", **facts, "words": words}


def get_trail(service: Service, call: Call) -> Answer:
    with service.store.reading() as tx:
        found = trail.entries(tx, max(call.after, 0), PAGE)
    if call.token.loop is not None:
        found = [entry for entry in found if entry["target"] == call.token.loop]
    return 200, {"entries": found}


# Operation -----------------------------------------------------------------------------------------------------------


def health(service: Service, call: Call) -> Answer:
    return 200, {"status": "alive"}


def ready(service: Service, call: Call) -> Answer:
    table = service.readiness()
    return (200 if table["ready"] else 503), table


def metrics(service: Service, call: Call) -> Answer:
    return 200, service.metrics.page(service)


def openapi(service: Service, call: Call) -> Answer:
    return 200, service.document


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
