"""The guided tour behind `make demo`: each family's problem solved privately, beside non-private and printed twins."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Column
from rich.table import Table as RichTable

from fairveil.fairness.notions import by_rule
from fairveil.lab.artefact import Chart, Picture, Results, Table, below, courses, labelled, last
from fairveil.lab.report import Section, write_report
from fairveil.running.engines import Engine
from fairveil.running.progress import Progress
from fairveil.running.runner import run_many
from fairveil.running.store import ResultStore


@dataclass(frozen=True)
class Chapter:
    """One problem: specs by label, the metric that answers it, and what to look for."""

    name: str
    title: str
    text: str
    metric: str
    specs: dict[str, dict[str, Any]]
    ours: str
    printed: str
    axis: str = "round"


ARMS = {"name": "bernoulli", "arms": 50, "low": 0.005, "high": 1.0, "means_seed": 42}
NASH = {"task": "bandit", "rounds": 100_000, "runs": 20, "seed": 1, "environment": ARMS}
CENSUS = {"task": "bandit", "rounds": 10_000, "runs": 3, "seed": 1, "environment": {"name": "synthetic-census"}}
AGENTS = {"task": "bandit", "rounds": 3_000, "runs": 3, "seed": 1, "environment": {"name": "exposure", "agents": 10}}

CHAPTERS = (
    Chapter(
        "trial",
        "A trial with 50 treatments: nobody should pay for learning",
        "Each patient's outcome is protected (pure epsilon = 0.2). Nash regret is the gap between the best "
        "treatment and "
        "the geometric mean of what patients could expect, so giving a few people almost nothing is expensive.",
        "nash_regret",
        {
            "not private: ncb": {**NASH, "policy": {"name": "ncb", "horizon": 100_000}},
            "not private: kl-ucb": {**NASH, "policy": {"name": "kl-ucb"}},
            "not private: thompson": {**NASH, "policy": {"name": "thompson"}},
            "as published: gdp-ncb": {
                **NASH,
                "policy": {"name": "gdp-ncb", "horizon": 100_000, "epsilon": 0.2, "variant": "figure"},
            },
            "ours: private-nash": {**NASH, "policy": {"name": "private-nash", "epsilon": 0.2}},
        },
        ours="ours: private-nash",
        printed="as published: gdp-ncb",
    ),
    Chapter(
        "screening",
        "A screening queue: candidates of four groups, ranked within their own group",
        "Features favour one group. The fair choice is the candidate with the best rank within the own group; "
        "fair regret "
        "counts how far below that the choices were. Each candidate is protected: ours with epsilon = 1, "
        "delta = 1e-5; the published one asks for epsilon = 15, delta = 0.1, and adds more noise than that needs.",
        "fair_regret",
        {
            "not private: fair-greedy": {**CENSUS, "policy": {"name": "fair-greedy"}},
            "as published: private-fair-greedy": {
                **CENSUS,
                "policy": {
                    "name": "private-fair-greedy",
                    "epsilon": 15.0,
                    "delta": 0.1,
                    "bound": 5.0,
                    "variant": "printed",
                },
            },
            "ours: batched-private-fair-greedy": {
                **CENSUS,
                "policy": {"name": "batched-private-fair-greedy", "epsilon": 1.0, "delta": 1e-5},
            },
        },
        ours="ours: batched-private-fair-greedy",
        printed="as published: private-fair-greedy",
    ),
    Chapter(
        "recommender",
        "Ten shops that learn together: exposure in proportion to merit",
        "Ten agents share noisy statistics only (epsilon = 2, delta = 0.1). Fairness regret is the distance between "
        "the exposure that items deserve and get. The published protocol adds far more noise than it needs.",
        "fairness_regret",
        {
            "not private: fed-fairx": {**AGENTS, "policy": {"name": "fed-fairx"}},
            "as published: priv-fairx": {
                **AGENTS,
                "policy": {"name": "priv-fairx", "epsilon": 2.0, "delta": 0.1, "variant": "printed"},
            },
            "ours: batched-priv-fairx": {
                **AGENTS,
                "policy": {"name": "batched-priv-fairx", "epsilon": 2.0, "delta": 0.1},
            },
        },
        ours="ours: batched-priv-fairx",
        printed="as published: priv-fairx",
    ),
)

PEOPLE = {
    "a": {
        "arrivals": 10_000.0,
        "qualified": 0.6,
        "features": {"0": ["truncnorm", 4.0, 5.0, -8.0, 19.0], "1": ["truncnorm", 20.0, 6.0, 5.0, 35.0]},
    },
    "b": {
        "arrivals": 10_000.0,
        "qualified": 0.4,
        "features": {"0": ["truncnorm", 8.0, 3.0, -6.0, 25.0], "1": ["truncnorm", 27.0, 6.0, 9.0, 43.0]},
    },
}
RULES = ("none", "simple", "dp", "eqloss")
LONGTERM = {
    by_rule(rule).words: {
        "task": "participation",
        "groups": PEOPLE,
        "fairness": rule,
        "steps": 60,
        "steps_per_year": 6.0,
    }
    for rule in RULES
}
YEARS = (
    "Ten years later (a decision every two months): who is still there?",
    "Two groups stay when they are judged well. Each rule changes who is left to be judged next.",
)


def _in_turn() -> dict[str, Any]:
    """All specs, the families in turn: workers that start together compile different engines, not the same one."""
    named = {chapter.name: chapter.specs for chapter in reversed(CHAPTERS)} | {"years": LONGTERM}
    piles = [[(f"{name}: {label}", spec) for label, spec in specs.items()] for name, specs in named.items()]
    return dict(one for turn in itertools.zip_longest(*piles) for one in turn if one is not None)


def tour(folder: Path, engine: Engine, console: Console, progress: Progress) -> Path:
    """Run all chapters, print the closing table, write the report; returns its path."""
    store = ResultStore(folder / "results")
    longest = max(len(word) for chapter in CHAPTERS for label in chapter.specs for word in label.split())
    closing = RichTable(
        Column("problem: metric", max_width=16), Column("policy", min_width=longest), "value",
        Column("guarantee", max_width=18), box=box.SIMPLE_HEAD, pad_edge=False, title="fairveil: the tour in one table",
    )  # fmt: skip
    sections = []
    for title, text in [*((chapter.title, chapter.text) for chapter in CHAPTERS), YEARS]:
        console.print(f"[bold]{title}[/]")
        console.print(f"  {text}")
    found = run_many(_in_turn(), engine=engine, store=store, progress=progress)
    for chapter in CHAPTERS:
        results = labelled(found, f"{chapter.name}: ")
        for label, result in results.items():
            closing.add_row(
                f"{chapter.name}: {chapter.metric}", label, f"{last(result, chapter.metric)[0]:.4g}", promise(result)
            )
        sections.append(_section(chapter, results))
    longterm = labelled(found, "years: ")
    for label, result in longterm.items():
        closing.add_row("ten years: share of group a", label, f"{_share(result)[-1]:.3f}", "")
    sections.append(_longterm_section(longterm))
    sections.append(_ledger_section(folder))
    console.print(closing)
    return write_report(sections, folder / "index.html", title="fairveil: a guided tour", lead=LEAD)


LEAD = (
    "Three decision problems solved privately and fairly, each beside its non-private and its published "
    "counterpart, and "
    "one long-term question. Everything here is simulated; the last section draws real noise under a ledger."
)


NOTHING = 5e-4
"""An epsilon that would be written as zero: the noise is so large that delta covers what is left of it."""


def promise(result: dict[str, Any]) -> str:
    """A guarantee in a few words; where the noise gives another epsilon than was asked for, both."""
    found = result["guarantee"]
    if found is None:
        return "none"
    numbers = f"eps {found['epsilon']:.3g}" + (f", delta {found['delta']:.0e}" if found["delta"] else "")
    if found["epsilon"] < NOTHING:
        numbers = f"so little that delta {found['delta']:.0e} alone covers it"
    if not found["established"]:
        return f"claimed {numbers}, not established"
    asked = result["spec"]["policy"].get("epsilon", found["epsilon"])
    return (
        numbers if f"{asked:.3g}" == f"{found['epsilon']:.3g}" else f"asked eps {asked:.3g}, its noise gives {numbers}"
    )


def _share(result: dict[str, Any]) -> list[float]:
    return [float(value) for value in result["series"]["share_a"]["y"]]


def _section(chapter: Chapter, results: Results) -> Section:
    curves = courses(results, chapter.metric)
    words = chapter.metric.replace("_", " ")
    chart: Picture = Chart(words, chapter.axis, words, curves, log_x=True)
    ours, theirs = chapter.ours.removeprefix("ours: "), chapter.printed.removeprefix("as published: ")
    text = f"{ours} (ours) is below {theirs} as published"
    better = below(text, "this tour", results[chapter.printed], results[chapter.ours], chapter.metric)
    promises = [(label, result["guarantee"]) for label, result in results.items() if result["guarantee"] is not None]
    return Section(
        chapter.name, chapter.title, text=[chapter.text], pictures=[chart], claims=[better], guarantees=promises
    )


def _longterm_section(results: Results) -> Section:
    curves = courses(results, "share_a")
    text = "Both groups arrive in equal numbers. A person stays with the probability of having been judged correctly."
    chart = Chart("share of group a among those who are left", "years", "share of group a", curves)
    return Section("ten-years", YEARS[0], text=[text], pictures=[chart])


def _ledger_section(folder: Path) -> Section:
    """One real release: charged and synced before its noise is drawn, read back afterwards."""
    from fairveil.ledger import Ledger, OneEvent, release_once
    from fairveil.ledger.account import adopted
    from fairveil.privacy.limits import Limit
    from fairveil.privacy.mechanisms import Laplace

    for old in folder.glob("ledger.db*"):
        old.unlink()
    count = Laplace(sensitivity=1.0, epsilon=0.5)
    with Ledger.create(folder / "ledger.db", limit=Limit.pure(1.0), unit="one visitor") as ledger:
        payer = OneEvent(ledger, count.event())
        first = adopted(release_once(payer, "monday", lambda noise: float(count.release(120.0, noise))))
        again = adopted(release_once(payer, "monday", lambda noise: 0.0))
    rows = (
        ("monday", first, "charged, synced, drawn, stored, published"),
        ("monday, asked again", again, "the stored value: nothing drawn, nothing spent"),
    )
    return Section(
        "ledger",
        "A release under the ledger",
        text=[
            "A count with secure noise from the operating system, pure epsilon = 0.5 out of 1.",
            SHOW.format(folder / "ledger.db"),
        ],
        pictures=[Table("Two requests for one block", ("block", "value", "what happened"), rows)],
    )


SHOW = "Look at it with: fairveil ledger show {}"
