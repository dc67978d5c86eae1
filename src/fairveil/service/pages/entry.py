"""The door: login, logout, and the files beside the pages."""

from __future__ import annotations

import re

from fairveil.loop import tokens
from fairveil.loop.problems import Unknown
from fairveil.service.pages import sessions
from fairveil.service.pages.site import KEPT, STATICS
from fairveil.service.pages.visit import File, Onward, Page, Visit, Visitor
from fairveil.service.routes import route

AGAIN = "again"
"""What a form does when its content comes back from a login: it is shown, nothing is sent."""


@route("GET", "/login", "none", "log in", page=True)
def show(visit: Visit) -> Page:
    return Page("login.html", {"next": _local(visit.query.get("next", "/")), "kept": {}})


@route("POST", "/login", "none", "exchange a token for a session", page=True)
def log_in(visit: Visit) -> Page | Onward | File:
    service, form = visit.service, visit.form
    kept = {name: value for name, value in form.items() if name.startswith(KEPT)}
    onward = _local(form.get("next", "/"))
    now = service.store.clock.now()
    with service.store.writing() as tx:
        token = tokens.find(tokens.table(tx), form.get("token", "").strip())
        text = sessions.begin(tx, token, now) if token is not None and sessions.alive(token, now) else None
    if token is None or text is None:
        wrong = {
            "title": "No valid token",
            "detail": "this token is unknown, has expired or was revoked",
            "path": "token",
        }
        fix = "ask whoever runs the service, or make one with fairveil token add"
        return Page("login.html", {"next": onward, "kept": kept, "problem": {**wrong, "fix": fix}}, 401)
    cookie = (sessions.set_cookie(service.settings, text),)
    if not kept:
        return Onward(onward, cookie)
    hash = sessions.digest(text)
    found, names = service.site.router.find("POST", onward.encode())
    content = {name.removeprefix(KEPT): value for name, value in kept.items()} | {"do": AGAIN}
    visitor = Visitor(token, hash, hash)
    service.site.admit(found, names, visitor)
    made = service.site.call(found, names, {}, content, visitor)
    return (
        made if not isinstance(made, Page) else Page(made.template, made.context, made.status, cookie, visitor, onward)
    )


@route("POST", "/logout", "none", "end a session", page=True)
def log_out(visit: Visit) -> Onward:
    if visit.visitor.session is not None:
        with visit.service.store.writing() as tx:
            sessions.end(tx, visit.visitor.session)
    return Onward("/login", (sessions.set_cookie(visit.service.settings, None),))


@route("GET", "/static/{name}", "none", "style, script and icon", page=True)
def static(visit: Visit) -> File:
    found = STATICS.get(visit.names[0])
    if found is None:
        raise Unknown("there is no such file", path="name")
    lasting = b"public, max-age=31536000, immutable" if visit.query.get("v") == found.mark else b"no-cache"
    headers = ((b"cache-control", lasting), (b"vary", b"accept-encoding"))
    return File(found.plain, found.kind, headers=headers, packed=found.packed)


def _local(path: str) -> str:
    """A path of this service; anything else is the first page."""
    return path if re.fullmatch(r"/(?:[A-Za-z0-9._~!$&'()*+,;=:@%-][A-Za-z0-9._~!$&'()*+,;=:@%/?-]*)?", path) else "/"
