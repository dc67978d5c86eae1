"""A plan to hand in: what is expected of a trial, in people, before anybody is enrolled."""

from __future__ import annotations

from collections.abc import Sequence

from fairveil._version import __version__
from fairveil.bandits.quotes import Likely, Outlook, TrialPlan, in_millions
from fairveil.lab.handover.document import BandedLines, Document, DocumentSection, Stretch, TextGrid

GUESS = (
    "Simulated on declared guesses: {read}, and the figures are as good as the guesses. In brackets: the range of nine "
    "runs in ten behind numbers of people, a 95 % interval of the simulation behind chances. Best named: its estimate "
    "is the largest at the end. Separated: the stopping rule was sure enough to stop by then."
)
WIDTHS = (
    "Behind ±: half the width of the 95 % interval around an arm's published mean at the end, sampling and noise "
    "together, on average over the runs; an arm that few people get has a wide one."
)
NOBODY = "nobody's data were read"
ARMS_ONLY = "of the rows that the spec names the arms and their names were read and no outcome was used"
RULES = {
    "blocks": "It was simulated in blocks, which wait for every answer of a stretch: a loop that releases by arrival "
    "waits less, so these numbers are on the careful side.",
    "arrivals": "Estimates are those that are published when the last person is decided for: answers that come later "
    "are released when the trial is frozen or closed.",
}


def people(found: Likely) -> str:
    """A number of people with the range of nine runs in ten."""
    return f"{found.value:,.0f} ({found.low:,.0f}-{found.high:,.0f})"


def share(found: Likely) -> str:
    """A chance with its interval."""
    return f"{found.value:.0%} ({100 * found.low:.0f}-{100 * found.high:.0f})"


def in_words(plan: TrialPlan) -> str:
    """On what it was simulated: the guess, and how late answers are."""
    return f"{plan.guess}; with {plan.waiting}" if plan.waiting else plan.guess


def how_many(plan: TrialPlan, row: Outlook) -> str:
    return f"not within {in_millions(plan.longest)}" if row.needed is None else f"{row.needed:,}"


def grids(plan: TrialPlan) -> list[tuple[str, TextGrid]]:
    """The tables of a plan, with their titles."""
    asked = plan.asked
    arms = tuple((arm.name, f"{arm.guess:.3g}", people(arm.people), f"± {arm.half_width:.3f}") for arm in asked.arms)
    lead = f"people for a lead of {plan.difference:g}"
    shared = ("on a worse arm", "best named", "separated", "best arm")
    found = [
        (
            f"At epsilon {asked.epsilon:g} with {plan.people:,} people",
            TextGrid(("arm", "guessed mean", "people", "95 % interval"), arms),
        ),
        (
            f"By budget, {plan.people:,} people",
            TextGrid(
                ("epsilon", *shared, lead),
                tuple((f"{row.epsilon:g}", *_row(row), how_many(plan, row)) for row in plan.by_epsilon),
            ),
        ),
        (
            f"By people, epsilon {asked.epsilon:g}",
            TextGrid(("people", *shared), tuple((f"{row.people:,}", *_row(row)) for row in plan.by_people)),
        ),
    ]
    if plan.by_exploration:
        rows = tuple(
            (f"{row.exploration:g}", people(row.worse), share(row.separated), how_many(plan, row))
            for row in plan.by_exploration
        )
        head = ("exploration", "on a worse arm", "separated", lead)
        found.append((f"By exploration, epsilon {asked.epsilon:g}, {plan.people:,} people", TextGrid(head, rows)))
    return found


def _row(row: Outlook) -> tuple[str, ...]:
    best = max(row.arms, key=lambda arm: arm.guess)
    return people(row.worse), share(row.named), share(row.separated), f"± {best.half_width:.3f}"


def verdicts(plan: TrialPlan) -> list[str]:
    """The answers as sentences."""
    asked = plan.asked
    enough = how_many(plan, asked)
    reached = f"separated with chance {plan.chance:g} by {enough}"
    if asked.needed is None:
        reached = f"not separated with chance {plan.chance:g} {enough.removeprefix('not ')}"
    stop = f"half of the runs have stopped after {asked.stop:,} people" if asked.stop else "most runs never stop"
    return [
        f"{asked.worse.value:,.0f} of {plan.people:,} people get another arm than the best (nine runs in ten: "
        f"{asked.worse.low:,.0f} to {asked.worse.high:,.0f}); the best arm has the largest estimate at the end in "
        f"{share(asked.named)} of the runs.",
        f"Looked at after every release at level {plan.level:.0%}, the stopping rule has separated the best arm by the "
        f"end in {share(asked.separated)} of the runs and named a wrong one in {asked.wrong:.1%}; {stop}.",
        f"How many people are enough is asked for a lead of {plan.difference:g} over every other arm (option "
        f"--difference; the guess has a lead of {_lead(asked):.3g}). "
        f"A lead of {plan.difference:g} is {reached} people.",
        WIDTHS,
        *([f"All of this is with {plan.waiting}. {RULES[plan.release]}"] if plan.waiting else []),
    ]


def _lead(row: Outlook) -> float:
    """By how much the best arm of the guess is better than the next."""
    *others, best = sorted(arm.guess for arm in row.arms)
    return best - others[-1] if others else 0.0


def report_on_plan(plan: TrialPlan) -> Document:
    """The plan as a page."""
    asked, read = plan.asked, ARMS_ONLY if plan.recorded else NOBODY
    document = Document(
        title="Plan of a private trial",
        about=f"{plan.policy}, {plan.people:,} people, epsilon {asked.epsilon:g}; {in_words(plan)}.",
        banner=f"Simulated: a plan on declared guesses; {read}.",
        made=f"fairveil {__version__}; {plan.runs:,} runs of each setting",
    )
    document.figures += [
        ("people on a worse arm", f"{asked.worse.value:,.0f} of {plan.people:,}"),
        ("best arm named", f"{asked.named.value:.0%} of runs"),
        (f"people for a lead of {plan.difference:g}", how_many(plan, asked))
        if asked.needed is not None
        else ("sure enough to stop by the end", f"{asked.separated.value:.0%} of runs"),
    ]
    section = DocumentSection("What to expect", text=verdicts(plan), points=[GUESS.format(read=read)])
    warned = DocumentSection("What to think about first", points=[f"{w[:1].upper()}{w[1:]}." for w in plan.warnings])
    document.sections += [section, *([warned] if plan.warnings else [])]
    for title, grid in grids(plan):
        document.sections.append(DocumentSection(title, grids=[grid]))
    document.sections[-1].points.append(
        "Exploration gives worse arms more people, so that the difference can be shown to others; less of it serves "
        "the people in the trial."
    )
    document.sections.append(DocumentSection("In a picture", drawings=[_worse(plan), _chances(plan)]))
    return document


def _chances(plan: TrialPlan) -> BandedLines:
    rows = plan.by_people
    sizes = tuple(float(row.people) for row in rows)
    entries = [("best arm has the largest estimate", [row.named for row in rows])]
    entries.append(("stopping rule has separated it", [row.separated for row in rows]))
    return BandedLines("chance by number of people", "people", _curves(sizes, entries))


def _worse(plan: TrialPlan) -> BandedLines:
    sizes = tuple(row.epsilon for row in plan.by_epsilon)
    entries = [("people on a worse arm", [row.worse for row in plan.by_epsilon])]
    return BandedLines(f"people on a worse arm by epsilon, of {plan.people:,}", "epsilon", _curves(sizes, entries))


def _curves(x: tuple[float, ...], entries: Sequence[tuple[str, Sequence[Likely]]]) -> tuple[Stretch, ...]:
    return tuple(
        (
            name,
            x,
            tuple(one.value for one in found),
            tuple(one.low for one in found),
            tuple(one.high for one in found),
        )
        for name, found in entries
    )
