"""Templates, the files beside them, and the policy that keeps everything else out."""

from __future__ import annotations

import gzip
import hashlib
from importlib import resources
from typing import Any
from urllib.parse import quote

import jinja2

from fairveil._version import __version__
from fairveil.service.pages import words
from fairveil.service.pages.visit import Page, Visitor

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
            "url": lambda text: quote(text, safe=""), "labelled": words.labelled,
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
