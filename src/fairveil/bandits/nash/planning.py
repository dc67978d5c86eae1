"""Planning in people: runs on a declared guess, followed release by release, for several budgets and sizes, and where
the plan cannot work, what would: waiting, noise, silence, and too few people, each told from the others.

A run is simulated once, far beyond the planned number of people, and cut at every size that is asked for: a policy
without a horizon does the same with its first n people, however many follow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairveil import registry
from fairveil.arrays import Floats
from fairveil.bandits.environments.arms import BERNOULLI, ArmEnvironment
from fairveil.bandits.facts import settled_table
from fairveil.bandits.lateness import AT_ONCE, Lateness
from fairveil.bandits.nash.episodes import EpisodePolicy
from fairveil.bandits.nash.late import compiled_waits
from fairveil.bandits.nash.stopping import NEVER, Followed, Silence, follow
from fairveil.bandits.quotes import ArmOutlook, Likely, Outlook, TrialPlan, chance, in_millions
from fairveil.bandits.simulate import Case
from fairveil.configuration import describe
from fairveil.errors import SpecError

EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Budgets of the table beside the one that is asked for."""
SIZES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Numbers of people of the second table, relative to the one that is asked for."""
EXPLORATIONS = (2.0, 4.0, 8.0, 16.0)
"""Steps of the third table: more people on worse arms, and an earlier separation."""
LONGEST, WALKED = 1 << 21, 1 << 15
"""Runs go on to so many people: where a block or a stretch of answers is one draw, and where every answer has a wait of
its own; in worlds whose rewards are drawn one by one to `FURTHER` times the people of the plan, and never less."""
FURTHER = 8
SEED = 20_260
Say = Callable[[str], None]


@dataclass(frozen=True)
class PlanQuestion:
    """What a plan is asked: a policy over plain arms, the guessed world, how late rewards are, and the numbers."""

    policy: EpisodePolicy
    world: ArmEnvironment
    names: tuple[str, ...]
    people: int
    runs: int
    late: Lateness
    level: float
    silence: Silence

    @property
    def longest(self) -> int:
        least, policy = FURTHER * self.people, self.policy
        if not (self.world.laws.kind == BERNOULLI).all():
            return least
        walked = policy.released_by == "arrivals" and not compiled_waits(self.late, policy.arms).in_order
        return max(WALKED if walked else LONGEST, least)


@dataclass(frozen=True)
class PlanChoice:
    """What is varied in a plan: the budget, and how much the policy explores (None where it has no such number)."""

    epsilon: float
    exploration: float | None

    def words(self) -> str:
        return f"epsilon {self.epsilon:g}" + ("" if self.exploration is None else f", exploration {self.exploration:g}")


def outlook(
    question: PlanQuestion, choice: PlanChoice, people: int, runs: Sequence[Followed], needed: int | None
) -> Outlook:
    """What the runs say about a plan with so many people."""
    means, arms = question.world.true_means, len(question.names)
    best, count = set(np.flatnonzero(means == means.max()).tolist()), len(runs)
    on_arm = np.array([_people_by_arm(run, people, arms) for run in runs])
    ends = _ends(people, runs)
    halves = np.array([np.full(arms, 0.5) if rows is None else (rows[:, 2] - rows[:, 1]) / 2 for rows in ends])
    stops = np.array([run.stopped for run in runs])
    over = stops <= people
    wrong = sum(run.verdict not in best for run, done in zip(runs, over) if done)
    worse = people - on_arm[:, sorted(best)].sum(axis=1)
    middle = int(np.sort(stops)[(count - 1) // 2])
    return Outlook(
        epsilon=choice.epsilon,
        exploration=choice.exploration,
        people=people,
        arms=tuple(
            ArmOutlook(name, float(means[arm]), _span(on_arm[:, arm]), float(halves[:, arm].mean()))
            for arm, name in enumerate(question.names)
        ),
        worse=_span(worse),
        named=_named(question, people, runs),
        separated=chance(int(over.sum()), count),
        wrong=wrong / count,
        stop=middle if middle != NEVER else None,
        needed=needed,
    )


def _ends(people: int, runs: Sequence[Followed]) -> list[Floats | None]:
    """What every run has published when so many people were there."""
    return [run.rows[place] if (place := run.place(people)) >= 0 else None for run in runs]


def _named(question: PlanQuestion, people: int, runs: Sequence[Followed]) -> Likely:
    """How often the largest estimate is that of a best arm."""
    means = question.world.true_means
    best = set(np.flatnonzero(means == means.max()).tolist())
    hits = sum(rows is not None and _leader(rows) in best for rows in _ends(people, runs))
    return chance(int(hits), len(runs))


def _leader(rows: Floats) -> int:
    return -1 if np.isnan(rows[:, 0]).all() else int(np.nanargmax(rows[:, 0]))


def _people_by_arm(run: Followed, people: int, arms: int) -> Floats:
    starts = np.concatenate([[0], run.ends[:-1]])
    overlap = np.maximum(np.minimum(run.ends, people) - starts, 0)
    return np.bincount(run.played, weights=overlap.astype(np.float64), minlength=arms).astype(np.float64)


def _span(values: Floats) -> Likely:
    low, high = np.quantile(values, (0.05, 0.95))
    return Likely(float(values.mean()), float(low), float(high))


def simulate_plan(
    question: PlanQuestion, choice: PlanChoice, world: ArmEnvironment, say: Say, people: int | None = None
) -> list[Followed]:
    """All runs with one budget in one world, by the policy's own rule; ``people``: no longer than that."""
    more: dict[str, Any] = {} if choice.exploration is None else {"exploration": choice.exploration}
    table = {**describe(question.policy), "epsilon": choice.epsilon, **more}
    length = people or question.longest
    facts = world.facts(length) | question.late.facts()
    policy = registry.build("policy", settled_table("policy", table, facts), "policy")
    case = Case.of(policy, world, length, lateness=question.late, seed=SEED)
    found = []
    for run in range(question.runs):
        found.append(follow(case, question, policy, run))
        say(choice.words())
    return found


def choices(policy: EpisodePolicy) -> tuple[PlanChoice, list[PlanChoice], list[PlanChoice]]:
    """The budget that is asked for, all budgets of the table, and the steps of exploration at the asked one."""
    asked = PlanChoice(float(policy.epsilon), policy.exploration)
    budgets = [PlanChoice(epsilon, asked.exploration) for epsilon in sorted({*EPSILONS, asked.epsilon})]
    if asked.exploration is None:
        return asked, budgets, []
    steps = [PlanChoice(asked.epsilon, step) for step in EXPLORATIONS if step > asked.exploration]
    return asked, budgets, [asked, *steps]


def make_plan(question: PlanQuestion, *, difference: float, wanted: float, say: Say | None) -> TrialPlan:
    """The tables and the warnings; every choice is simulated in the guess and where the best arm leads by
    ``difference``."""
    asked, budgets, steps = choices(question.policy)
    tell = say or (lambda words: None)
    apart = _led_by(question.world, difference)
    played: dict[PlanChoice, list[Followed]] = {}
    needed: dict[PlanChoice, int | None] = {}
    for choice in dict.fromkeys((*budgets, *steps)):
        played[choice] = simulate_plan(question, choice, question.world, tell)
        stops = sorted(run.stopped for run in simulate_plan(question, choice, apart, tell))
        enough = stops[max(0, math.ceil(wanted * len(stops)) - 1)]
        needed[choice] = enough if enough <= question.longest else None

    def row(choice: PlanChoice, people: int = question.people) -> Outlook:
        return outlook(question, choice, people, played[choice], needed[choice])

    main = row(asked)
    sizes = sorted({max(1, round(question.people * factor)) for factor in SIZES})
    by_exploration = tuple(row(choice) for choice in steps)
    return TrialPlan(
        policy=question.policy.name,
        guess=f"simulated on a guess: {_in_words(question)}",
        people=question.people,
        runs=question.runs,
        level=question.level,
        difference=difference,
        chance=wanted,
        longest=question.longest,
        asked=main,
        by_epsilon=tuple(row(choice) for choice in budgets),
        by_people=tuple(row(asked, size) for size in sizes),
        by_exploration=by_exploration,
        warnings=tuple(cautions(question, main, by_exploration, difference, wanted, lambda: _at_once(question, asked))),
        waiting=question.late.words(),
        release=question.policy.released_by,
    )


def simulations(policy: EpisodePolicy, runs: int) -> int:
    """How many runs a plan plays, for a progress bar."""
    _, budgets, steps = choices(policy)
    return 2 * runs * len({*budgets, *steps})


def _in_words(question: PlanQuestion) -> str:
    pairs = zip(question.names, question.world.true_means)
    return ", ".join(f"{name} {mean:.3g}" for name, mean in pairs)


def _led_by(world: ArmEnvironment, difference: float) -> ArmEnvironment:
    """A world in which the best arm is better than every other by exactly ``difference``."""
    best = max(float(world.true_means.max()), difference)
    means = [best - difference] * world.arms
    means[int(world.true_means.argmax())] = best
    found: ArmEnvironment = registry.build("environment", {"name": "bernoulli", "means": means}, "environment")
    return found


def _at_once(question: PlanQuestion, choice: PlanChoice) -> float:
    """How often the same plan names the best arm if all answers come at once."""
    prompt = replace(question, late=AT_ONCE)
    runs = simulate_plan(prompt, choice, question.world, lambda words: None, question.people)
    return _named(prompt, question.people, runs).value


def guessed_world(guess: Any, arms: int | None = None) -> tuple[ArmEnvironment, tuple[str, ...]]:
    """The world of a guess, and what its arms are called: means by name, a list of means, or an environment's table.

    >>> guessed_world({"usual care": 0.4, "new drug": 0.55})[1]
    ('usual care', 'new drug')
    """
    names: tuple[str, ...] | None = None
    table: dict[str, Any]
    if isinstance(guess, Mapping) and "name" not in guess:
        names, table = tuple(map(str, guess)), {"name": "bernoulli", "means": list(guess.values())}
    else:
        table = dict(guess) if isinstance(guess, Mapping) else {"name": "bernoulli", "means": list(guess)}
    world = registry.build("environment", table, "guess")
    if not isinstance(world, ArmEnvironment) or world.recorded or not world.compiled:
        raise SpecError(
            "a plan is simulated on a guess, never on people's data",
            path="guess",
            given=table["name"],
            allowed='means by name, such as {"usual care": 0.4, "new drug": 0.55}, or bernoulli, mixed, extreme',
        )
    if arms is not None and world.arms != arms:
        raise SpecError(
            "the guess has another number of arms",
            path="guess",
            given=world.arms if names is None else ", ".join(names),
            allowed=f"{arms} arms",
            fix="give one mean for each arm of the policy",
        )
    return world, names or world.arm_names or tuple(f"arm {arm}" for arm in range(world.arms))


def plan(
    policy: Any,
    guess: Any,
    runs: int,
    *,
    people: int,
    difference: float,
    wanted: float,
    level: float,
    silence: Silence,
    feedback: Mapping[str, Any] | None,
    names: Sequence[str] | None = None,
    say: Say | None = None,
) -> TrialPlan:
    """`Policy.plan` for plain arms; see there."""
    if not isinstance(policy, EpisodePolicy):
        raise SpecError(
            "a plan follows a policy from release to release",
            path="policy.name",
            given=policy.name,
            allowed="private-nash, adap-ucb, local-nash, ldp-ucb",
            fix="quote says what other policies cost",
        )
    for path, number, low, high in (("difference", difference, 0, 1), ("chance", wanted, 0, 1), ("level", level, 0, 1)):
        if not low < number < high:
            raise SpecError("this is not a share", path=path, given=number, allowed="between 0 and 1, both excluded")
    for path, whole in (("people", people), ("runs", runs)):
        if whole < 1:
            raise SpecError("this is a number of at least one", path=path, given=whole, allowed="1, 2, ...")
    world, found = guessed_world(guess, policy.arms)
    late = Lateness.of(None if feedback is None else dict(feedback))
    late.check(policy)
    called = tuple(names) if names is not None else found
    question = PlanQuestion(policy, world, called, people, runs, late, level, silence)
    return make_plan(question, difference=difference, wanted=wanted, say=say)


SURE = 0.8
"""Below this chance to name the best arm a plan is warned about."""


def cautions(
    question: PlanQuestion,
    main: Outlook,
    steps: Sequence[Outlook],
    difference: float,
    wanted: float,
    at_once: Callable[[], float],
) -> list[str]:
    """Sentences; ``at_once``: how often the same plan names the best arm if all answers come at once."""
    people, late = question.people, question.late
    found = list(question.policy.quote(people).warnings)
    under_way = late.window if late.hidden else max(late.numbers)
    if under_way > people / 2:
        found.append(
            f"outcomes take {under_way:,.0f} further people and the plan has {people:,}: most of it is over before "
            "anything is learned; shorten the wait"
        )
    elif under_way > people / 4:
        found.append(f"the first {under_way:,.0f} people of {people:,} are allotted before anything is learned")
    means = np.sort(question.world.true_means)
    if len(means) > 1 and means[-1] == means[-2]:
        found.append("several arms are best in the guess: there is nothing to separate")
    elif main.named.value < SURE:
        found.append(_unsure(main.named.value, None if late == AT_ONCE else at_once()))
    if main.needed is not None and main.needed <= people:
        return found
    apart = f"with {people:,} people a difference of {difference:g} is not separated with chance {wanted:g}"
    if main.needed is not None:
        return [*found, f"{apart}: that needs {main.needed:,} people"]
    reached = f"{apart}: that is not reached within {in_millions(question.longest)} people"
    least = silence_hides(late) if question.silence == "any" and question.policy.shape().keep else 0.0
    reaching = [step for step in steps[1:] if step.needed is not None]
    better = min(reaching, key=lambda step: step.needed or 0, default=None)
    if difference <= least:
        reached += (
            f", because whoever never answers might have said anything: with {late.missing:.0%} silent the rule "
            f"separates no lead below {least:.2g}, however many take part"
        )
    elif better is not None:
        reached += (
            f", because worse arms get few people on purpose; exploration = {better.exploration:g} gives them "
            f"{better.worse.value:,.0f} instead of {main.worse.value:,.0f} and needs {better.needed:,}"
        )
    return [*found, reached]


def silence_hides(late: Lateness) -> float:
    """The largest lead that no number of people separates where a share m of the answers is left out for ever.

    The rule counts silent rounds of the best arm 0 and of others 1: (1 - m) lead - m is left, above 0 from m / (1 - m).

    >>> round(silence_hides(Lateness.of({"missing": 0.15})), 3), silence_hides(Lateness.of({"delay": 9}))
    (0.176, 0.0)
    """
    return 0.0 if late.hidden or not late.even else late.missing / (1 - late.missing)


def _unsure(named: float, at_once: float | None) -> str:
    """Why the best arm is not found: the same plan with answers at once tells waiting from noise."""
    said = f"the best arm has the largest estimate in {named:.0%} of the runs only"
    noise = "more noise and chance than the plan can carry; take more people or a larger epsilon"
    if at_once is None:
        return f"{said}: {noise}"
    said += f", and in {at_once:.0%} if answers came at once"
    if at_once - named > 1 - at_once:
        return f"{said}: waiting is the larger part; shorten it, or take more people"
    return f"{said}: {noise}"
