"""A report on a ledger: what was charged and published, and what the published numbers of a policy say."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from fairveil._version import __version__
from fairveil.bandits.ledgered import fingerprint
from fairveil.bandits.nash.base import NashPolicy
from fairveil.bandits.nash.stopping import Separation, separation
from fairveil.bandits.nash.stopping import words as verdict
from fairveil.bandits.protocol import Policy
from fairveil.classify.spending import FIT, PLAN
from fairveil.errors import FairveilError, SpecError
from fairveil.lab.handover.document import (
    STOOD_IN,
    Document,
    DocumentSection,
    TextGrid,
    briefly,
    estimates_section,
    number,
)
from fairveil.lab.handover.registry_entry import Deployment
from fairveil.lab.handover.stream_ledgers import StreamRecord, called, cost, stream_of, stream_sections
from fairveil.lab.handover.words import AUDIT, promise_section, public_section, unprotected_section
from fairveil.ledger.verify import Report, entries, releases, verify
from fairveil.loop.public import composed
from fairveil.loop.recovery import reported_range
from fairveil.privacy.charges import Charge, Currency
from fairveil.privacy.guarantee import Guarantee

SIMULATED = (
    "Simulated: this ledger takes seeded noise. It protects nobody, and nothing in this report may be used as if."
)
ACCOUNT = "account"
ROW = "one person's row, as the promise of the model says (guarantee_)"
MOST_FITS = 40
NO_POLICY = (
    "The ledger holds the published numbers, not what they mean. Name the policy they belong to (--policy) to have "
    "decisions and estimates here, and whether they are a replay of recorded rows."
)
REPLAY = (
    "A replay: the policy decided over rows that had been recorded before, and saw of each only the outcome of the "
    "option it chose. Nobody was given anything by these decisions."
)
SQUARES = (
    "A ledger of Gaussian noise adds up mu^2: one person is as hard to see as a shift by mu of a bell curve of width "
    "1. The delta beside it is what discrete noise may differ from that curve. The promise of the whole ledger, "
    "{promise}, is what follows from both."
)
LIVES = (
    "the key of ids was lost {keys} time(s) and the store put back {epochs} time(s) without a charge: an event may "
    "have been learned or reported once more each time, and the numbers count that"
)
NOT_HERE = (
    "How many were given each option, wait, or never answered, and bounds that count them: a ledger holds published "
    "answers alone. Where a loop of the service made it, a report on its store (STORE --loop NAME) or over --url has "
    "them."
)


def report_on_ledger(
    path: str | os.PathLike[str],
    policy: Policy | None = None,
    *,
    anchor: str | os.PathLike[str] | None = None,
    ledger: str | None = None,
    key: bytes | None = None,
    names: dict[str, str] | None = None,
    loop: str | None = None,
    anytime: bool = False,
    replay: bool = False,
) -> Document:
    """Check the ledger, then say what it holds. ``names``: what "arm 0" or "group 1" is called; ``loop``: the loop of
    the service whose account it is, if one made it; ``anytime``: intervals and verdict of the stopping rule;
    ``replay``: the policy decided over recorded rows.

    Without a policy there are no estimates: a ledger stores the numbers of releases and not what they mean.
    """
    checked = verify(path, anchor, ledger=ledger, key=key)
    held = list(entries(path, ledger=ledger, key=key))
    accounts = [entry for entry in held if entry["kind"] == ACCOUNT]
    fits = [] if policy is not None else fits_in(held)
    document = Document(
        title="Report on private fits of a model" if fits else "Report on a private study",
        about=f"From the privacy ledger {Path(str(path)).name}, checked entry by entry before this was written.",
        banner=" ".join([SIMULATED] * checked.simulated + [REPLAY] * replay),
        made=f"fairveil {__version__}; ledger head {checked.head[:16]}, entry {checked.entries - 1}",
    )
    document.figures += [
        ("budget spent", briefly(checked.spent)),
        ("budget in all", briefly(checked.limit)),
        ("releases", f"{checked.published:,} published" + (f", {checked.lost} lost" if checked.lost else "")),
    ]
    streams = [] if fits or policy is not None else _streams_in(path, accounts, ledger, key)
    if streams:
        _say_streams(document, streams, held[0]["limit"])
        document.sections += [_spent_on(streams, checked, accounts), _verifying(path, checked, policy)]
        return document
    if fits:
        document.sections.append(fitted_section(fits))
    elif policy is None:
        document.sections.append(DocumentSection("What was decided, and what is known", withheld=[NO_POLICY]))
    else:
        account = _account_of(policy, accounts, loop)
        made = releases(path, account, ledger=ledger, key=key)
        blocks = [one for one in made if reported_range(f"{account}/{one[0]}") is None]
        state = policy.restored([(name.rpartition("/")[2], value) for name, value in blocks])
        document.sections += [
            decided_section(policy, state, names or {}),
            known_section(policy, state, names or {}, anytime, stands_in=loop is not None),
            fairness_section(policy.family),
        ]
    unit = checked.unit or (ROW if fits else "")
    document.sections.append(budget_section(checked, [] if fits else accounts, unit))
    promise = None if policy is None else _over_lives(_over_all(policy.guarantee(), held), held, loop)
    if policy is not None and promise is not None and promise.established and not checked.simulated:
        document.deployment = _deployment(policy, promise, checked, loop, accounts[0]["time"][:10])
    if policy is not None:
        document.sections.append(promise_section(promise))
    else:
        what = "fits" if fits else "releases"
        text = f"The ledger admits {what} up to {checked.promise} in total. Protected is {unit or 'the unit'}."
        document.sections.append(DocumentSection("What is promised to the people in the data", text=[text]))
    document.sections += [
        public_section(promise, decides=not fits),
        unprotected_section(promise, decides=not fits),
        _verifying(path, checked, policy),
    ]
    return document


def _over_all(promise: Guarantee | None, held: list[dict[str, Any]]) -> Guarantee | None:
    """The policy's promise, over everything that the ledger has charged beside it: one unit may be in all of it."""
    charges = [charge for entry in held if (charge := Charge(*entry.get("charge", (0, 0)))) != Charge(0)]
    if promise is None or len(charges) < 2:
        return promise
    return composed(promise, Currency(held[0]["limit"]["currency"]), charges)


def _over_lives(promise: Guarantee | None, held: list[dict[str, Any]], loop: str | None) -> Guarantee | None:
    """The same once more for each life of a loop that its ledger knows of and has charged nothing for: new keys of ids,
    epochs that were accepted so, and with reports every epoch (`fairveil.loop.lives`)."""
    free = [e["name"] for e in held if e["kind"] == ACCOUNT and Charge(*e["charge"]) == Charge(0)]
    keys = sum(name.startswith(f"{loop}/key-") for name in free)
    uncharged = sum(name.startswith(f"{loop}/epoch-") for name in free)
    taken = [e["name"] for e in held if e["kind"] == "reserve" and e["name"].startswith(f"{loop}/")]
    reported = any(reported_range(name) for name in taken)
    again = max((int(name.split("/")[1]) for name in taken), default=0) if reported else 0
    lives = 1 + keys + max(uncharged, again)
    if promise is None or loop is None or lives == 1:
        return promise
    notes = (*promise.notes, LIVES.format(keys=keys, epochs=max(uncharged, again)))
    try:
        return replace(promise.for_units(lives), unit=promise.unit, notes=notes)
    except FairveilError:
        return replace(promise, established=False, notes=notes)


def _deployment(policy: Policy, promise: Guarantee, checked: Report, loop: str | None, since: str) -> Deployment:
    return Deployment(
        loop or policy.name,
        promise,
        policy.name,
        checked.unit or promise.unit,
        f"{checked.published:,} releases, {checked.spent} of {checked.limit} spent",
        since,
    )


def fits_in(held: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The fits of estimators and the plans that paid for several, where a ledger holds nothing else."""
    paid = [entry for entry in held if entry["kind"] in (ACCOUNT, "reserve")]
    return paid if all(entry["name"].startswith((FIT, PLAN)) for entry in paid) else []


def fitted_section(paid: list[dict[str, Any]]) -> DocumentSection:
    """How many fits were charged, when, and for how much; a fit of a plan is paid for by the plan."""
    fits = [entry for entry in paid if entry["kind"] != ACCOUNT]
    rows = [
        (
            entry["time"][:16].replace("T", " "),
            f"a plan of {entry['releases']} fits" if entry["kind"] == ACCOUNT else "one fit",
            "paid by its plan" if entry.get("account") else entry["charged"],
        )
        for entry in paid
    ]
    section = DocumentSection("What was fitted")
    fitted = "One fit of a classifier was" if len(fits) == 1 else f"{len(fits):,} fits of a classifier were"
    section.text.append(
        f"{fitted} charged before noise met the data. Everybody whose row was in several fits paid for each; "
        "a search over parameters fits once for every candidate and fold."
    )
    section.grids.append(TextGrid(("on", "what", "charge"), tuple(rows[-MOST_FITS:])))
    if len(rows) > MOST_FITS:
        section.points.append(f"The last {MOST_FITS} of {len(rows):,} charges; all of them: fairveil ledger show.")
    section.points.append(
        "What a model knows about itself (accuracy, gaps and rates by group) stands in the report on the model: "
        "write_document(report_on_classifier(model), file) of fairveil.lab.handover."
    )
    return section


def _streams_in(
    path: str | os.PathLike[str], accounts: list[dict[str, Any]], ledger: str | None, key: bytes | None
) -> list[StreamRecord]:
    """The streams of a ledger that pays for nothing else."""
    found: list[StreamRecord] = []
    for name in (str(entry["name"]) for entry in accounts):
        stream = stream_of(name, releases(path, name, ledger=ledger, key=key))
        if stream is None:
            return []
        found.append(stream)
    return found


def _say_streams(document: Document, streams: list[StreamRecord], limit: dict[str, Any]) -> None:
    """Steps instead of releases, epsilon and delta before any other measure, and what is promised to one person."""
    steps = (called(streams), "; ".join(stream.words for stream in streams))
    epsilon, delta = limit["epsilon"], limit["delta"] or 0.0
    paid = document.figures[:2] if epsilon is None else [("hidden up to", cost(epsilon, delta))]
    document.title, document.figures = "Report on a private stream", [*paid, steps]
    document.sections += stream_sections(streams, epsilon, delta)


def _spent_on(streams: list[StreamRecord], checked: Report, accounts: list[dict[str, Any]]) -> DocumentSection:
    """The budget of streams; their releases are charged in batches, which are no steps."""
    return budget_section(checked, accounts, releases=f"batches of {called(streams)}, each charged and stored at once")


def _account_of(policy: Policy, accounts: list[dict[str, Any]], loop: str | None) -> str:
    """The account that this policy holds; another policy's numbers are never read as its own.

    Accounts of the service have no holder: they carry the loop's name, and what they paid for must be the policy's.
    """
    mine = [entry["name"] for entry in accounts if entry.get("holder") == fingerprint(policy)]
    if not mine and loop is not None:
        paid = policy.event().to_dict()
        mine = [
            entry["name"]
            for entry in accounts
            if entry["name"] == loop and "holder" not in entry and entry.get("event") == paid
        ]
    if len(mine) == 1:
        return str(mine[0])
    loops = [entry["name"] for entry in accounts if "holder" not in entry]
    raise SpecError(
        "no account of this ledger belongs to this policy" if not mine else "several accounts belong to this policy",
        path="policy",
        given=policy.name,
        allowed=", ".join(f"the policy of {entry['name']!r}" for entry in accounts) or "a ledger with releases",
        fix=f"the service made it: fairveil report STORE --loop {loops[0]}, or --policy with the loop's whole table"
        if loops
        else "give the spec with exactly the parameters that the releases were made with",
    )


def known_section(
    policy: Policy, state: dict[str, Any], names: dict[str, str], anytime: bool, stands_in: bool = False
) -> DocumentSection:
    """Estimates with their usual intervals, or with those of the stopping rule and its verdict; ``stands_in``: a loop
    made it, which puts a public number in place of some outcomes."""
    if not anytime:
        known = policy.estimates(state)
        unknown = any(item.answers is not None for item in known.items)  # a ledger holds answers, not who is silent
        items = tuple(replace(item, answers=None) for item in known.items)
        section = estimates_section(replace(known, items=items).to_dict(names))
        section.withheld += [NOT_HERE] if unknown else []
        return section
    found = stopping_rule(policy, state)
    section = estimates_section(found.estimates().to_dict(names))
    called = [names.get(f"arm {arm}", f"arm {arm}") for arm in range(len(found.rows))]
    section.text.append(f"The stopping rule was used. {verdict(found, called)}")
    section.text += [STOOD_IN] if stands_in else []
    return section


def stopping_rule(policy: Policy, state: dict[str, Any]) -> Separation:
    """What the stopping rule says of a policy over plain arms."""
    if not isinstance(policy, NashPolicy):
        raise SpecError("the stopping rule is for plain arms", path="anytime", given=policy.name, fix="leave it out")
    return separation(policy, state)


def decided_section(policy: Policy, state: dict[str, Any], names: dict[str, str]) -> DocumentSection:
    """How often each option was chosen, where arms are public; otherwise that this is not released."""
    section = DocumentSection("What was decided, and how often")
    rounds = policy.rounds_by_arm(state) if isinstance(policy, NashPolicy) else None
    if rounds is not None:
        total = max(int(rounds.sum()), 1)
        section.text.append(
            f"{int(rounds.sum()):,} decisions stand behind the published numbers. Decisions that wait for a "
            "release, or that nobody answered, are not counted."
        )
        rows = [
            (names.get(f"arm {arm}", f"arm {arm}"), number(float(count)), f"{count / total:.1%}")
            for arm, count in enumerate(rounds)
        ]
        section.grids.append(TextGrid(("option", "published decisions", "share of them"), tuple(rows)))
    elif policy.family == "nash":
        section.withheld.append("How often each option was chosen: the releases of this policy do not hold it.")
    else:
        section.withheld.append(how_often(policy.family))
    return section


def how_often(family: str) -> str:
    whom = "group" if family == "meritocratic" else "item"
    return (
        f"How often each {whom} was chosen. Counts by {whom} are made of people's own data here; they need a release "
        "of their own, which nobody has paid for."
    )


def fairness_section(family: str) -> DocumentSection:
    """Fairness figures are releases like others."""
    section = DocumentSection("Fairness")
    if family == "meritocratic":
        section.text.append(
            "Candidates are compared by their rank within their own group. How unsure these ranks are for each group "
            "was released with them and stands above: a group with a large standard deviation may be chosen too often "
            "or too rarely by about as much."
        )
        section.withheld.append("Selection rates by group.")
    elif family == "exposure":
        section.text.append("Items are shown in proportion to their merit, which follows from the estimates above.")
        section.withheld.append("Exposure by item or group.")
    else:
        section.text.append(
            "Options come in a random first order, then by published numbers: the same rule applies to all."
        )
        section.withheld.append("Regret, and outcomes by groups of people.")
    return section


def budget_section(
    checked: Report, accounts: list[dict[str, Any]], unit: str = "", releases: str = "releases"
) -> DocumentSection:
    """Limit, spent and left, and what was paid for."""
    section = DocumentSection("What was spent")
    rows = [
        ("limit", checked.limit),
        ("spent", checked.spent),
        ("reserved for releases under way", checked.reserved),
        ("left", checked.remaining),
        ("promise of the whole ledger", checked.promise),
        ("protected unit", checked.unit or unit or "one unit, as its events define it"),
        (releases, f"{checked.published:,} published, {checked.lost:,} lost, {checked.under_way:,} under way"),
    ]
    section.grids.append(TextGrid(("budget", ""), tuple(rows)))
    if accounts:
        paid = [(entry["name"], entry["time"][:10], entry["charged"]) for entry in accounts]
        section.grids.append(TextGrid(("paid for", "on", "charge"), tuple(paid)))
    section.points += [SQUARES.format(promise=checked.promise)] if checked.limit.startswith("mu^2") else []
    section.points += [note[0].upper() + note[1:] + "." for note in checked.notes]
    return section


def _verifying(path: str | os.PathLike[str], checked: Report, policy: Policy | None) -> DocumentSection:
    name = Path(str(path)).name
    section = DocumentSection("How to check this report")
    section.text.append(
        "Everything above follows from the ledger file. Whoever has a copy can check it with the same software:"
    )
    section.code += [f"fairveil ledger verify {name}", f"fairveil ledger show {name}"]
    if policy is not None:
        section.code.append(f"fairveil audit {policy.name}")
        section.points.append(f"The releases are bound to the policy with fingerprint {fingerprint(policy)}.")
    section.points += [
        f"Ledger {checked.ledger}, {checked.entries:,} entries, head {checked.head}.",
        f"Anchor: {checked.anchor}.",
        *([AUDIT] if policy is not None else []),
    ]
    return section
