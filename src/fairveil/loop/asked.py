"""What is asked of a loop's reports: checked requests, refusals with numbers, what is paid in advance, quotes.

Everything here reads configuration, public counts and the ledger; of a row what is public: the groups of whom it shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fairveil.errors import FairveilError, SpecError
from fairveil.loop.clock import in_words
from fairveil.loop.guards import UNIFORM
from fairveil.loop.places import Counters, counters, pages
from fairveil.loop.play import ArmsPlay
from fairveil.loop.problems import Invalid, NoSupport, NotDue, NotKept, SaysNothing
from fairveil.loop.reporting import Kind, TargetRule
from fairveil.privacy.charges import UNITS, Currency
from fairveil.privacy.events import Event, ParallelEvent
from fairveil.privacy.vectors import Price
from fairveil.reports.evaluation import Evaluation
from fairveil.reports.fairness import FairnessReport, Family, PublicCounts
from fairveil.reports.quotes import budget_for, dry_run, half_widths, widest

if TYPE_CHECKING:
    from fairveil.loop.facts import Facts
    from fairveil.loop.loop import Loop

USEFUL = 0.05
"""Half-width for which a share of exploration is advised."""
SAYS = 0.5
"""A rate whose half-width is more than that is not known."""


@dataclass(frozen=True)
class Wanted:
    """One report: kind, range, budget, and which targets are valued."""

    kind: Kind
    first: int
    stop: int
    price: Price
    targets: tuple[str, ...] = ()
    level: float = 0.95
    scheduled: bool = False
    request: str | None = None

    @property
    def id(self) -> str:
        return f"report-{self.kind}-{self.first}-{self.stop}"

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that makes it this report; the same settings again are the same request."""
        table: dict[str, Any] = {"level": self.level, **self.price.to_dict()}
        return table | ({"targets": list(self.targets)} if self.kind == "evaluation" else {})

    def row(self, facts: Facts) -> tuple[int, Kind, int, int]:
        """What its row in ``reports`` begins with."""
        return facts.id, self.kind, self.first, self.stop

    def mechanism(self, facts: Facts) -> FairnessReport | Evaluation:
        return mechanism(facts, self.kind, self.price, self.level, self.targets)


def mechanism(
    facts: Facts, kind: str, price: Price, level: float, targets: tuple[str, ...] = ()
) -> FairnessReport | Evaluation:
    """The mechanism of a report of this loop, from its public configuration alone."""
    spec = facts.spec
    low, high, blanks = spec.reward.low, spec.reward.high, facts.looks_at_persons
    if kind == "fairness":
        arms = isinstance(facts.play, ArmsPlay)
        about: dict[str, Any] = {"missing": facts.missing, "group_privacy": group_privacy(facts), **price.to_dict()}
        about |= {} if arms else {"most_shown": spec.max_candidates}
        return FairnessReport(
            spec.crossings or tuple(spec.groups or ["all"]), level=level, family=family_of(facts),
            actions=tuple(facts.arm_names) if arms else (), low=low, high=high, blanks=blanks, **about,
        )  # fmt: skip
    rules = [rule for rule in facts.rules if rule.name in targets]
    weights = tuple(rule.largest_weight(facts.guards.least, facts.most_actions) for rule in rules)
    return Evaluation(
        tuple(rule.name for rule in rules), weights, level=level, low=low, high=high, blanks=blanks,
        partial=tuple(rule.name for rule in rules if rule.kind == "baseline"), **price.to_dict()
    )  # fmt: skip


def family_of(facts: Facts) -> Family:
    """Which vector a fairness report of this loop releases."""
    if isinstance(facts.play, ArmsPlay):
        return "nash"
    return "exposure" if facts.by_merit is not None else "meritocratic"


def group_privacy(facts: Facts) -> Any:
    declared = None if facts.spec.reports is None else facts.spec.reports.groups
    return declared or ("private" if isinstance(facts.play, ArmsPlay) else "public")


# What is asked for ----------------------------------------------------------------------------------------------------


def wanted(loop: Loop, kind: str, first: int | None, stop: int | None, price: dict[str, Any],
           settings: dict[str, Any] | None) -> Wanted:  # fmt: skip
    """A checked request; what is left out is the range behind the last report, and all targets."""
    facts = loop.facts
    if facts.spec.reports is None:
        raise NotKept(
            "this loop keeps nothing for reports", path="reports",
            fix="declare reports in a new loop, with start_from this one: a configuration never changes",
        )  # fmt: skip
    given = dict(settings or {})
    level, names = given.pop("level", facts.spec.reports.level), given.pop("targets", None)
    if given:
        raise Invalid("this setting is not known", path=f"settings.{min(given)}", allowed="level, targets")
    if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level < 1:
        raise Invalid("a level is a share", path="settings.level", allowed="between 0 and 1")
    now, behind = _behind_all(loop, kind)
    start = behind if first is None else first
    end = now.settled if stop is None else stop
    chosen = _targets(facts, names) if kind == "evaluation" else ()
    try:
        cost = Price(**price)
    except FairveilError as problem:
        raise Invalid(problem.problem, path="epsilon", allowed="epsilon, rho, or mu of the whole release") from None
    return Wanted("fairness" if kind == "fairness" else "evaluation", start, end, cost, chosen, float(level))


def _behind_all(loop: Loop, kind: str) -> tuple[Counters, int]:
    """The places of a loop, and the first one behind all reports of a kind that is still kept."""
    with loop.store.reading() as tx:
        now = counters(tx, loop.facts.id)
        done = tx.execute("SELECT max(stop) FROM reports WHERE loop = ? AND kind = ?", (loop.facts.id, kind))[0][0]
    return now, max(now.first, now.erased, done or 0)


def _targets(facts: Facts, names: Any) -> tuple[str, ...]:
    known = [rule.name for rule in facts.rules]
    if not known:
        raise NoSupport("this loop declares no targets", path="targets", fix="declare targets in a new loop")
    held = known if names is None else names
    if not isinstance(held, list) or not held or not set(map(str, held)) <= set(known):
        raise Invalid("there is no such target", path="settings.targets", allowed=", ".join(known))
    return tuple(name for name in known if name in held)


def check_range(loop: Loop, asked: Wanted) -> None:
    """Settled, still kept, and supported by the design: refused with numbers, and nothing is charged."""
    facts = loop.facts
    with loop.store.reading() as tx:
        now = counters(tx, facts.id)
    if not 0 <= asked.first < asked.stop:
        raise Invalid(
            "a range of places has a beginning and an end", path="stop", given=[asked.first, asked.stop],
            allowed=f"first below stop, up to {now.settled} settled places",
        )  # fmt: skip
    if asked.stop > now.settled:
        raise NotDue(
            "places of this range are not settled yet", path="stop", given=asked.stop,
            allowed=f"at most {now.settled} of {now.place} places", fix="wait until their windows have closed",
        )  # fmt: skip
    least = max(now.first, now.erased)
    if asked.first < least:
        raise NotKept(
            "the content of places of this range is gone", path="first", given=asked.first,
            allowed=f"at least {least}", fix="reports.keep says how long it is kept",
        )  # fmt: skip
    if asked.kind == "evaluation":
        _check_support(loop, asked)


def _check_support(loop: Loop, asked: Wanted) -> None:
    facts, count = loop.facts, asked.stop - asked.first
    check_arrivals(facts)
    check_explored(facts, count, asked.price)
    modes = ("online", "frozen", *(["paused"] if facts.guards.fallback == UNIFORM else []))
    query = (
        "SELECT count(*) FROM places WHERE loop = ? AND place >= ? AND place < ? "
        f"AND mode NOT IN ({', '.join('?' for _ in modes)})"
    )
    others = loop.store.read(query, (facts.id, asked.first, asked.stop, *modes))[0][0]
    if others:
        raise NoSupport(
            "in this range the caller decided, or a fallback that leaves other arms no chance", path="first",
            given=f"{others} places", allowed=f"places of modes {', '.join(modes)}", fix="choose a range without them",
        )  # fmt: skip
    check_says_something(asked.mechanism(facts), count)


def check_arrivals(facts: Facts) -> None:
    """A reward that never came has no value here, and how many came may be published only where that is public."""
    if facts.missing == "private":
        raise NoSupport(
            "this loop hides whether a reward came, so nobody can say of how many an evaluation speaks",
            path="reward.missing", given="private", allowed="default, public",
            fix='declare missing = "default" with the value that stands in, or "public", in a new loop',
        )  # fmt: skip


def check_says_something(made: FairnessReport | Evaluation, count: int) -> None:
    """An evaluation whose interval is narrower than the range of the rewards."""
    if isinstance(made, Evaluation) and (nothing := made.says_nothing(count)):
        wide = 2 * max(made.half_widths(count))
        raise SaysNothing(
            "the interval would be wider than the range of the rewards", path="epsilon", given=f"width {wide:.3g}",
            allowed=f"below {made.high - made.low:g}", fix=f"more places or a larger budget, or leave out {nothing[0]}",
        )  # fmt: skip


def check_explored(facts: Facts, count: int, price: Price) -> None:
    if facts.guards.least > 0:
        return
    share = advised_share(facts, count, price)
    raise NoSupport(
        "without exploration the log cannot value another rule", path="explore", given=0,
        allowed=f"explore of about {share:.2g} gives a half-width of {USEFUL:g} at {count} places"
        if share is not None else f"more than {count} places: no share gives a half-width of {USEFUL:g}",
        fix="declare explore in a new loop, with start_from this one",
    )  # fmt: skip


def advised_share(facts: Facts, count: int, price: Price) -> float | None:
    """The smallest share of exploration at which a general rule has a half-width of .05 (of the range)."""
    for share in np.linspace(0.01, 1.0, 100):
        weight = TargetRule("any", "arm").largest_weight(float(share), facts.most_actions)
        budget: dict[str, Any] = price.to_dict()
        if Evaluation(("any",), (weight,), **budget).half_widths(count)[0] <= USEFUL:
            return float(share)
    return None


# Paid in advance -----------------------------------------------------------------------------------------------------


def account_name(facts: Facts, kind: str) -> str:
    return f"{facts.spec.name}-reports-{kind}"


def scheduled_events(facts: Facts) -> dict[str, Event]:
    """What scheduled reports cost, by account: a place is in one of them, whatever their number."""
    declared = facts.spec.reports
    if declared is None or declared.price is None:
        return {}
    check_declared(facts)
    names = tuple(rule.name for rule in facts.rules)
    return {
        account_name(facts, kind): ParallelEvent(mechanism(facts, kind, declared.price, declared.level, names).event())
        for kind in declared.kinds
    }


def check_declared(facts: Facts) -> None:
    """What cannot be reported is refused when a loop is made."""
    declared = facts.spec.reports
    if declared is None:
        return
    if facts.policy.local:
        raise SpecError("a local loop holds no rewards that could be reported", path="reports", fix="leave it out")
    if "evaluation" in declared.kinds and declared.every is not None:
        if not facts.rules:
            raise SpecError("a scheduled evaluation values targets", path="targets", fix="declare them")
        price = declared.price or Price(epsilon=1.0)
        check_arrivals(facts)
        check_explored(facts, declared.every, price)
        names = tuple(rule.name for rule in facts.rules)
        check_says_something(mechanism(facts, "evaluation", price, declared.level, names), declared.every)


# What is left ---------------------------------------------------------------------------------------------------------

SEVERAL = (1, 3, 10)
TYPICAL = 1000
"""Places of a report while there are none to take."""


def reports_left(loop: Loop) -> dict[str, Any] | None:
    """What is kept for reports by hand, as so many reports and how sure each would be; None where nothing is.

    Of fairness reports on as many places as wait for one now (or as the schedule takes); public numbers alone.
    """
    facts, ledger = loop.facts, loop.ledger
    declared, limit = facts.spec.reports, ledger.limit
    amount = ledger.remaining.units / UNITS[limit.currency]
    if declared is None or amount <= 0.0:
        return None
    now, behind = _behind_all(loop, "fairness")
    places = declared.every or max(now.settled - behind, 0) or TYPICAL
    choices = []
    for number in SEVERAL:
        made = mechanism(facts, "fairness", Price.of(limit.currency, amount / number), declared.level)
        half = widest(made, places)
        if half < SAYS:
            choices.append({"reports": number, "half_width": half})
    return {"places": places, "level": declared.level, "choices": choices}


# Quotes ---------------------------------------------------------------------------------------------------------------


def quoted(loop: Loop, kind: str, first: int | None, stop: int | None, price: dict[str, Any],
           settings: dict[str, Any] | None, half_width: float | None = None,
           sample: bool = False) -> dict[str, Any]:  # fmt: skip
    """What a report would cost and how sure it would be; or the budget that a half-width needs. Nothing is charged.

    ``sample``: with what would be published, on made-up rows.
    """
    ledger = loop.ledger
    currency = ledger.limit.currency
    given = price or Price.of(currency, 0.01 if currency is not Currency.EPSILON else 0.1).to_dict()
    asked = wanted(loop, kind, first, stop, given, settings)
    facts, count = loop.facts, asked.stop - asked.first
    if kind == "evaluation":
        check_explored(facts, count, asked.price)
    sizes = _public_sizes(loop, wanted(loop, kind, None, None, given, settings), count)
    if half_width is not None:
        found = budget_for(asked.mechanism(facts), half_width, max(count, 1), sizes)
        asked = wanted(loop, kind, first, stop, found.to_dict(), settings)
    report = asked.mechanism(facts)
    charge = ledger.limit.charge(report.event())
    if isinstance(report, FairnessReport):
        halves: list[dict[str, Any]] = half_widths(report, max(count, 1), sizes)
    else:
        wide = report.half_widths(max(count, 1))
        halves = [{"name": name, "half_width": half} for name, half in zip(report.targets, wide, strict=True)]
    admitted = ledger.quote(report.event()).admitted
    return {
        "kind": kind, "first": asked.first, "stop": asked.stop, "places": count, **asked.price.to_dict(),
        "cost": ledger.limit.words(charge), "admitted": bool(admitted),
        "largest_admissible": ledger.limit.words(ledger.remaining), "half_widths": halves,
        "level": asked.level, "time": in_words(loop.store.clock.now()),
        **({"dry_run": dry_run(report, max(count, 1))} if sample else {}),
    }  # fmt: skip


def _public_sizes(loop: Loop, waiting: Wanted, count: int) -> dict[str, float] | None:
    """How many of each group stand in so many places, where that is public: as in all that wait for a report, so that
    a quote of one place does not tell who stands there, or that it was erased. None where nothing is known."""
    report, facts = waiting.mechanism(loop.facts), loop.facts
    places = waiting.stop - waiting.first
    if not isinstance(report, FairnessReport) or report.private_groups or count <= 0 or places <= 0:
        return None
    public = PublicCounts()
    for page in pages(facts, loop.store.driver, waiting.first, waiting.stop):
        public = public + report.public(page.rows)
    sizes = public.shown
    if public.cells is not None:
        sizes = public.cells.reshape(-1, len(report.names)).sum(axis=0)
    return None if sizes is None else dict(zip(report.names, (sizes * (count / places)).tolist(), strict=True))
