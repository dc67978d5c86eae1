"""A report on a loop of the service: from its published tables, wherever they come from (the routes, or the store)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fairveil import registry
from fairveil._version import __version__
from fairveil.bandits.estimates import CONFIDENCE
from fairveil.bandits.nash.base import MEAN_REWARD, NashPolicy
from fairveil.bandits.nash.stopping import Separation, separation
from fairveil.bandits.nash.stopping import words as verdict
from fairveil.errors import FairveilError, InputError, SpecError
from fairveil.lab.handover.document import Document, DocumentSection, TextGrid, estimates_section, number
from fairveil.lab.handover.ledgers import budget_section, fairness_section, how_often
from fairveil.lab.handover.registry_entry import Deployment
from fairveil.lab.handover.results import promise_of
from fairveil.lab.handover.words import promise_section, public_section, unprotected_section
from fairveil.ledger.verify import Report, entries, verify
from fairveil.loop.public import public_view
from fairveil.loop.store import Store
from fairveil.loop.waiting import under_way

SIMULATED = "Simulated: this loop takes seeded noise. It protects nobody, and nothing in this report may be used as if."
REWARDS = "option (mean outcome, from {low:g} to {high:g})"
NOT_LIMITED = (
    "How often one person takes part is not limited in this loop (person.max_events), so the promise is for one event. "
    "Read the line of the table for the most events that one person can have had."
)


def report_on_store(
    store: Store, name: str, *, anchor: Path | None = None, anytime: bool = False, key: bytes | None = None
) -> Document:
    """A loop in its store: the published tables, its ledger checked, and if asked for the stopping rule."""
    view, loop = public_view(store, name), store.loop(name)
    spec = loop.facts.spec
    path, inside = store.driver.ledger(spec.budget.ledger or name)
    checked = verify(path, anchor, ledger=inside, key=key)
    policy, found = loop.facts.policy, None
    if anytime:
        found = _rule(policy, loop.status().state)
    document = report_on_loop(
        view.loops[name], view.budgets[name], source=f"the store and its ledger {Path(str(path)).name}", found=found
    )
    accounts = [entry for entry in entries(path, ledger=inside, key=key) if entry["kind"] == "account"]
    place = next(i for i, section in enumerate(document.sections) if section.title == SPENT)
    document.sections[place] = budget_section(checked, accounts)
    document.sections[-1] = _check_ledger(str(path), inside, checked, policy.name)
    document.made += f"; ledger head {checked.head[:16]}, entry {checked.entries - 1}"
    return document


SPENT = "What was spent"


def _rule(policy: Any, state: Any) -> Separation:
    if not isinstance(policy, NashPolicy):
        raise SpecError("the stopping rule is for plain arms", path="anytime", given=policy.name, fix="leave it out")
    return separation(policy, state)


def report_on_loop(
    loop: dict[str, Any], budget: dict[str, Any], *, source: str, found: Separation | None = None
) -> Document:
    """What the published tables of a loop say. ``found``: the stopping rule, where it was used."""
    for key in ("name", "policy", "guarantee", "rounds", "published", "open_blocks"):
        if key not in loop:
            raise InputError("this is not what a loop publishes", path=key, allowed="GET /v1/loops/{loop}")
    promise = promise_of(loop["guarantee"])
    family = _family(loop["policy"])
    waiting = under_way(loop)
    document = Document(
        title=f"Report on the decisions of {loop['name']}",
        about=f"From {source}; the loop was made on {loop['created'][:10]} and runs {loop['policy']['name']}.",
        banner=SIMULATED if loop.get("simulated") else "",
        made=f"fairveil {__version__}; loop {loop['name']}, version {loop['version']}",
    )
    document.figures += [
        ("decided", f"{loop['rounds']:,}"),
        ("learned", f"{loop['rounds'] - waiting:,}"),
        ("budget spent", budget["spent"]),
        ("budget in all", budget["limit"]),
    ]
    if promise is not None and promise.established and not loop.get("simulated"):
        document.deployment = Deployment(
            loop["name"],
            promise,
            loop["policy"]["name"],
            promise.unit,
            f"version {loop['version']}, {budget['spent']} of {budget['limit']} spent",
            loop["created"][:10],
            promise_of(loop.get("person_guarantee")),
        )
    document.sections += [
        _decided(loop, family, waiting),
        _known(loop, found),
        fairness_section(family),
        _spent(budget),
        _promise(loop, promise),
        public_section(promise),
        unprotected_section(promise),
        _verifying(loop),
    ]
    return document


def _family(table: dict[str, Any]) -> str:
    try:
        return str(registry.target_of("policy", table, "policy").family or "nash")
    except FairveilError:  # a plug-in that is not loaded here
        return ""


def _decided(loop: dict[str, Any], family: str, waiting: int) -> DocumentSection:
    section = DocumentSection("What was decided, and how often")
    section.text.append(
        f"{loop['rounds']:,} rounds were decided. {loop['rounds'] - waiting:,} of them stand behind the published "
        f"numbers; {waiting:,} wait in open blocks until their outcomes are in or can come no more."
    )
    arms = loop["published"].get("arms")
    if arms is None:
        section.withheld.append(how_often(family))
        return section
    total = max(sum(arm["rounds"] for arm in arms), 1)
    rows = tuple((_called(arm), f"{arm['rounds']:,}", f"{arm['rounds'] / total:.1%}") for arm in arms)
    section.grids.append(TextGrid(("option", "learned rounds", "share"), rows))
    if loop["mode"] != "online":
        section.points.append(f"The loop is in mode {loop['mode']} now.")
    return section


def _called(arm: dict[str, Any]) -> str:
    return str(arm.get("action_id") or f"option {arm['action']}")


def _known(loop: dict[str, Any], found: Separation | None) -> DocumentSection:
    arms, reward = loop["published"].get("arms"), loop["reward"]
    if arms is None:
        return estimates_section(_restored(loop))
    names = [_called(arm) for arm in arms]
    if found is None:
        rows = [[arm["mean"], arm["low"], arm["high"]] for arm in arms]
        notes = ["intervals hold sampling error and privacy noise together"]
    else:
        low, span = reward["low"], reward["high"] - reward["low"]
        rows = [[None if np.isnan(value) else low + span * value for value in row] for row in found.rows.tolist()]
        notes = list(found.estimates().notes)
    items = [
        {"what": MEAN_REWARD, "name": name, "value": value, "low": below, "high": above}
        for name, (value, below, above) in zip(names, rows)
    ]
    level = CONFIDENCE if found is None else found.confidence
    section = estimates_section({"confidence": level, "items": items, "tables": [], "notes": notes})
    if section.grids:
        head = REWARDS.format(low=reward["low"], high=reward["high"])
        section.grids[0] = TextGrid((head, *section.grids[0].head[1:]), section.grids[0].rows)
    if found is not None:
        section.text.append(f"The stopping rule was used. {verdict(found, names)}")
    return section


def _restored(loop: dict[str, Any]) -> dict[str, Any]:
    """Estimates out of released arrays, as the policy itself makes them."""
    nothing: dict[str, Any] = {"confidence": CONFIDENCE, "items": [], "tables": [], "notes": []}
    try:
        policy = registry.build("policy", loop["policy"], "policy")
    except FairveilError:  # a plug-in that is not loaded here
        return nothing
    state = policy.start()
    for name, values in loop["published"].items():
        given = np.array([np.nan if value is None else value for value in np.asarray(values, object).ravel()])
        state[name] = given.astype(state[name].dtype).reshape(np.asarray(values, object).shape)
    names = {f"group {place}": name for place, name in enumerate(loop.get("groups") or ())}
    found: dict[str, Any] = policy.estimates(state).to_dict(names)
    return found


def _spent(budget: dict[str, Any]) -> DocumentSection:
    rows = [
        ("limit", budget["limit"]),
        ("spent", budget["spent"]),
        ("reserved for releases under way", budget["reserved"]),
        ("left", budget["remaining"]),
        ("in all, as epsilon and delta", f"{number(budget['epsilon'])}, {budget['delta']:.1g}"),
        ("protected unit", budget["unit"] or "one unit, as its events define it"),
    ]
    section = DocumentSection(SPENT, grids=[TextGrid(("budget", ""), tuple(rows))])
    paid = [(account["name"], account["time"][:10], account["charge"]) for account in budget["accounts"]]
    if paid:
        section.grids.append(TextGrid(("paid for", "on", "charge"), tuple(paid)))
    return section


def _promise(loop: dict[str, Any], promise: Any) -> DocumentSection:
    section = promise_section(promise)
    person, limit = promise_of(loop.get("person_guarantee")), (loop.get("person") or {}).get("max_events")
    if person is not None and person.epsilon is not None:
        delta = f", delta {person.delta:.1g}" if person.delta else ""
        section.points.insert(
            0, f"For one person, who takes part at most {limit} time(s): epsilon {number(person.epsilon)}{delta}."
        )
    elif promise is not None:
        section.points.insert(0, NOT_LIMITED)
    return section


def _verifying(loop: dict[str, Any]) -> DocumentSection:
    return DocumentSection(
        "How to check this report",
        text=[
            "Everything above is what the service publishes. Its ledger can be checked over HTTP by whoever has a "
            "token with the role audit, or from a copy of the ledger file:"
        ],
        code=[
            f"curl -H 'Authorization: Bearer TOKEN' URL/v1/ledgers/{loop['ledger']}/verify",
            f"fairveil ledger verify ledgers/{loop['ledger']}.db",
            f"fairveil audit {loop['policy']['name']}",
        ],
    )


def _check_ledger(path: str, inside: str | None, checked: Report, policy: str) -> DocumentSection:
    name = f"DATABASE --ledger {inside}" if inside is not None else Path(path).name
    return DocumentSection(
        "How to check this report",
        text=["Numbers above were published through the ledger, which was checked before this was written:"],
        code=[f"fairveil ledger verify {name}", f"fairveil ledger show {name}", f"fairveil audit {policy}"],
        points=[
            f"Ledger {checked.ledger}, {checked.entries:,} entries, head {checked.head}.",
            f"Anchor: {checked.anchor}.",
            "An audit attacks the noise of the served code and fails if it is smaller than promised.",
        ],
    )
