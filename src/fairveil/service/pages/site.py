"""From a request to a page: who looks, whether they may, what the handler says, and how it is written.

Templates, the files beside them, and the policy that keeps everything else out: content never carries script or style
of its own, the policy of every page forbids both.
"""

from __future__ import annotations

import gzip
import hashlib
import hmac
import logging
from functools import partial
from importlib import resources
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import jinja2

from fairveil._version import __version__
from fairveil.errors import FairveilError
from fairveil.loop.tokens import Token
from fairveil.service.messages import Answer, Receive, Refused, Scope, Send, answer, header, of_error, read_body
from fairveil.service.pages import sessions, words
from fairveil.service.pages.visit import PEOPLE, Asking, File, Onward, Page, Visit, Visitor
from fairveil.service.routes import Route, Router, loop_of

if TYPE_CHECKING:
    from fairveil.service.app import Service

PLOT_STYLE = "sha256-jSYQUrW7J0b3jPqhZP9C2Xh1PyJKHKXd4s0fpGGKrww="
"""Of the one style element that Observable Plot writes; plot/make.py prints it."""
POLICY = (
    f"default-src 'self'; style-src 'self' '{PLOT_STYLE}'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)
KINDS = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
FILES = resources.files(__package__).joinpath("static")


class Static:
    """A file beside the pages: its bytes, packed, and a mark that changes with them."""

    def __init__(self, name: str) -> None:
        self.plain = FILES.joinpath(name).read_bytes()
        self.packed = gzip.compress(self.plain, 9, mtime=0)
        self.kind = KINDS[name.rpartition(".")[2]]
        self.mark = hashlib.sha256(self.plain).hexdigest()[:12]


STATICS = {file.name: Static(file.name) for file in FILES.iterdir() if file.name.rpartition(".")[2] in KINDS}


class Drawing:
    """Pages as bytes. Everything that a template is given is escaped."""

    def __init__(self, streams: bool = False) -> None:
        made = jinja2.Environment(
            loader=jinja2.PackageLoader(__package__, "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        made.filters |= {
            "amount": words.amount, "count": words.count, "moment": words.moment, "day": words.day, "span": words.span,
            "url": words.url, "labelled": words.labelled,
        }  # fmt: skip
        made.globals |= {
            "asset": lambda name: f"/static/{name}?v={STATICS[name].mark}",
            "program": __version__,
            "has_streams": streams,
        }
        self._environment = made

    def page(self, page: Page, visitor: Visitor, csrf: str, path: str) -> bytes:
        template = self._environment.get_template(page.template)
        context: dict[str, Any] = {"visitor": visitor, "csrf": csrf, "path": path, "problem": None, **page.context}
        return template.render(context).encode()


log = logging.getLogger("fairveil.service")
STRANGER = Visitor(Token("none", "nobody", frozenset(), None), b"", how="stranger")
FORM = "application/x-www-form-urlencoded"
MOST_FIELDS = 500
GROUPS = b"x-forwarded-groups"
"""Where a proxy lists the groups of who is logged in, as oauth2-proxy does."""
KEPT = "kept."
"""Before the names of fields that a login carries on for a form whose session had ended."""
SAFE = {
    b"content-security-policy": POLICY.encode(),
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"same-origin",
    b"cache-control": b"no-store",
}


class Site:
    """All pages of one service."""

    def __init__(self, service: Service, router: Router) -> None:
        self.service, self.router = service, router
        self.drawing = Drawing(streams=service.settings.streams is not None)

    async def answer(
        self, route: Route, names: list[str], scope: Scope, receive: Receive, send: Send
    ) -> tuple[int, Token]:
        """Answer a request for a page; gives the status and who asked."""
        form: dict[str, str] = {}
        visitor = STRANGER
        try:
            if route.method == "POST":
                form = fields(await read_body(scope, receive, FORM))
            visitor = await self.service.aside(lambda: self.who(scope))
            work = partial(self._written, route, names, scope, form, visitor)
            written = await self.service.aside(work, route.deadline or None)
        except Exception as error:  # of whatever kind: one page fails, with an answer, and nothing else
            problem = of_error(error)
            if not isinstance(error, Refused | FairveilError):
                log.error("request %s: %s", problem["request"], type(error).__name__)
            written = self._write(self._refused(problem, scope, form, visitor), visitor, scope)
        await answer(send, *written)
        return written[0], visitor.token

    async def refuse(self, error: Exception, scope: Scope, send: Send) -> int:
        """A page for somebody who looked where there is none."""
        visitor = await self.service.aside(lambda: self.who(scope))
        written = self._write(self._refused(of_error(error), scope, {}, visitor), visitor, scope)
        await answer(send, *written)
        return written[0]

    # Who -------------------------------------------------------------------------------------------------------------

    def who(self, scope: Scope) -> Visitor:
        """By a session, by a proxy that is trusted, by a token, or because the service is open; else a stranger."""
        service, settings = self.service, self.service.settings
        hash = sessions.cookie_of(scope, settings)
        if hash is not None:
            with service.store.reading() as tx:
                token = sessions.find(tx, hash, service.store.clock.now())
            if token is not None:
                return Visitor(token, hash, hash)
        user = None if settings.trust_user is None else header(scope, settings.trust_user.lower().encode())
        if user:
            groups = (header(scope, GROUPS) or b"").decode("latin-1").split(",")
            roles = settings.roles_of([group.strip() for group in groups])
            name = user.decode("latin-1")[:100]
            return Visitor(Token("proxy", name, roles, None), b"user " + user, how="proxy")
        found = service.gate.token(scope)
        if found is not None:
            return Visitor(found, f"token {found.id}".encode(), how="open" if found.id == "open" else "token")
        if settings.public:
            return Visitor(Token("public", "anybody", frozenset(), None), b"public", how="public")
        return STRANGER

    def admit(self, route: Route, names: list[str], visitor: Visitor) -> None:
        if route.role == "none":
            return
        if visitor is STRANGER or (visitor.how == "public" and route.role != "public"):
            raise Refused(
                401, "unauthenticated", "this page is for people who are logged in", fix="log in with a token"
            )
        self.service.gate.count(visitor.token)
        if visitor.how != "public" and not visitor.token.roles & PEOPLE:
            words = "this token is for a program that asks for decisions; pages are for people who operate or audit"
            fix = "log in with a token that has the role operate or audit"
            if visitor.how == "proxy":
                words, fix = "none of your groups has a role here", "ask whoever runs the service for a group (--map)"
            raise Refused(403, "forbidden", words, fix=fix)
        loop = loop_of(route, names)
        if route.role != "public" or loop is not None:
            self.service.gate.permit(visitor.token, route.role, loop)

    # What ------------------------------------------------------------------------------------------------------------

    def _written(self, route: Route, names: list[str], scope: Scope, form: dict[str, str], visitor: Visitor) -> Answer:
        self.admit(route, names, visitor)
        if route.method == "POST" and route.role != "none":
            given, wanted = form.pop("form", ""), self.service.store.keys.form(visitor.binding)
            if not hmac.compare_digest(given.encode(), wanted.encode()):
                words = "this form was not made for you by this service"
                raise Refused(403, "forbidden", words, fix="open the page again and repeat")
        query = dict(parse_qsl(scope.get("query_string", b"").decode("latin-1"), max_num_fields=MOST_FIELDS))
        return self._write(self.call(route, names, query, form, visitor), visitor, scope)

    def call(
        self, route: Route, names: list[str], query: dict[str, str], form: dict[str, str], visitor: Visitor
    ) -> Page | Onward | File:
        """The handler of a page, with what its channel may have."""
        ask = Asking(self.service, self.router, route.channel, visitor.token)
        behind = None if route.channel == "public" else self.service
        visit = Visit(ask, tuple(names), query, form, visitor, behind)
        made: Page | Onward | File = route.handler(visit)
        return made

    def _refused(self, problem: dict[str, Any], scope: Scope, form: dict[str, str], visitor: Visitor) -> Page:
        if problem["status"] == 401 and scope["method"] in ("GET", "POST"):
            kept = {KEPT + name: value for name, value in form.items() if name not in ("form", "token")}
            context = {"next": scope["path"], "kept": kept, "problem": problem if kept else None}
            return Page("login.html", context, 401, ((b"www-authenticate", b"Bearer"),))
        return Page("problem.html", {"problem": problem}, int(problem["status"]))

    # How -------------------------------------------------------------------------------------------------------------

    def _write(self, made: Page | Onward | File, visitor: Visitor, scope: Scope) -> Answer:
        headers = {**SAFE, **dict(made.headers)}
        status, body = 200, b""
        if isinstance(made, Onward):
            status, headers[b"location"] = 303, made.path.encode("ascii")
        elif isinstance(made, File):
            body, headers[b"content-type"] = made.content, made.kind.encode()
            if made.packed is not None and b"gzip" in (header(scope, b"accept-encoding") or b""):
                body, headers[b"content-encoding"] = made.packed, b"gzip"
            if made.name is not None:
                headers[b"content-disposition"] = f'attachment; filename="{made.name}"'.encode("ascii")
        else:
            status, headers[b"content-type"] = made.status, b"text/html; charset=utf-8"
            reader = made.visitor or visitor
            csrf = self.service.store.keys.form(reader.binding)
            body = self.drawing.page(made, reader, csrf, made.path or scope["path"])
        return status, body, tuple(headers.items())


def fields(body: bytes) -> dict[str, str]:
    """The fields of a form; a name that stands several times has its values on lines."""
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError:
        raise Refused(400, "malformed", "the form cannot be read", allowed=f"at most {MOST_FIELDS} fields") from None
    found: dict[str, str] = {}
    for name, value in pairs:
        found[name] = f"{found[name]}\n{value}" if name in found else value
    return {name: value.replace("\r\n", "\n") for name, value in found.items()}


def wants_page(scope: Scope) -> bool:
    """Whether a browser asks for a page, not a program for data."""
    return scope["method"] == "GET" and b"text/html" in (header(scope, b"accept") or b"")
