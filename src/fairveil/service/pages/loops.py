"""The page of a loop, and what an operator does there."""

from __future__ import annotations

from typing import Any

from fairveil.errors import FairveilError
from fairveil.loop.waiting import standing_words, whole
from fairveil.service.messages import Refused, of_error
from fairveil.service.pages.entry import AGAIN
from fairveil.service.pages.verdicts import (
    JOB_WORDS,
    arm_id,
    arm_name,
    beside,
    chances,
    figure,
    first_learning,
    job_of,
    rails,
    series_of,
    shares,
    shown,
    state_of,
    verdict,
    weights_of,
)
from fairveil.service.pages.visit import Onward, Page, Visit
from fairveil.service.pages.words import guarantee, rounded, url
from fairveil.service.routes import SLOW, route

PATH = "/loops/{loop}"


@route("GET", PATH, "public", "one loop", page=True)
def show(visit: Visit) -> Page:
    return draw(visit)


def draw(visit: Visit, **more: Any) -> Page:
    """The page, with what came of a form."""
    table, budget = visit.ask("GET", visit.loop), visit.ask("GET", f"{visit.loop}/budget")
    releases = visit.ask("GET", f"{visit.loop}/releases")["releases"]
    state, why = state_of(table)
    arms = table["published"].get("arms", [])
    best: list[float] | list[None] = chances(arms) or [None] * len(arms)
    last, evaluated = (_newest(releases, kind) for kind in ("fairness", "evaluation"))
    job = job_of(table)
    context = {
        "it": table,
        "job": job,
        "job_words": JOB_WORDS[job],
        "state": state,
        "why": why,
        "verdict": verdict(table, None if job == "trial" else last),
        "learned": verdict(table),
        "told": None if last is None else shown(last["value"]),
        "evaluated": evaluated,
        "valued": None if evaluated is None else beside(evaluated["value"], last),
        "first": None if table["version"] else first_learning(table),
        "figure": figure(table),
        "arms": [
            {**row, "name": arm_name(row), "share": share, "chance": chance}
            for row, share, chance in zip(arms, shares(arms), best)
        ],
        "weights": weights_of(table),
        "rails": rails(table),
        "series": series_of(table, visit.ask("GET", f"{visit.loop}/history")["releases"])
        if table["version"] > 1
        else [],
        "audits": list(reversed(visit.ask("GET", f"{visit.loop}/audits")["audits"])),
        "open_arms": [arm_id(row) for row in arms if arm_id(row) not in table["closed_actions"]],
        "modes": ("online", "apprentice", "shadow", *(["paused"] if _fallback(table) else [])),
        "stands": _stands(table),
        "lines": [
            {**row, "name": arm_name(arms[row["action"]])}
            for row in table["waiting"] or ()
            if row["action"] is not None
        ],
        "promise": guarantee(table["total_guarantee"] or table["guarantee"]),
        "person": table["person_guarantee"],
        "person_words": guarantee(table["person_guarantee"]) if table["person_guarantee"] else None,
        "budget": {**budget, **{key: rounded(budget[key]) for key in ("limit", "spent", "remaining", "words")}},
        "releases": list(reversed(releases)),
        "may": visit.visitor.may("operate", visit.names[0]),
        "may_audit": visit.visitor.may("audit", visit.names[0]),
        "given": visit.form,
        "notice": None,
        "price": None,
        "sample": None,
        "currency": {"zcdp": "rho"}.get(budget["definition"], "epsilon"),
        "last": last,
        **more,
    }
    return Page("loop.html", context, int(more["problem"]["status"]) if more.get("problem") else 200)


def _stands(table: dict[str, Any]) -> list[tuple[str, str, int]]:
    """Where all rounds stand: an id on the page, words and a number each."""
    total = whole(table)
    ids = {"learned": "published"}
    return [(ids.get(key, key), words, getattr(total, key)) for key, words in standing_words(table, total).items()]


def _newest(releases: list[dict[str, Any]], kind: str) -> dict[str, Any] | None:
    """The newest report of a kind that says something."""
    made = (one for one in reversed(releases) if one["kind"] == kind and one["value"].get("status") != "lost")
    return next(made, None)


def _fallback(table: dict[str, Any]) -> bool:
    return bool(table["allocation"] and table["allocation"]["fallback"])


def asked(form: dict[str, str]) -> dict[str, Any]:
    """A release as its form describes it."""
    made: dict[str, Any] = {"kind": form.get("kind", "")}
    currency = form.get("currency", "")
    numbers: list[tuple[str, str, Any]] = [("first", "first", int), ("stop", "stop", int)]
    if currency in ("epsilon", "rho"):
        numbers += [("amount", currency, float), ("half_width", "half_width", float)]
    for name, key, kind in numbers:
        text = form.get(name, "").strip()
        try:
            made |= {key: kind(text)} if text else {}
        except ValueError:
            raise Refused(422, "invalid", "this is not a number", path=key, allowed="a number") from None
    if made["kind"] == "evaluation" and form.get("target", "").strip():
        made["settings"] = {"targets": [form["target"].strip()]}
    return made


def _priced(visit: Visit, form: dict[str, str]) -> Page:
    """The page with a price beside the form, and with what a report would look like."""
    price = visit.ask("POST", f"{visit.loop}/budget/quote", {**asked(form), "dry_run": True})
    given = {**form, "amount": f"{price.get(form.get('currency', ''), form.get('amount', ''))}", "half_width": ""}
    return draw(visit, given=given, price=price, sample=shown(price["dry_run"]))


@route("GET", f"{PATH}/audits/{{audit}}", "public", "one audit", page=True)
def audit(visit: Visit) -> Page:
    made = visit.ask("GET", f"{visit.loop}/audits/{url(visit.names[1])}")
    return Page("audit.html", {"audit": made, "it": visit.ask("GET", visit.loop)})


@route("POST", PATH, "operate", "what an operator does with a loop", page=True, deadline=SLOW)
def act(visit: Visit) -> Page | Onward:
    form, loop = visit.form, visit.loop
    done = f"/loops/{url(visit.names[0])}"
    what = form.get("do", "")
    try:
        if what == "mode":
            visit.ask("PUT", f"{loop}/mode", {"mode": form.get("mode", "")})
            return Onward(done)
        if what == "release":
            made = visit.ask("POST", f"{loop}/releases", asked(form))
            return Onward(f"{done}/releases/{url(made['id'])}")
        if what == "price":
            return _priced(visit, form)
        if what == "erase":
            found = visit.ask("DELETE", f"{loop}/subjects", {"subject": form.get("subject", "")})
            events = found["events"]
            words = f"Raw data of that person is erased: {events} event{'' if events == 1 else 's'}."
            return draw(visit.without_form(), notice=words)
        if what == "audit":
            made = visit.ask("POST", f"{loop}/audits", {})
            return Onward(f"{done}/audits/{url(made['id'])}")
        if what == "close-action":
            visit.ask("DELETE", f"{loop}/actions/{url(form.get('action', ''))}")
            return Onward(done)
        if what == "close":
            if form.get("sure") != visit.names[0]:
                fix = "write the name of the loop to close it"
                raise Refused(422, "invalid", "closing cannot be undone", path="sure", fix=fix)
            visit.ask("DELETE", loop)
            return Onward(done)
        if what == AGAIN:
            return draw(visit, notice="You are logged in again. Nothing was sent: press the button once more.")
        raise Refused(422, "invalid", "this form does nothing that is known", path="do")
    except (FairveilError, Refused) as error:
        return draw(visit, problem={**of_error(error), "do": what})
