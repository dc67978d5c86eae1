"""What waits in a loop that releases by arrival, by arm, and what is to be said about it: all of it public."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fairveil.bandits.estimates import Answers
from fairveil.bandits.forecast import MUCH_WAIT, allotted_equally, regret_after, waiting_in_words
from fairveil.bandits.forecast import TIME_TELLS as time_tells
from fairveil.bandits.lateness import ARRIVALS_IN_WORDS, Lateness
from fairveil.bandits.nash.arrivals import CAP, POOL, enough
from fairveil.bandits.nash.base import NashPolicy
from fairveil.bandits.nash.episodes import EpisodePolicy
from fairveil.bandits.nash.waiting import pools_of
from fairveil.bandits.protocol import Block
from fairveil.configuration import configuration, describe
from fairveil.errors import SpecError, at
from fairveil.fields import Count, Positive
from fairveil.loop.clock import SECOND, seconds_of
from fairveil.loop.facts import Facts, Status, counters
from fairveil.loop.play import ArmsPlay
from fairveil.loop.seats import decided_by_line
from fairveil.state import State

if TYPE_CHECKING:
    from fairveil.loop.loop import Loop

GUESS, DAY = 6, 86400
"""A window is guessed to be so many usual delays."""
LOOKED_AT = 101
"""Rewards by which the usual delay is judged."""
TIME_TELLS = time_tells.format(key="missing")
SILENT = (
    "more than a tenth of the rounds of an arm have no answer: its interval describes those who answered so far, the "
    "wider bounds hold whatever the others would say"
)
HELD_UP = "one missing answer holds up all arms until its window ends: a loop that releases by arrival does not wait"
OFTEN = 3
"""A window is long where it is so many times the usual delay."""


def who_answered(who: list[Answers] | None, arm: int, low: float, high: float) -> dict[str, Any]:
    """Who stands behind an arm's number, where that is public, and bounds that hold whatever the others would say."""
    if who is None:
        return {}
    answers = who[arm]
    wide = {"lowest": low + (high - low) * answers.lowest, "highest": low + (high - low) * answers.highest}
    return {"answered": answers.answered, "open": answers.open, "closed": answers.closed, **wide}


def rounds_of_arms(facts: Facts, state: State, round: int | None) -> tuple[Any, Any]:
    """Rounds of each arm in published blocks, and rounds that this loop decided: in open ones up to the present."""
    decided = np.array(state.get("played", state["counts"]), np.int64)
    if "given" in state:
        decided = decided_by_line(state, round)
    known = facts.policy.rounds_by_arm(state) if isinstance(facts.policy, NashPolicy) else None
    learned = decided.copy() if known is None else known
    for block in facts.policy.open_blocks(state):
        if block.arm >= 0 and block.reach is None and round is not None:
            decided[block.arm] -= block.stop - max(block.first, min(block.stop, round))
    before = facts.began[1:] or (0,)  # of the loop that it started from
    return learned, np.maximum(decided - before, 0)


def first_rounds(facts: Facts, state: State, round: int) -> tuple[int, ...]:
    """What a loop that starts from another one finds: the round at which it begins, and rounds of every arm."""
    arms = rounds_of_arms(facts, state, round)[1].tolist() if isinstance(facts.play, ArmsPlay) else []
    return round, *arms


def lines(facts: Facts, status: Status) -> list[dict[str, Any]] | None:
    """Of every arm (or of the line of candidates) rounds ``under_way``, of which ``answered`` wait for their release,
    which comes at the latest when they are ``due_at``; rounds that ``closed`` without an answer, where arrivals are
    public. None where blocks are released."""
    if not facts.by_seat:
        return None
    came, closed = counters(facts, status)
    names: list[int] | list[None] = list(range(facts.lines)) if facts.arrived is not None else [None]
    due: list[int | None] = [None] * facts.lines
    if facts.arrived is not None:
        decided, taken = decided_by_line(status.state, status.round), status.state["taken"]
        if isinstance(facts.policy, EpisodePolicy):
            shape, pools = facts.policy.shape(), pools_of(status.state)
            due = [int(enough(shape, *pair)) for pair in zip(pools.seats, pools.last, strict=True)]
    else:
        block = facts.policy.block(status.state)
        decided, taken = np.array([status.round]), came if block is None else np.array([block.first])
        due = [None if block is None else block.stop - block.first]
    under = decided - closed - taken
    return [
        {
            "action": name,
            "under_way": int(under[line]),
            "answered": int(came[line] - taken[line]),
            "due_at": due[line],
            "closed": int(closed[line]),
        }
        for line, name in enumerate(names)
    ]


def waiting(loop: Loop, status: Status) -> list[dict[str, Any]] | None:
    """The same with rounds of the loop ``since`` the last release fell due, None where there was none."""
    found = lines(loop.facts, status)
    if found is None:
        return None
    with loop.store.reading() as tx:
        query = "SELECT arm, max(reach) FROM blocks WHERE loop = ? AND status = 'released' GROUP BY arm"
        reach: dict[int, int] = dict(tx.execute(query, (loop.facts.id,)))
    for row in found:
        last = reach.get(-1 if row["action"] is None else row["action"])
        row["since"] = None if last is None else status.round - last
    return found


def ends(block: Block) -> dict[str, int]:
    """A block of rounds as a public table has it."""
    return {"first": block.first, "stop": block.stop}


def under_way(table: dict[str, Any]) -> int:
    """Rounds of a loop's public table that are decided and in no release, and may still be."""
    if table.get("waiting") is not None:
        return sum(row["under_way"] for row in table["waiting"])
    return sum(max(0, min(block["stop"], table["rounds"]) - block["first"]) for block in table["open_blocks"])


def learned_rounds(table: dict[str, Any]) -> int:
    """Rounds that stand behind the published numbers, those of a loop that it started from among them."""
    arms = table["published"].get("arms")
    if arms is not None:
        return sum(arm.get("learned", arm["rounds"]) for arm in arms)
    closed = sum(row.get("closed", 0) for row in table.get("waiting") or ())
    return int(table["rounds"] - under_way(table) - closed)


class Standing(NamedTuple):
    """Rounds of an arm by where they stand: ``given`` is the sum of the others, less what came from ``before``.

    ``waiting``: settled, for a release; ``open``: the window is open; ``closed``: never answered, or of
    another arm than the policy's own (apprentice mode); ``lost``: in a release that was lost, or under way when the
    store was put back, and where arrivals are hidden what would be closed.
    """

    given: int
    learned: int
    waiting: int
    open: int
    closed: int
    lost: int
    before: int


def standings(table: dict[str, Any]) -> list[Standing] | None:
    """Where the rounds of every arm of a loop's public table stand; None where arms are not public.

    Of loops that release blocks it is not known what waits and what is open: all of it is called waiting.
    """
    found = []
    for arm in table["published"].get("arms") or ():
        learned = arm.get("learned", arm["rounds"])
        given, closed = arm.get("decided", learned), arm.get("closed", 0)
        if table.get("waiting") is None:
            waiting, still = max(given - learned, 0), 0
        else:
            row = next(row for row in table["waiting"] if row["action"] == arm["action"])
            waiting, still = row["answered"], row["under_way"] - row["answered"]
        rest = given - learned - waiting - still - closed
        found.append(Standing(given, learned, waiting, still, closed, max(rest, 0), max(-rest, 0)))
    return found if "arms" in table["published"] else None


def whole(table: dict[str, Any]) -> Standing:
    """Where all rounds of a loop's public table stand, whether or not arms are public."""
    stand, rows = standings(table), table.get("waiting")
    if stand and rows is not None:
        return Standing(*map(sum, zip(*stand)))
    before = table.get("first_round", 0)
    given, learned = table["rounds"] - before, learned_rounds(table)
    learned -= 0 if stand else before
    under, closed = under_way(table), sum(row["closed"] for row in rows or ())
    waiting = under if rows is None else sum(row["answered"] for row in rows)
    rest = given - learned - under - closed
    return Standing(given, learned, waiting, under - waiting, closed, max(rest, 0), max(-rest, 0))


def standing_words(table: dict[str, Any], total: Standing) -> dict[str, str]:
    """What each field of a `Standing` counts in this loop, in the order in which they add up to what was given.

    Fields that say nothing here are left out: where arrivals are hidden nobody is told who answered, of candidates
    whoever is silent is learned too, and of loops that release blocks all that waits is one number.
    """
    seen, rows = table["reward"].get("missing") == "public", table.get("waiting")
    blocks, line = rows is None, rows is not None and rows[0]["action"] is None
    known = seen and not blocks and not line
    settled = "answered, waiting" if known else "settled, waiting" if seen else "window closed, waiting"
    words = {
        "learned": "answered and published" if known else "published",
        "waiting": "not released yet" if blocks else settled,
        "open": "" if blocks else "no answer yet" if seen else "window open",
        "closed": "never answered" if known else "never shown" if total.closed else "",
        "lost": "not learned" if total.lost else "",
        "before": "of these from before" if total.before else "",
    }
    return {key: said for key, said in words.items() if said}


def stands_in_words(table: dict[str, Any]) -> str:
    """Where all rounds stand, in one line."""
    total = whole(table)
    return "; ".join(f"{getattr(total, key):,} {words}" for key, words in standing_words(table, total).items())


def warnings(loop: Loop, status: Status) -> list[str]:
    """What an operator of a running loop should know about waiting; from public numbers alone."""
    facts = loop.facts
    if facts.arrived is None:
        return _of_blocks(loop) if facts.missing == "public" and not facts.by_seat else []
    state, found = status.state, []
    under = decided_by_line(state, status.round) - state["closed"] - state["taken"]
    first = facts.policy.shape().first if isinstance(facts.policy, EpisodePolicy) else 1
    for arm, name in enumerate(facts.arm_names):
        if state["came"][arm] == 0 and state["closed"][arm] >= 2 * first:
            found.append(f"nobody answers for {name}: {state['closed'][arm]} windows closed without an answer")
        elif state["seats"][arm] > 0 and under[arm] > CAP * state["seats"][arm]:
            found.append(f"{name} has {under[arm]} rounds under way and {state['seats'][arm]} published")
    who = facts.policy.answers(state) if facts.missing == "public" and isinstance(facts.policy, NashPolicy) else None
    if who is not None and any(one.many_silent for one in who):
        found.append(SILENT)
    return found


def _of_blocks(loop: Loop) -> list[str]:
    query = (
        "SELECT rewarded - decided FROM events WHERE loop = ? AND rewarded IS NOT NULL ORDER BY decided DESC LIMIT ?"
    )
    delays = sorted(delay for (delay,) in loop.store.read(query, (loop.facts.id, LOOKED_AT)) if delay is not None)
    slow = bool(delays) and loop.facts.wait > OFTEN * delays[len(delays) // 2]
    return [HELD_UP] if slow else []


# Before a loop exists -------------------------------------------------------------------------------------------------


@configuration
class Planned:
    """What is planned, for a quote: ``people`` in all, ``per_day`` of them, ``typical`` delay of an outcome."""

    people: Count
    per_day: Positive
    typical: str | None = None


def read_plan(table: Any) -> Planned | None:
    """A checked plan, where there is one."""
    if table is None:
        return None
    try:
        return Planned(**table)
    except SpecError as problem:
        raise at(problem, "plan") from None
    except TypeError:
        raise SpecError("this is a table", path="plan", allowed="people, per_day, typical") from None


def planned(facts: Facts, plan: Planned | None) -> dict[str, Any] | None:
    """What waiting will do to a plan: people who are decided for before anything counts, the average regret that this
    costs on a guess (plain arms), and sentences.

    Where arrivals are hidden both ways stand side by side as soon as a quarter of the plan would wait.
    """
    if plan is None:
        return None
    wait, guessed = facts.wait / SECOND / DAY, plan.typical is None
    typical = wait / GUESS if guessed else seconds_of(plan.typical or "", "plan.typical") / DAY
    window, usual = round(plan.per_day * wait), round(plan.per_day * typical)
    hidden = facts.missing != "public"
    late = Lateness("fixed", (float(usual),), window, treat="default" if hidden else "public")
    words, marked = waiting_in_words(late, plan.people, facts.by_seat, "missing"), ""
    own = _mode(facts, plan, facts.missing, window if hidden else usual)
    table: dict[str, Any] = {**own, "guessed": guessed and not hidden}
    if not hidden:
        marked = " (a guess: a sixth of the window; say plan.typical)" if guessed else ""
        words.append(
            f"a long window costs nothing: waiting is for the answers themselves, about {usual:,} people{marked}"
        )
    elif window > MUCH_WAIT * plan.people:
        table["either"] = [own, {**_mode(facts, plan, "public", usual), "guessed": guessed}]
    else:
        words.append(allotted_equally(window, plan.people))
    if facts.arrived is not None and isinstance(facts.policy, EpisodePolicy):
        answers = facts.lines * POOL * facts.policy.shape().first
        table["first_release"] = answers + table["people"]
        words.append(
            f"the first release comes after about {answers:,} answers and {table['people']:,} people; until something "
            "of an arm is published it gets at most its equal share"
        )
    return {**table, "words": words}


def _mode(facts: Facts, plan: Planned, missing: str, people: int) -> dict[str, Any]:
    """What one way of treating arrivals costs and makes public."""
    told = ARRIVALS_IN_WORDS["public"] if missing == "public" else "nothing about arrivals"
    table: dict[str, Any] = {"missing": missing, "people": people, "becomes_public": told}
    if isinstance(facts.policy, EpisodePolicy):
        hides = "private" if missing == "private" else "public"
        policy = describe(facts.policy)
        policy |= {"arrivals": hides} if "arrivals" in policy else {}
        table["average_regret"] = regret_after(policy, plan.people, people, missing)
    return table
