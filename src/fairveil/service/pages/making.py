"""The page that makes a loop: three jobs, a quote beside the form, and refusals where the field is."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from fairveil.errors import FairveilError
from fairveil.service.messages import Refused, of_error
from fairveil.service.pages.entry import AGAIN
from fairveil.service.pages.jobs import JOBS, JobForm
from fairveil.service.pages.visit import Onward, Page, Visit
from fairveil.service.pages.words import guarantee, rounded
from fairveil.service.routes import SLOW, route

PATH = "/loops/new"


@route("GET", PATH, "operate", "make a loop", page=True)
def show(visit: Visit) -> Page:
    job = JOBS.get(visit.query.get("job", ""))
    if job is None:
        return Page("jobs.html", {"jobs": list(JOBS.values())})
    return _page(job, job.defaults(), _quoted(visit, job, {**job.defaults(), "name": "example"}))


@route("POST", PATH, "operate", "the form of a new loop: quote or create", page=True, deadline=SLOW)
def make(visit: Visit) -> Page | Onward:
    form = visit.form
    job = JOBS.get(form.get("job", ""))
    if job is None:
        raise Refused(422, "invalid", "there is no such job", path="job", allowed=", ".join(JOBS))
    try:
        if form.get("do") == AGAIN:
            words = "You are logged in again. Nothing was sent: press the button once more."
            return _page(job, form, _quoted(visit, job, form), notice=words)
        if form.get("do") != "create":
            named = {**form, "name": form.get("name", "").strip() or "example"}
            return _page(job, form, _quoted(visit, job, named, strict=True))
        made = visit.ask("POST", "/v1/loops", {"name": "", **job.body(form)})
        return Onward(f"/loops/{quote(made['name'], safe='')}")
    except (FairveilError, Refused) as error:
        problem = of_error(error)
        shown = {**problem, "field": job.field_of(problem["path"])}
        return _page(
            job, form, None, problem=shown, status=int(problem["status"]) if form.get("do") == "create" else 200
        )


def _quoted(visit: Visit, job: JobForm, form: dict[str, str], strict: bool = False) -> dict[str, Any] | None:
    try:
        found = visit.ask("POST", "/v1/quote", {"name": "example", **job.body(form)})
    except (FairveilError, Refused):
        if strict:
            raise
        return None
    parts = {name: rounded(words) for name, words in (found["parts"] or {}).items() if words.split()[-1] != "0"}
    return {
        **found,
        "cost": rounded(found["cost"]),
        "parts": parts,
        "promise": guarantee(found["total_guarantee"] or found["guarantee"]),
        "person": guarantee(found["person_guarantee"]) if found["person_guarantee"] else None,
    }


def _page(job: JobForm, given: dict[str, str], quoted: dict[str, Any] | None, status: int = 200, **more: Any) -> Page:
    warnings = job.placed(quoted["warnings"] if quoted else [])
    context = {"job": job, "given": given, "quote": quoted, "warnings": warnings, "notice": None, **more}
    return Page("new.html", context, status)
