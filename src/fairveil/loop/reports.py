"""Reports of a loop: fairness by group and values of other rules, over ranges of settled places.

A report is a release. Its range is taken in the store first (so that no two ranges of a kind overlap, whoever asks),
then its block ``<loop>/<epoch>/report-<kind>-<first>-<stop>`` is charged, drawn and stored in the ledger, then its
document is stored. A process that dies in between leaves a range that is taken: whoever asks again, or the next tick,
goes on from there, and gets the ledger's value, or that it is lost. So no range has two values, and none is uncharged.
A summary, asked for by hand, is post-processing of what is published: free, and kept.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from fairveil.arrays import Ints
from fairveil.errors import BudgetError
from fairveil.ledger import OneEvent, Paid, release_once
from fairveil.ledger.account import adopt as keep
from fairveil.loop import trail
from fairveil.loop.asked import Wanted, account_name, check_range, quoted, wanted
from fairveil.loop.batch import Batch
from fairveil.loop.blocks import block_name
from fairveil.loop.clock import SECOND, seconds_of
from fairveil.loop.paying import note_budget
from fairveil.loop.places import Counters, check_people, erase_below, pages, settle
from fairveil.loop.problems import Invalid, LedgerInDoubt, NoBudget, NoSupport, Overlap, Uncounted
from fairveil.loop.public import loop_table, release_tables
from fairveil.loop.reporting import KINDS as REPORTS
from fairveil.loop.reporting import REFUSED, Kind
from fairveil.loop.storage import adding
from fairveil.privacy.noise import Noise
from fairveil.privacy.vectors import Price
from fairveil.reports.evaluation import Evaluation
from fairveil.reports.export import as_json
from fairveil.reports.fairness import FairnessReport, PublicCounts
from fairveil.storage.faults import point

if TYPE_CHECKING:
    from fairveil.loop.loop import Loop

SUMMARISED = (
    "mode", "rounds", "settled", "version", "epoch", "published", "guarantee", "total_guarantee", "person_guarantee",
    "simulated",
)  # fmt: skip
RANGE = "loop = ? AND kind = ? AND first = ? AND stop = ?"
"""Which row of ``reports`` a report has: `Wanted.row`."""
RELEASED = (
    adding("releases", "loop, id, kind, first, stop, settings, block, value, created")
    + " ON CONFLICT (loop, id) DO NOTHING"
)
STALE = 60 * SECOND
"""A range that was taken so long ago and is not through is finished by a tick."""


def of_request(loop: Loop, request: str | None) -> Wanted | None:
    """The report that was asked for under this id of a request, if it was."""
    if request is None:
        return None
    query = "SELECT kind, first, stop, settings, scheduled FROM reports WHERE loop = ? AND request = ?"
    found = loop.store.read(query, (loop.facts.id, request))
    return _again(*found[0]) if found else None


def make(loop: Loop, asked: Wanted, actor: str = "local") -> tuple[dict[str, Any], bool]:
    """The stored release, and whether it is new. The same request again gives the same bytes and costs nothing."""
    known = stored(loop, asked.id)
    if known is not None:
        return _same(loop, asked, known), False
    with loop.reports_lock:
        if not _taken(loop, asked):
            check_range(loop, asked)
        check_people(loop.facts, loop.store.driver, asked.first, asked.stop)
        epoch = loop.writer.act(lambda batch: _take(batch, asked))
        point("report-taken")
        try:
            _finish(loop, asked, epoch, actor)
        except BudgetError as problem:
            loop.writer.act(lambda batch: _untake(batch, asked))
            raise NoBudget(
                "the ledger does not allow this report", path="epsilon", given=asked.price.words,
                allowed=loop.ledger.limit.words(loop.ledger.remaining), fix="a smaller budget, or a loop with spare",
            ) from problem  # fmt: skip
    note_budget(loop)
    made = stored(loop, asked.id)
    assert made is not None, "it was stored just now"
    return made, True


def stored(loop: Loop, id: str) -> dict[str, Any] | None:
    return next((one for one in release_tables(loop) if one["id"] == id), None)


def _same(loop: Loop, asked: Wanted, known: dict[str, Any]) -> dict[str, Any]:
    if known["settings"] != asked.settings:
        raise Overlap(
            "this range was reported with other settings", path="first", given=[asked.first, asked.stop],
            allowed="the same settings, or another range", fix=f"see release {asked.id}",
        )  # fmt: skip
    return known


def _taken(loop: Loop, asked: Wanted) -> bool:
    """Whether this very report was begun before and is not through."""
    found = loop.store.read(f"SELECT settings FROM reports WHERE {RANGE}", asked.row(loop.facts))
    return bool(found) and json.loads(found[0][0]) == asked.settings


def _take(batch: Batch, asked: Wanted) -> int:
    """Take the range, under the lock of the loop's row; refuses one that overlaps. Gives the epoch of its block."""
    loop, now = batch.facts.id, batch.now
    query = "SELECT first, stop, epoch, settings FROM reports WHERE loop = ? AND kind = ? AND first < ? AND stop > ?"
    for first, stop, epoch, settings in batch.tx.execute(query, (loop, asked.kind, asked.stop, asked.first)):
        if (first, stop) == (asked.first, asked.stop) and json.loads(settings) == asked.settings:
            return int(epoch)
        raise Overlap(
            "this range overlaps one that is reported", path="first", given=[asked.first, asked.stop],
            allowed=f"places outside [{first}, {stop})", fix="a place is in one report of a kind",
        )  # fmt: skip
    batch.change(due=min(batch.before.due, now + STALE + 1))
    batch.tx.execute(
        adding("reports", "loop, kind, first, stop, epoch, status, scheduled, settings, request, created"),
        (*asked.row(batch.facts), batch.before.epoch, "taken", int(asked.scheduled), json.dumps(asked.settings),
         asked.request, now),
    )  # fmt: skip
    return batch.before.epoch


def _mark(batch: Batch, asked: Wanted, status: str) -> None:
    """What became of a range that was taken."""
    batch.tx.execute(f"UPDATE reports SET status = ? WHERE {RANGE}", (status, *asked.row(batch.facts)))


def _pass_over(batch: Batch, asked: Wanted, status: str) -> None:
    """A scheduled range that cannot be reported is noted, so that the schedule goes on behind it."""
    _take(batch, asked)
    _mark(batch, asked, status)


def _untake(batch: Batch, asked: Wanted) -> None:
    """Nothing was charged: the range is free again. What a ledger has refused it refuses for ever."""
    batch.tx.execute(f"DELETE FROM reports WHERE {RANGE} AND status = 'taken'", asked.row(batch.facts))


def _finish(loop: Loop, asked: Wanted, epoch: int, actor: str) -> None:
    """Charge, draw, store in the ledger; then the document. Every step may be repeated."""
    facts = loop.facts
    report = asked.mechanism(facts)
    ledger = loop.ledger
    payer = Paid(ledger, account_name(facts, asked.kind)) if asked.scheduled else OneEvent(ledger, report.event())

    def draw(noise: Noise) -> dict[str, Any]:
        units, public = gathered(loop, report, asked)
        point("report-folded")
        return {"range": [asked.first, asked.stop], "sums": report.vector.release(units, noise), **public}

    noise = loop.store.noise if facts.spec.simulated else None
    released = release_once(payer, block_name(facts, epoch, asked.id), draw, noise)
    point("report-drawn")
    value = released.answer(drawn=keep, stored=keep, lost=lambda _: None)
    document = None if value is None else read(report, value)
    loop.writer.act(lambda batch: _store(batch, asked, epoch, document, actor))


def gathered(loop: Loop, report: FairnessReport | Evaluation, asked: Wanted) -> tuple[Ints, dict[str, Any]]:
    """The sums of a range in grid units, and its public numbers."""
    facts, units = loop.facts, np.zeros(report.vector.dimension, np.int64)
    public = PublicCounts()
    columns = [place for place, rule in enumerate(facts.rules) if rule.name in asked.targets]
    for page in pages(facts, loop.store.driver, asked.first, asked.stop):
        if isinstance(report, FairnessReport):
            units, public = units + report.units(page.rows), public + report.public(page.rows)
            continue
        assert page.rows.reward is not None, "places have rewards or none came"
        if report.blanks:
            units = units + report.units(page.weights[:, columns], page.rows.reward)
            public = public + PublicCounts(len(page.rows))
            continue
        came = ~np.isnan(page.rows.reward)  # public: `check_range` refuses a loop that hides it
        units = units + report.units(page.weights[came][:, columns], page.rows.reward[came])
        public = public + PublicCounts(len(page.rows), answered=np.array([came.sum()]))
    return units, {"public": public.to_dict()}


def read(report: FairnessReport | Evaluation, value: dict[str, Any]) -> dict[str, Any]:
    sums, public = np.asarray(value["sums"], np.float64), PublicCounts.from_dict(value["public"])
    if isinstance(report, FairnessReport):
        return report.read(sums, public)
    return report.read(sums, public.places, None if public.answered is None else int(public.answered[0]))


def _store(batch: Batch, asked: Wanted, epoch: int, document: Any, actor: str) -> None:
    facts, placing = batch.facts, batch.places
    assert placing is not None, "a loop that reports has places"
    now = placing.counters
    status = "lost" if document is None else "released"
    places = {"first": asked.first, "stop": asked.stop, "settled": now.settled, "decided": now.place}
    if document is None:
        words = [
            "The process ended before this report was published: its charge stands, its range is never read again."
        ]
        document = {"kind": asked.kind, "status": "lost", "charge": asked.price.to_dict(), "words": words}
    value = {**document, "range": places, "outside": {"shadow": now.shadow}, "simulated": facts.spec.simulated}
    _mark(batch, asked, status)
    batch.tx.execute(
        RELEASED,
        (facts.id, asked.id, asked.kind, asked.first, asked.stop, json.dumps(asked.settings),
         block_name(facts, epoch, asked.id), as_json(value), batch.now),
    )  # fmt: skip
    trail.note(batch.tx, batch.now, actor, "report", facts.spec.name, {"id": asked.id, "status": status})
    point("report-stored")


# By the clock ---------------------------------------------------------------------------------------------------------


def tick(loop: Loop) -> int:
    """Settle places, make the reports that are due, finish what was begun, erase what is through. Gives how many."""
    now: Counters = loop.writer.act(settle)
    made = 0
    for asked in (*_begun(loop), *_due(loop, now)):
        try:
            _, new = make(loop, asked, "tick")
        except NoSupport as problem:  # no law is known of it, or not everybody was counted: the next range comes
            new, status = False, REFUSED if isinstance(problem, Uncounted) else "skipped"
            loop.writer.act(partial(_pass_over, asked=asked, status=status))
        except Overlap:  # somebody asked for these places by hand a moment ago
            new = False
        made += new
    through = partial(erase_below, stop=_through(loop, now))
    while loop.writer.act(through):
        pass
    return made


def moments(batch: Batch) -> list[int]:
    """When places need their next tick: a window closes, content is old, or a range was taken and left."""
    declared, placing, found = batch.facts.spec.reports, batch.places, list[int]()
    assert declared is not None, "only loops that report have places"
    assert placing is not None, "a loop that reports has places"
    tx, loop, now = batch.tx, batch.facts.id, placing.counters
    if now.settled < now.place:
        rows = tx.execute("SELECT until FROM places WHERE loop = ? AND place = ?", (loop, now.settled))
        found.append(batch.after_grace(rows[0][0] if rows else None))
    query = "SELECT decided, until FROM places WHERE loop = ? AND place >= ? ORDER BY place LIMIT 1"
    keep = seconds_of(declared.keep, "reports.keep") * SECOND
    found += [max(decided + keep, until) + 1 for decided, until in tx.execute(query, (loop, now.erased))]
    query = "SELECT min(created) FROM reports WHERE loop = ? AND status = 'taken'"
    return found + [created + STALE + 1 for (created,) in tx.execute(query, (loop,)) if created is not None]


def _begun(loop: Loop) -> list[Wanted]:
    query = (
        "SELECT kind, first, stop, settings, scheduled FROM reports WHERE loop = ? AND status = 'taken' AND created < ?"
    )
    found = loop.store.read(query, (loop.facts.id, loop.store.clock.now() - STALE))
    return [_again(*row) for row in found]


def _again(kind: Kind, first: int, stop: int, settings: str, scheduled: int) -> Wanted:
    """A report as its row says that it was asked for."""
    price = json.loads(settings)
    level, targets = price.pop("level"), tuple(price.pop("targets", ()))
    return Wanted(kind, first, stop, Price(**price), targets, level, bool(scheduled))


def _due(loop: Loop, now: Counters) -> list[Wanted]:
    declared, found = loop.facts.spec.reports, list[Wanted]()
    if declared is None or declared.every is None or declared.price is None:
        return []
    names = tuple(rule.name for rule in loop.facts.rules)
    for kind in declared.kinds:
        query = "SELECT max(stop) FROM reports WHERE loop = ? AND kind = ? AND scheduled = 1"
        last = loop.store.read(query, (loop.facts.id, kind))[0][0]
        start = max(last or 0, -(-max(now.first, now.erased) // declared.every) * declared.every)
        taken, own = _by_hand(loop, kind, start), names if kind == "evaluation" else ()
        for first in range(start, now.settled - declared.every + 1, declared.every):
            stop = first + declared.every
            if not any(begin < stop and first < end for begin, end in taken):
                found.append(Wanted(kind, first, stop, declared.price, own, declared.level, True))
    return found


def _by_hand(loop: Loop, kind: str, start: int) -> list[tuple[int, int]]:
    """Ranges behind a place that were asked for by hand: a scheduled one that overlaps them is left out."""
    query = "SELECT first, stop FROM reports WHERE loop = ? AND kind = ? AND scheduled = 0 AND stop > ?"
    return loop.store.read(query, (loop.facts.id, kind, start))


def _through(loop: Loop, now: Counters) -> int:
    """Places below this have been reported in every scheduled kind, or are older than ``reports.keep``."""
    declared, facts = loop.facts.spec.reports, loop.facts
    assert declared is not None, "only loops that report have places"
    reached = 0
    if declared.every is not None and declared.spare == 0 and facts.spec.budget.ledger is None:
        query = (
            "SELECT kind, max(stop) FROM reports WHERE loop = ? AND scheduled = 1 AND status != 'taken' GROUP BY kind"
        )
        stops: dict[str, int] = dict(loop.store.read(query, (facts.id,)))
        reached = min((int(stops.get(kind) or 0) for kind in declared.kinds), default=0)
    old = loop.store.clock.now() - seconds_of(declared.keep, "reports.keep") * SECOND
    query = "SELECT max(place) FROM places WHERE loop = ? AND place < ? AND decided < ?"
    last = loop.store.read(query, (facts.id, now.settled, old))[0][0]
    return max(reached, 0 if last is None else last + 1)


# By hand --------------------------------------------------------------------------------------------------------------


KINDS = ("summary", *REPORTS)
BUDGETS = ("epsilon", "delta", "rho", "mu")
ASKED = ("first", "stop", *BUDGETS, "half_width", "dry_run")


def release(
    loop: Loop, kind: str, settings: dict[str, Any] | None = None, actor: str = "local", **asked: Any
) -> tuple[Any, bool]:
    """The release, and whether it is new; the same request again gives the stored one.

    ``request_id``, made by the caller, names a request whose range is left open: a retry gives what the first one made.
    """
    request = asked.pop("request_id", None)
    check_kind(kind, settings, asked)
    if kind == "summary":
        return _summary(loop, actor)
    price = {name: asked[name] for name in BUDGETS if asked.get(name) is not None}
    if not price:
        raise Invalid("a report has a budget", path="epsilon", allowed="epsilon, rho or mu of the whole release")
    known = of_request(loop, request) or wanted(loop, kind, asked.get("first"), asked.get("stop"), price, settings)
    if stored(loop, known.id) is None:
        _check_doubt(loop)
    return make(loop, replace(known, request=request), actor)


def _check_doubt(loop: Loop) -> None:
    """The ledger was compared with the store since the start, and continues it."""
    if not (loop.checked or loop.verify()):
        raise LedgerInDoubt(
            "the ledger of this loop is in doubt: nothing is drawn until an operator has looked", path="ledger",
            given=loop.status().stopped, fix="fairveil store check says more",
        )  # fmt: skip


def _summary(loop: Loop, actor: str) -> tuple[Any, bool]:
    table = loop_table(loop)
    id = f"summary-{table['epoch']}-{table['version']}"
    if (known := stored(loop, id)) is not None:
        return known, False
    value = {key: table[key] for key in SUMMARISED}
    now = loop.store.clock.now()
    with loop.store.writing() as tx:
        tx.execute(RELEASED, (loop.facts.id, id, "summary", 0, table["settled"], "{}", None, json.dumps(value), now))
        trail.note(tx, now, actor, "release", loop.name, {"id": id})
    return stored(loop, id), True


def quote_release(loop: Loop, kind: str, settings: dict[str, Any] | None = None, **asked: Any) -> dict[str, Any]:
    """Cost, whether the ledger admits it, and expected half-widths; nothing is charged."""
    check_kind(kind, settings, asked)
    if kind == "summary":
        left = loop.ledger.limit.words(loop.ledger.remaining)
        return {"kind": kind, "cost": "nothing", "admitted": True, "largest_admissible": left, "half_widths": []}
    price = {name: asked[name] for name in BUDGETS if asked.get(name) is not None}
    return quoted(loop, kind, asked.get("first"), asked.get("stop"), price, settings, asked.get("half_width"),
                  asked.get("dry_run", False))  # fmt: skip


def check_kind(kind: str, settings: dict[str, Any] | None, asked: dict[str, Any]) -> None:
    if kind not in KINDS:
        raise Invalid("unknown kind of release", path="kind", given=kind, allowed=", ".join(KINDS))
    if unknown := set(asked) - set(ASKED):
        raise Invalid(
            "a release is not asked for with this", path=min(unknown), allowed=", ".join(ASKED),
            fix="a level and targets stand in settings",
        )  # fmt: skip
    if kind != "summary":
        return
    if settings:
        raise Invalid("a summary has no settings", path="settings", allowed="nothing")
    for name, value in asked.items():
        if value is not None:
            raise Invalid("a summary covers all that is published, for free", path=name, allowed="nothing")
