"""A report on a loop of the service: from its published tables, wherever they come from (the routes, or the store)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fairveil import registry
from fairveil._version import __version__
from fairveil.bandits.estimates import CONFIDENCE, Answers
from fairveil.bandits.exposure.estimated import TOGETHER
from fairveil.bandits.nash.base import MEAN_REWARD
from fairveil.bandits.nash.stopping import Separation
from fairveil.bandits.nash.stopping import words as verdict
from fairveil.errors import FairveilError, InputError
from fairveil.lab.handover.document import (
    STOOD_IN,
    Document,
    DocumentSection,
    TextGrid,
    briefly,
    estimates_section,
    number,
)
from fairveil.lab.handover.ledgers import budget_section, fairness_section, how_often, stopping_rule
from fairveil.lab.handover.registry_entry import Deployment
from fairveil.lab.handover.results import promise_of
from fairveil.lab.handover.stream_ledgers import cost
from fairveil.lab.handover.words import AUDIT, promise_section, public_section, unprotected_section
from fairveil.ledger.verify import Report, entries, verify
from fairveil.loop.public import public_view
from fairveil.loop.store import Store
from fairveil.loop.waiting import SILENT, Standing, learned_rounds, standing_words, standings, stands_in_words
from fairveil.privacy.guarantee import Guarantee

SIMULATED = "Simulated: this loop takes seeded noise. It protects nobody, and nothing in this report may be used as if."
WEIGHTS = "feature (what one more of it adds to the outcome)"
NO_CONSTANT = (
    "Weights are in the units of the declared features and outcomes. The model has no constant: unless a feature that "
    "is always 1 was declared, weights also carry what the outcome is anyway, and differ from slopes beside a constant."
)
HELD = (
    "All intervals of this table hold together, after every release at once. They hold privacy noise and outcomes that "
    "vary by a standard deviation of {std:g}, as declared (reward_std). Privacy noise in the products of features is "
    "counted as small beside them: intervals that are wide are rough, too."
)
LOOSE = (
    "The ledger adds up {currency}, and (epsilon, delta) in this table is what follows from that sum for noise of any "
    "kind. The promise below is smaller, epsilon {epsilon}: it follows from the noise that is drawn, at the same delta."
)
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
    policy = loop.facts.policy
    found = stopping_rule(policy, loop.status().state) if anytime else None
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


def report_on_loop(
    loop: dict[str, Any], budget: dict[str, Any], *, source: str, found: Separation | None = None,
    url: str = "URL", token: bool = False,
) -> Document:  # fmt: skip
    """What the published tables of a loop say. ``found``: the stopping rule, where it was used; ``url``: where the
    service is, for whoever checks; ``token``: whether it was asked with one.
    """
    for key in ("name", "policy", "guarantee", "rounds", "published", "open_blocks"):
        if key not in loop:
            raise InputError("this is not what a loop publishes", path=key, allowed="GET /v1/loops/{loop}")
    promise = promise_of(loop.get("total_guarantee") or loop["guarantee"])
    family = _family(loop["policy"])
    own, stand = loop["rounds"] - loop.get("first_round", 0), standings(loop)
    learned = learned_rounds(loop) - (loop.get("first_round", 0) if stand is None else 0)
    document = Document(
        title=f"Report on the decisions of {loop['name']}",
        about=f"From {source}; the loop was made on {loop['created'][:10]} and runs {loop['policy']['name']}.",
        banner=SIMULATED if loop.get("simulated") else "",
        made=f"fairveil {__version__}; loop {loop['name']}, version {loop['version']}",
    )
    document.figures += [
        *([("promise", cost(promise.epsilon, promise.delta or 0.0))] if promise and promise.epsilon else []),
        ("decided", f"{own:,}"),
        ("learned", f"{learned:,}"),
        *([("never answered", f"{sum(row.closed for row in stand):,}")] if stand and _seen(loop) else []),
        ("budget spent", briefly(budget["spent"])),
        ("budget in all", briefly(budget["limit"])),
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
        _decided(loop, family, own, stand),
        _known(loop, found),
        fairness_section(family),
        _spent(budget, promise),
        _promise(loop, promise),
        public_section(promise),
        unprotected_section(promise),
        _verifying(loop, url, token),
    ]
    return document


def _family(table: dict[str, Any]) -> str:
    try:
        return str(registry.target_of("policy", table, "policy").family or "nash")
    except FairveilError:  # a plug-in that is not loaded here
        return ""


def _decided(loop: dict[str, Any], family: str, own: int, stand: list[Standing] | None) -> DocumentSection:
    section = DocumentSection("What was decided, and how often")
    if stand is None:
        section.text.append(
            f"{own:,} rounds were decided: {stands_in_words(loop)}. Those that are published stand behind the numbers "
            "below; a release comes when outcomes are in or can come no more and enough are together."
        )
        section.withheld.append(how_often(family))
    else:
        _by_option(section, loop, own, [_called(arm) for arm in loop["published"]["arms"]], stand)
    beside = loop.get("decided", own) - own
    if beside > 0:
        section.text.append(
            f"{beside:,} further decisions were no rounds, and nothing is learned from them: a coin of the guard rails "
            "made them, or a mode that does not learn."
        )
    if own < loop["rounds"]:
        section.text.append(
            "What the loop had published that this one started from is in these numbers too; whoever had not answered "
            "when this one began counts as never answered."
        )
    if loop["mode"] != "online":
        section.points.append(f"The loop is in mode {loop['mode']} now.")
    return section


IN_BLOCKS = "Blocks are released whole: whoever never answered is among those of a released block."
HIDDEN = (
    "Who answered. Whether and when somebody did is protected in this loop: whoever is silent when the window closes "
    "is among those who are published, as the loop declares it (reward.missing)."
)

APPRENTICE = "Rounds in which apprentice mode showed another option than the policy's own count as never answered."


def _seen(loop: dict[str, Any]) -> bool:
    """Who answered is public, and counted by option."""
    return loop["reward"].get("missing") == "public" and loop.get("waiting") is not None


def _by_option(
    section: DocumentSection, loop: dict[str, Any], own: int, names: list[str], stand: list[Standing]
) -> None:
    """Where every round stands, by option; the columns of a row add up to what was given."""
    total = Standing(*map(sum, zip(*stand))) if stand else Standing(own, 0, 0, 0, 0, 0, 0)
    seen, blocks = loop["reward"].get("missing") == "public", loop.get("waiting") is None
    shown = standing_words(loop, total)
    if blocks:
        said = f"{total.learned:,} stand behind the published numbers and {total.waiting:,} are not released yet. "
        said += IN_BLOCKS if seen else ""
    elif seen:
        said = (
            f"{total.learned:,} answered and stand behind the published numbers; {total.waiting:,} answered and wait "
            f"until enough are together for a release; {total.open:,} have not answered yet; {total.closed:,} never "
            "answered, and their time is over."
        )
    else:
        said = (
            f"{total.learned:,} stand behind the published numbers; the time of {total.waiting:,} is over, and they "
            f"wait until enough are together for a release; the time of {total.open:,} still runs."
        )
    section.text.append(f"{own:,} rounds were decided: {said.strip()}")
    if total.lost:
        section.text.append(
            f"{total.lost:,} will never be learned: apprentice mode showed another option than the policy's own, their "
            "release was lost, or the store was put back meanwhile."
        )
    elif total.closed:
        section.points.append(APPRENTICE)
    rows = [
        (name, f"{row.given:,}", f"{row.given / max(total.given, 1):.1%}", *(f"{getattr(row, key):,}" for key in shown))
        for name, row in zip((*names, "all"), (*stand, total))
    ]
    section.grids.append(TextGrid(("option", "given to", "share", *shown.values()), tuple(rows)))
    if not seen:
        section.withheld.append(HIDDEN)


def _called(arm: dict[str, Any]) -> str:
    return str(arm.get("action_id") or f"option {arm['action']}")


def _known(loop: dict[str, Any], found: Separation | None) -> DocumentSection:
    arms, reward = loop["published"].get("arms"), loop["reward"]
    if arms is None:
        return _weighed(loop)
    names, bounds = [_called(arm) for arm in arms], [dict[str, Any]() for _ in arms]
    if found is None:
        rows = [[arm["mean"], arm["low"], arm["high"]] for arm in arms]
        notes = ["intervals hold sampling error and privacy noise together"]
        bounds = [{key: arm[key] for key in ("lowest", "highest") if key in arm} for arm in arms]
        notes += [SILENT] if any(_silent(arm) for arm in arms) else []
    else:
        low, span = reward["low"], reward["high"] - reward["low"]
        rows = [[None if np.isnan(value) else low + span * value for value in row] for row in found.rows.tolist()]
        notes = list(found.estimates().notes)
    items = [
        {"what": MEAN_REWARD, "name": name, "value": value, "low": below, "high": above, **wider}
        for name, (value, below, above), wider in zip(names, rows, bounds)
    ]
    level = CONFIDENCE if found is None else found.confidence
    section = estimates_section({"confidence": level, "items": items, "tables": [], "notes": notes})
    if section.grids:
        head = REWARDS.format(low=reward["low"], high=reward["high"])
        section.grids[0] = TextGrid((head, *section.grids[0].head[1:]), section.grids[0].rows)
    if found is not None:
        section.text.append(f"The stopping rule was used. {verdict(found, names)}")
    person = loop.get("person") or {}
    if found is not None or person.get("max_events") is not None or person.get("sticky"):
        section.text.append(STOOD_IN)
    return section


def _weighed(loop: dict[str, Any]) -> DocumentSection:
    """What a policy over candidates says of its features; weights of an exposure policy in the reader's words."""
    found = _restored(loop)
    held = HELD.format(std=loop["policy"].get("reward_std", 0.0))
    section = estimates_section({**found, "notes": [held if note == TOGETHER else note for note in found["notes"]]})
    if TOGETHER in found["notes"]:
        section.grids[0] = TextGrid((WEIGHTS, *section.grids[0].head[1:]), section.grids[0].rows)
        section.points.insert(0, NO_CONSTANT)
    return section


def _silent(arm: dict[str, Any]) -> bool:
    return "lowest" in arm and Answers(*(arm[key] for key in Answers._fields)).many_silent


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
    names |= {f"parameter {place}": one["name"] for place, one in enumerate(loop.get("features") or ())}
    found: dict[str, Any] = policy.estimates(state).to_dict(names)
    return found


def _spent(budget: dict[str, Any], promise: Guarantee | None) -> DocumentSection:
    rows = [
        ("limit", budget["limit"]),
        ("spent", budget["spent"]),
        ("reserved for releases under way", budget["reserved"]),
        ("left", budget["remaining"]),
        ("in all, at most", _both(budget["epsilon"], budget["delta"])),
        ("protected unit", budget["unit"] or "one unit, as its events define it"),
    ]
    section = DocumentSection(SPENT, grids=[TextGrid(("budget", ""), tuple(rows))])
    currency = budget["spent"].split()[0]
    if promise is not None and promise.epsilon and currency != "epsilon" and promise.epsilon < budget["epsilon"]:
        section.text.append(LOOSE.format(currency=currency, epsilon=number(promise.epsilon)))
    paid = [(account["name"], account["time"][:10], account["charge"]) for account in budget["accounts"]]
    if paid:
        section.grids.append(TextGrid(("paid for", "on", "charge"), tuple(paid)))
    return section


def _both(epsilon: float, delta: float | None) -> str:
    return f"epsilon {number(epsilon)}" + (f", delta {delta:.1g}" if delta else "")


def _promise(loop: dict[str, Any], promise: Any) -> DocumentSection:
    section = promise_section(promise)
    person, limit = promise_of(loop.get("person_guarantee")), (loop.get("person") or {}).get("max_events")
    if limit and person is not None and person.epsilon is not None:
        often = "once" if limit == 1 else f"{limit:,} times"
        promised = _both(person.epsilon, person.delta)
        section.points.insert(0, f"For one person, who takes part at most {often}: {promised}.")
    elif promise is not None:
        section.points.insert(0, NOT_LIMITED)
    return section


def _verifying(loop: dict[str, Any], url: str, token: bool) -> DocumentSection:
    shown = "-H 'Authorization: Bearer TOKEN' " if token else ""
    needed = "TOKEN is one" if token else "a service that has tokens wants -H 'Authorization: Bearer TOKEN', one"
    return DocumentSection(
        "How to check this report",
        text=[
            "Everything above is what the service publishes. Its ledger can be checked over HTTP while it runs "
            f"({needed} with the role audit), or in the folder of its store and of every copy of it:"
        ],
        code=[
            f"curl {shown}{url}/v1/ledgers/{loop['ledger']}/verify",
            f"fairveil ledger verify ledgers/{loop['ledger']}.db",
            f"fairveil audit {loop['policy']['name']}",
        ],
    )


def _check_ledger(path: str, inside: str | None, checked: Report, policy: str) -> DocumentSection:
    name = f"DATABASE --ledger {inside}" if inside is not None else Path(path).name
    return DocumentSection(
        "How to check this report",
        text=[
            "Numbers above were published through the ledger, which was checked before this was written. In the folder "
            "of the ledger, or beside a copy of it:"
        ],
        code=[f"fairveil ledger verify {name}", f"fairveil ledger show {name}", f"fairveil audit {policy}"],
        points=[
            f"Ledger {checked.ledger}, {checked.entries:,} entries, head {checked.head}.",
            f"Anchor: {checked.anchor}.",
            AUDIT,
        ],
    )
