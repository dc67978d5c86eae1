"""The page that makes a loop: three jobs as forms, a quote beside the form, and refusals where the field is.

Each field knows its place in the description of a loop, so refusals find their way back. A form makes exactly the body
that `POST /v1/loops` takes; whatever checks there are, are there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fairveil.errors import FairveilError
from fairveil.service.messages import Refused, of_error
from fairveil.service.pages.entry import AGAIN
from fairveil.service.pages.visit import Onward, Page, Visit
from fairveil.service.pages.words import guarantee, rounded, url
from fairveil.service.routes import SLOW, route


@dataclass(frozen=True)
class Field:
    """One field: ``path`` is where it stands in the body, ``warns`` a word by which a quote's warning belongs to it."""

    name: str
    path: str
    label: str
    hint: str = ""
    kind: str = "text"
    default: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    warns: str = ""

    def read(self, given: dict[str, str]) -> Any:
        """What was written, as it stands in the body; None for nothing."""
        text = given.get(self.name, "").strip()
        if self.kind == "check":
            return True if text else None
        if not text:
            return None
        try:
            return _READ[self.kind](text)
        except ValueError:
            words = {"number": "a number", "whole": "a whole number", "features": "a line each: name low high"}
            raise Refused(
                422, "invalid", f"{self.label}: this cannot be read", path=self.path, allowed=words[self.kind]
            ) from None


def _features(text: str) -> list[dict[str, Any]]:
    """Lines of name, low and high; names may hold spaces."""
    found = []
    for line in filter(None, map(str.strip, text.splitlines())):
        name, low, high = line.rsplit(maxsplit=2)
        found.append({"name": name, "low": float(low), "high": float(high)})
    return found


_READ: dict[str, Any] = {
    "text": str,
    "choice": str,
    "number": float,
    "whole": int,
    "lines": lambda text: [line.strip() for line in text.splitlines() if line.strip()],
    "features": _features,
}
NAME = Field("name", "name", "Name", "small letters, digits, dots and dashes; never used twice")
EPSILON = Field(
    "epsilon", "policy.epsilon", "Privacy (epsilon)", "smaller protects more and needs more people", "number", "1"
)
DELTA = Field("delta", "policy.delta", "Delta", "below one over the number of people", "number", "1e-6", warns="delta")
WAIT = Field("wait", "reward.wait", "Outcome is waited for", "90s, 10m, 2h or 7d after each decision", "text", "7d")
GROUPS = Field("groups", "groups", "Groups", "one a line; public names", "lines", "a\nb")
FEATURES = Field(
    "features", "features", "Features", "one a line: name, lowest, highest", "features", "score 0 1\nyears 0 40"
)
MISSING = Field(
    "missing", "reward.missing", "An outcome that never comes", "", "choice", "default",
    (("default", "counts as the lowest; whether it came is protected"),
     ("public", "is left out; whether it came is public")),
    warns="whether and when",
)  # fmt: skip
PEOPLE = Field(
    "max_events", "person.max_events", "Learned from one person at most",
    "events; without a limit the promise is for one event", "whole", "1", warns="events per person",
)  # fmt: skip
LOW = Field("low", "reward.low", "Lowest outcome", "", "number", "0")
HIGH = Field("high", "reward.high", "Highest outcome", "", "number", "1")
EXPLORE = Field(
    "explore", "explore", "Share of decisions by lot", "0 to 1; needed to try other rules on the past", "number"
)
MODE = Field(
    "mode", "mode", "Starts as", "", "choice", "online",
    (("online", "online: decides and learns"), ("shadow", "shadow: watches what you decide"),
     ("apprentice", "apprentice: learns from what you decide"), ("frozen", "frozen: decides, does not learn"),
     ("paused", "paused: decides by its fallback")),
)  # fmt: skip
START = Field(
    "start_from", "start_from", "Starts from", "the name of a loop of the same kind; what it published is free"
)
BURN_IN = Field("burn_in", "allocation.burn_in", "Decisions with equal shares at first", "", "whole")
FALLBACK = Field(
    "fallback", "allocation.fallback", "Who decides in a pause", "an option's name, uniform or baseline; else no pause"
)
SPARE = Field(
    "spare", "reports.spare", "Kept for reports by hand", "in the ledger's currency; without it no report", "number"
)
EVENTS = Field("keep", "retention.events", "Events are kept", "like 400d", "text", warns="raw rows")
LEDGER = Field("ledger", "budget.ledger", "Shared ledger", "its name; empty for one of its own")
LIMIT = Field("limit", "budget.epsilon", "Limit of a new shared ledger", "epsilon", "number")
SIMULATED = Field("simulated", "simulated", "Simulated", "seeded noise: protects nobody, marks every page", "check")
LAST = (EXPLORE, BURN_IN, FALLBACK, SPARE, MODE, START, EVENTS, LEDGER, LIMIT, SIMULATED)


@dataclass(frozen=True)
class JobForm:
    """A job: five fields, more behind a disclosure, and what the form does not ask."""

    name: str
    title: str
    words: str
    policy: str
    first: tuple[Field, ...]
    more: tuple[Field, ...]
    fixed: dict[str, Any] = field(default_factory=dict)

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.first + self.more

    def defaults(self) -> dict[str, str]:
        return {one.name: one.default for one in self.fields}

    def body(self, given: dict[str, str]) -> dict[str, Any]:
        """The description of a loop that a form asks for."""
        made: dict[str, Any] = {"policy": {"name": self.policy}}
        for one in self.fields:
            value = one.read(given)
            if value is not None:
                _put(made, one.path, value)
        if "actions" in made:
            made["policy"]["arms"] = len(made["actions"])
        return made

    def field_of(self, path: str) -> str:
        """The field that a refused path stands for, empty when there is none."""
        found = max(
            (one for one in self.fields if path == one.path or path.startswith(f"{one.path}.")),
            key=lambda one: len(one.path),
            default=None,
        )
        return "" if found is None else found.name

    def placed(self, warnings: list[str]) -> dict[str, list[str]]:
        """Warnings by the field that they are about, the rest under an empty name."""
        found: dict[str, list[str]] = {}
        for words in warnings:
            where = next((one.name for one in self.fields if one.warns and words.startswith(one.warns)), "")
            found.setdefault(where, []).append(words)
        return found


def _put(table: dict[str, Any], path: str, value: Any) -> None:
    *above, last = path.split(".")
    for name in above:
        table = table.setdefault(name, {})
    table[last] = value


ARMS = Field("actions", "actions", "Options", "one a line", "lines", "inhaler A\ninhaler B")
STICKY = Field("sticky", "person.sticky", "Who comes back keeps the option", "", "check")
FLOOR = Field("floor", "allocation.floor", "Least share of every option", "0 to 1 over their number", "number")
HOLDOUT = Field("holdout", "allocation.holdout", "Holdout", "an option that keeps a share whatever is learned")
HELD = Field("holdout_share", "allocation.holdout_share", "Share of the holdout", "0 to 1", "number")
FIRST = Field("first_batch", "policy.first_batch", "Decisions before the first learning", "", "whole", "200")
CANDIDATES = Field("max_candidates", "max_candidates", "Candidates in one request at most", "", "whole", "20")
HORIZON = Field(
    "horizon", "policy.horizon", "Decisions to learn from", "learning ends after so many", "whole", "20000",
    warns="learning ends",
)  # fmt: skip
GROUPS_TOO = Field("groups", "groups", "Groups", "one a line; for fairness reports", "lines", "a\nb")
OPTIONAL_GROUPS = Field("groups", "groups", "Groups", "one a line; for fairness reports", "lines")
SPREAD = Field(
    "reward_std", "policy.reward_std", "How much an outcome varies",
    "standard deviation; half the range is enough for any outcome, 0.5 for clicks", "number", "0.5",
    warns="outcomes are",
)  # fmt: skip
JOBS = {
    "trial": JobForm(
        "trial",
        "A trial",
        "A few options, people one by one, outcomes later. The better option is used more often, and nobody pays too "
        "much for what is learned.",
        "private-nash",
        (NAME, ARMS, EPSILON, WAIT, PEOPLE),
        (OPTIONAL_GROUPS, MISSING, STICKY, LOW, HIGH, FLOOR, HOLDOUT, HELD, *LAST),
    ),
    "screening": JobForm(
        "screening",
        "A screening queue",
        "Several candidates of groups, one is chosen; each is judged by their rank within their own group.",
        "batched-private-fair-greedy",
        (NAME, GROUPS, FEATURES, EPSILON, WAIT),
        (DELTA, FIRST, CANDIDATES, PEOPLE, MISSING, LOW, HIGH, *LAST),
    ),
    "recommender": JobForm(
        "recommender",
        "A recommender",
        "Several items, one is shown; each is shown in proportion to its merit, not all or nothing.",
        "batched-priv-fairx",
        (NAME, FEATURES, EPSILON, HORIZON, WAIT),
        (DELTA, GROUPS_TOO, CANDIDATES, PEOPLE, MISSING, LOW, HIGH, SPREAD, *LAST),
    ),
}


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
        return Onward(f"/loops/{url(made['name'])}")
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
