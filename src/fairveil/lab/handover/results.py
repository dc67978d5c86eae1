"""A report on a result of `fairveil.run`: what was released in it, and, where everything was simulated, what only a
simulation knows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Any

from fairveil import registry
from fairveil.bandits.task import APART, EVALUATION
from fairveil.errors import SpecError
from fairveil.lab.handover.classifiers import LAB, RAW, classified
from fairveil.lab.handover.document import Bars, Document, DocumentSection, TextGrid, estimates_section, number
from fairveil.lab.handover.ledgers import REPLAY, fairness_section, how_often
from fairveil.lab.handover.words import AUDIT, BARE, promise_section, public_section, unprotected_section
from fairveil.lab.plain import leaves, rule_in_words, task_in_words
from fairveil.privacy.guarantee import Guarantee

INVENTED = "Simulated: the people, the outcomes and the noise in this report are invented. It protects nobody."
EXACT = "Simulated: the people and the outcomes in this report are invented, and no noise is added. It protects nobody."
DRAWN = "Simulated: the people and the outcomes in this report are invented, only the noise is not. It protects nobody."
TOGETHER = "Simulated: the people and the outcomes in these runs are invented. They protect nobody."
GENERATED = (
    "On a generated data set: its people and their outcomes are invented, no row was recorded. It protects nobody."
)
STUDY = (
    "A study with seeded noise on recorded data: the noise can be computed again, so it protects nobody. Do not hand "
    'this out; run once with noise = "secure" for that.'
)
SAID = "Private: from noisy counts of the people it was fitted on, covered by the promise below; means over the runs."
HELD_OUT = (
    "They were counted on held-out people without noise, which no promise covers. A fitted estimator publishes rates "
    "by group from noisy counts: write_document(report_on_classifier(model), file) of fairveil.lab.handover."
)
SIMULATED = "Known because everything was simulated"
MOST_NUMBERS = 40


def report_on_result(result: dict[str, Any]) -> Document:
    """Say what a result holds that may be said."""
    for key in ("spec", "guarantee", "metrics", "meta"):
        if key not in result:
            raise SpecError(
                "this is not a result", path=key, allowed="what fairveil run --json prints", fix="run it again"
            )
    spec, metrics, meta = result["spec"], result["metrics"], result["meta"]
    promise = promise_of(result["guarantee"])
    real = is_real(result)
    document = Document(
        title=f"Report on a run: {subject(spec)}",
        about=run_in_words(spec),
        banner=banner_of(result),
        made=f"fairveil {meta['version']}; seed {meta['seed']}; noise {spec.get('noise', 'seeded')}",
    )
    document.figures += _figures(spec, metrics, promise)
    if spec["task"] == "bandit":
        document.sections += _bandit(spec, metrics)
    elif spec["task"] == "evaluate" and promise is not None:
        document.sections.append(_valued(spec, metrics["estimates"]))
    elif spec["task"] == "classify":
        document.sections += _classified(spec, metrics, promise, real)
    elif not meta.get("evaluation") and (promise is not None or real):
        document.sections.append(_numbers("What was found", metrics))
    if not real and spec["task"] != "classify":
        document.sections.append(_lab(metrics))
    document.sections += [
        _budget(metrics, promise),
        promise_section(promise),
        public_section(promise, decides=spec["task"] == "bandit"),
        unprotected_section(promise, decides=spec["task"] == "bandit"),
        _verifying(spec),
    ]
    return document


def promise_of(table: dict[str, Any] | None) -> Guarantee | None:
    """A guarantee out of a result."""
    if table is None:
        return None
    facts = {field.name: table[field.name] for field in fields(Guarantee) if field.name in table}
    facts["notes"] = tuple(note for note in table["notes"] if note not in (EVALUATION, APART))  # none is in a report
    return Guarantee(**facts)


def is_generated(result: dict[str, Any]) -> bool:
    """A generator drew the rows behind this result: the spec names it, or it stands for files that are not here."""
    spec = result["spec"]
    tables = [spec.get("data"), spec.get("dataset"), spec.get("sequence"), (spec.get("log") or {}).get("dataset")]
    named = {table.get("name") if isinstance(table, dict) else table for table in tables if table}
    return result["metrics"].get("real_data") is False or not named.isdisjoint(registry.names("generator"))


def is_real(result: dict[str, Any]) -> bool:
    """Records of people stand behind this result: its environment says so, or its numbers are marked."""
    if is_generated(result):
        return False
    if result["metrics"].get("evaluation") or result["meta"].get("evaluation"):
        return True
    table = result["spec"].get("environment")
    if isinstance(table, dict):
        return bool(registry.target_of("environment", table, "environment").recorded)
    return any(key in result["spec"] for key in ("data", "dataset", "log", "sequence"))


def banner_of(result: dict[str, Any]) -> str:
    """What has to stand above every number of a result: that it is simulated, or that nobody is protected."""
    if is_generated(result):
        return GENERATED
    if not is_real(result):
        noisy = INVENTED if result["meta"]["simulated"] else DRAWN
        return EXACT if result["guarantee"] is None else noisy
    replay = REPLAY if result["spec"]["task"] == "bandit" else ""
    if result["guarantee"] is None:
        return f"{BARE} {replay}".strip()
    return f"{STUDY if result['meta']['simulated'] else ''} {replay}".strip()


def banner_of_all(results: Iterable[dict[str, Any]]) -> str:
    """What has to stand above results that are shown together."""
    said = list(dict.fromkeys(map(banner_of, results)))
    if len(said) > 1 and {INVENTED, EXACT, DRAWN}.issuperset(said):
        return TOGETHER
    return " ".join(said)


def subject(spec: dict[str, Any]) -> str:
    """The policy or learner of a spec, or its task."""
    name = spec.get("policy", spec.get("learner", {}))
    return str(name.get("name", spec["task"])) if isinstance(name, dict) else str(spec["task"])


def run_in_words(spec: dict[str, Any]) -> str:
    """What was run, in a sentence."""
    how_often = f"{spec['runs']:,} run{'s' if spec['runs'] > 1 else ''}, seed {spec['seed']}"
    if spec["task"] != "bandit":
        each = spec.get("steps_per_year")
        years = f" ({spec['steps'] / each:g} years)" if each and spec.get("steps") else ""
        steps = f"{spec['steps']:,} steps{years}, " if spec.get("steps") else ""
        rule = f" under {said}" if (said := rule_in_words(spec)) else ""
        return f"{task_in_words(spec['task'])}{rule}: {steps}{how_often}."
    policy, world = spec["policy"]["name"], spec["environment"]["name"]
    return f"{spec['rounds']:,} decisions by the policy {policy} on {world}, {how_often}."


def _figures(spec: dict[str, Any], metrics: dict[str, Any], promise: Guarantee | None) -> list[tuple[str, str]]:
    found = []
    if "rounds" in spec:
        found.append(("decisions", f"{spec['rounds']:,}"))
    if "releases" in metrics:
        found.append(("releases", number(metrics["releases"])))
    if promise is not None and promise.epsilon is not None:
        found.append(("epsilon", number(promise.epsilon)))
        if promise.delta:
            found.append(("delta", f"{promise.delta:.1g}"))
    return found


def _bandit(spec: dict[str, Any], metrics: dict[str, Any]) -> list[DocumentSection]:
    family = registry.target_of("policy", spec["policy"], "policy").family or "nash"
    decided = DocumentSection("What was decided, and how often")
    if "pull_share" in metrics:
        names = metrics.get("arms") or [f"arm {arm}" for arm in range(len(metrics["pull_share"]))]
        rows = [
            (str(name), number(share * spec["rounds"]), f"{share:.1%}")
            for name, share in zip(names, metrics["pull_share"])
        ]
        decided.grids.append(TextGrid(("option", "decisions", "share"), tuple(rows)))
    else:
        decided.withheld.append(how_often(family))
    known = [estimates_section(metrics["estimates"])] if "estimates" in metrics else []
    return [decided, *known, fairness_section(family)]


def _classified(
    spec: dict[str, Any], metrics: dict[str, Any], promise: Guarantee | None, real: bool
) -> list[DocumentSection]:
    """What the fit says about itself, and what was counted on held-out people where these need no protection."""
    fairness, slack, found = spec["learner"].get("fairness", ""), spec["learner"].get("slack", 0.0), []
    if promise is not None and metrics.get("estimated"):
        found += classified(metrics["estimated"], fairness, SAID, slack)
        found[0].title = "What the fit says about itself"
    if real and promise is not None:
        found += [DocumentSection("Rates by group", withheld=[HELD_OUT])]
    else:
        counted = classified(metrics, fairness, RAW if real else LAB, slack)
        counted[0].title = counted[0].title if real else SIMULATED
        found += counted
    return found


def _valued(spec: dict[str, Any], estimates: dict[str, Any]) -> DocumentSection:
    """The private value of a rule: what the noisy sums say."""
    target = ", ".join(str(value) for value in spec["target"].values() if value is not None)
    outcome, low, high = (spec["log"][key] for key in ("outcome", "low", "high"))
    rows = [
        (name, number(found["value"]), f"{number(found['low'])} to {number(found['high'])}")
        for name, found in estimates.items()
    ]
    return DocumentSection(
        "What the rule would have earned",
        text=[
            f"Mean outcome ({outcome}, from {low:g} to {high:g}) of the rule: {target}. Computed from two noisy sums "
            "and nothing else."
        ],
        grids=[TextGrid(("estimator", "value", f"{spec['level']:.0%} interval, with the noise"), tuple(rows))],
        drawings=[
            Bars(
                f"mean {outcome}",
                tuple((name, found["value"], found["low"], found["high"]) for name, found in estimates.items()),
            )
        ],
    )


def _lab(metrics: dict[str, Any]) -> DocumentSection:
    section = _numbers(SIMULATED, metrics)
    section.marked = (
        "Lab numbers: they use true means and unreleased data, and do not exist for a study of real people."
    )
    return section


def _numbers(title: str, metrics: dict[str, Any]) -> DocumentSection:
    """Single numbers, and the last ones of courses over time."""
    skipped = ("estimates", "spent", "checkpoints", "evaluation", "lab", "pull_share", "arms")
    flat = dict(_flat({name: value for name, value in metrics.items() if name not in skipped}))
    rows = [
        (name.replace("_", " "), number(value))
        for name, value in flat.items()
        if not name.split(" ")[0].endswith("_std")
    ]
    return DocumentSection(title, grids=[TextGrid(("number", "value"), tuple(rows[:MOST_NUMBERS]))] if rows else [])


def _flat(metrics: dict[str, Any]) -> Iterator[tuple[str, float]]:
    for name, value in leaves(metrics, ", "):
        last = value[-1] if isinstance(value, list) and value else value
        if isinstance(last, int | float) and not isinstance(last, bool):
            yield name, float(last)


def _budget(metrics: dict[str, Any], promise: Guarantee | None) -> DocumentSection:
    section = DocumentSection("What was spent")
    if promise is None:
        section.text.append("Nothing: there is no privacy promise that could cost anything.")
        return section
    spent = {
        name: max(value) if isinstance(value, list) and value else value
        for name, value in metrics.get("spent", {}).items()
        if value not in (None, [])
    }
    shown = spent or {"epsilon": promise.epsilon, "delta": promise.delta}
    rows = [(name, f"{value:.4g}") for name, value in shown.items() if value]
    section.grids.append(TextGrid(("budget", "spent on one protected unit"), tuple(rows)))
    section.text.append(
        "This run is not tied to a ledger: whether the same data were used elsewhere does not show here."
    )
    return section


def _verifying(spec: dict[str, Any]) -> DocumentSection:
    section = DocumentSection("How to check this report")
    section.text.append("The result names its complete specification; the same software runs it again and attacks it:")
    name = subject(spec)
    section.code += ["fairveil run spec.toml", f"fairveil explain {name}"]
    if name == spec["task"]:
        return section
    section.code.append(f"fairveil audit {name}")
    section.points.append(AUDIT)
    return section
