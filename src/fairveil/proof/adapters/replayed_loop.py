"""A served loop recorded and replayed: what one person's events can be changed into, and what then shows.

Breaks behind it: one person at ten places of a request counted as one event (3.8 for a promise of 1); a store that was
put back learned the same events in three epochs (3 for 1); an event over its person's limit took no round, so that who
somebody is moved the rows of everybody behind them into other blocks (one unit a block, without end). Where arrivals
are public its reward counted as one that never came (infinite), and among candidates an event over the limit of one was
in the count of nobody, so that who that is decided about all others who came with somebody who came with them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fairveil import registry
from fairveil.errors import FairveilError
from fairveil.loop import blocks, pages, settle, upkeep
from fairveil.loop import writer as writing
from fairveil.loop.batch import Batch
from fairveil.loop.config import Person, Reward
from fairveil.loop.loop import Loop
from fairveil.loop.play import stand_in, stands_in
from fairveil.loop.public import loop_table, release_tables
from fairveil.loop.requests import Preparer
from fairveil.loop.store import Store
from fairveil.proof.adapters.loop import OF_ARRIVALS
from fairveil.proof.adapters.restored import Place
from fairveil.proof.engine.adapter import Checks, adapter
from fairveil.proof.engine.replay import Compared, compare, frozen, without_chance
from fairveil.proof.laws import must
from fairveil.proof.laws.sums import promised
from fairveil.proof.mutants import Method, Mutant, function, in_function, in_method, twin
from fairveil.randomness import generator

Script = list[tuple[str, Any]]
"""What happens: ("ask", [requests]) at once, ("reward", (event, value)), ("wait", seconds), ("show", event),
("erase", person), ("backup", None), ("restore", None)."""
NASH = {"policy": {"name": "private-nash", "arms": 2, "epsilon": 1.0}}
GREEDY = {
    "policy": {"name": "batched-private-fair-greedy", "epsilon": 1.0, "delta": 1e-6, "first_batch": 4, "bins": 8},
    "groups": ["a", "b"],
    "features": [{"name": "x", "low": -1.0, "high": 1.0}],
}
FAIRX: dict[str, Any] = {
    "policy": {"name": "batched-priv-fairx", "epsilon": 1.0, "delta": 1e-6, "horizon": 64,
               "schedule": {"name": "growing", "factor": 2.0, "first": 4}},
    "groups": GREEDY["groups"],
    "features": GREEDY["features"],
}  # fmt: skip
BLOCKS = {"policy": {**NASH["policy"], "release": "blocks"}}
ROUNDS, WAIT = 16, 60
ONCE, KEPT = Person(max_events=1), Person(sticky=True)


class ScriptedPlace(Place):
    """A store with one loop, a copy of it, and everything that is said to others than whose events are ``own``."""

    def __init__(self, folder: Path, spec: dict[str, Any], missing: Any, person: Person, own: frozenset[str]) -> None:
        super().__init__(folder)
        self.about = {**spec, "reward": Reward(0, 1, wait=f"{WAIT}s", missing=missing), "person": person}
        self.own = own
        self.said: dict[str, Any] = {"answers": {}}

    def made(self, store: Store) -> Loop:
        return store.create("trial", **self.about)

    def run(self, script: Script) -> dict[str, Any]:
        """All that is said, by channel."""
        parts: list[Script] = [[]]
        for step in script:
            parts[-1].append(step)
            if step[0] == "restore":
                parts.append([])
        for part in parts:
            with self.opened() as loop:
                for what, given in part:
                    self._take(loop, what, given)
                    self._public(loop)
            if part and part[-1][0] == "restore":
                self.put_back(everything=False)
        return {name: without_chance(said) for name, said in self.said.items()}

    def _take(self, loop: Loop, what: str, given: Any) -> None:
        """One step; a restore is done when the store is closed."""
        match what:
            case "ask":
                for request, reply in zip(given, loop.decide_many(given), strict=True):
                    self._say(request["event_id"], reply)
            case "reward":
                try:
                    self._say(given[0], loop.reward(*given))
                except FairveilError as problem:
                    self._say(given[0], problem)
            case "wait":
                self.clock.advance(given)
                loop.tick()  # whether or not it is due
            case "show":
                self._say(given, loop.activate(given))
            case "erase":
                loop.erase_subject(given)
            case "backup":
                upkeep.backup(loop.store, self.copy)

    def _say(self, event: str, words: Any) -> None:
        if event not in self.own:
            self.said["answers"].setdefault(event, []).append(str(words))

    def _public(self, loop: Loop) -> None:
        """All public tables, after every step."""
        self.said.setdefault("public", []).append([loop_table(loop), release_tables(loop)])
        self.said["ledger"] = [entry for entry in loop.ledger.entries() if entry["kind"] != "genesis"]


def between(
    one: Script,
    other: Script,
    own: str = "",
    spec: dict[str, Any] = NASH,
    missing: str = "default",
    person: Person = ONCE,
) -> Compared:
    """The two scripts, with the events in ``own`` (separated by blanks) answered to whom they concern alone."""
    mine = frozenset(own.split())

    def path(folder: Path, world: int) -> dict[str, Any]:
        with function(writing.coins, lambda: generator(5, "coins")):
            return ScriptedPlace(folder, spec, missing, person, mine).run((one, other)[world])

    return (frozen if spec is GREEDY else compare)(path)  # in its blocks a draw decides what is asked next


def asked(event: int, person: str = "", **more: Any) -> dict[str, Any]:
    return {"event_id": f"e-{event}", "subject": person or f"person of {event}", **more}


def script(rewards: dict[int, float | None] | None = None, people: dict[int, str] | None = None, *more: Any) -> Script:
    """Events that are asked one by one, answered, and waited for; another reward (None: none) or person for some."""
    given, names = rewards or {}, people or {}
    steps: Script = [("ask", [asked(event, names.get(event, ""))]) for event in range(ROUNDS)]
    for event in range(ROUNDS):
        value = given.get(event, float(event % 3 == 0))
        steps.append(("wait", 0) if value is None else ("reward", (f"e-{event}", value)))
    return [*steps, *more, ("wait", WAIT + 1), ("ask", [asked(99)]), ("wait", WAIT + 1)]


def one_reward(folder: Path) -> None:
    """A reward that is another one, is missing, or comes when others have come, costs its event and shows nowhere."""
    for value in (0.0, 0.5, None):
        found = between(script({3: 1.0}), script({3: value}), "e-3")
        must(found.within(epsilon=1.0), "a reward costs more than its event, or shows beside the noise")
    steps = script()
    first = next(place for place, step in enumerate(steps) if step[0] == "reward")
    late = [*steps[:first], *steps[first + 1 : -3], steps[first], *steps[-3:]]
    waits = [*steps[:first], ("wait", 20), *steps[first + 1 : -3], ("wait", 20), steps[first], *steps[-3:]]
    on_time = [*steps[:first], ("wait", 20), *steps[first:-3], ("wait", 20), *steps[-3:]]
    must(between(steps, late) == Compared(0.0, 0.0, ()), "the order in which rewards come shows")
    must(between(on_time, waits) == Compared(0.0, 0.0, ()), "when a reward comes shows")


def one_person(folder: Path) -> None:
    """Who somebody is moves no row of others: an event over the limit keeps its round, single or in a batch."""
    alone = script(people={3: "ann"})
    twice = script(people={3: "ann", 7: "ann"})
    must(between(alone, twice, "e-3 e-7").within(epsilon=1.0), "who somebody is moves the rows of others")
    batch: Script = [("ask", [asked(event) for event in range(ROUNDS)]), *alone[ROUNDS:]]
    both = [asked(event, "ann" if event in (3, 7) else "") for event in range(ROUNDS)]
    found = between(batch, [("ask", both), *alone[ROUNDS:]], "e-3 e-7")
    must(found.within(epsilon=1.0), "who somebody is in a batch moves the rows of others")
    over = script({7: 0.0}, {3: "ann", 7: "ann"})
    must(between(twice, over, "e-7") == Compared(0.0, 0.0, ()), "what is over the limit is learned")


def answered_in_public(folder: Path) -> None:
    """Where arrivals are public a reward that is not learned counts when it comes, and its value is in no release."""
    alone, twice = (script({7: 1.0}, {3: "ann", **more}) for more in ({}, {7: "ann"}))
    refused = [(what, [{**given[0], "exclude": [1]}] if _is(what, given, 7) else given) for what, given in alone]
    shown = [_deferred(steps, 7) for steps in (alone, twice)]
    late = [[*steps[:-3], ("wait", WAIT + 1), ("reward", ("e-7", 1.0)), *steps[-3:]] for steps in
            (script({7: None}, {3: "ann"}), script({7: None}, {3: "ann", 7: "ann"}))]  # fmt: skip
    gone = [[*steps[:-3], ("erase", "ann"), ("erase", "person of 7"), *steps[-3:]] for steps in (alone, twice)]
    pairs = [(alone, twice, KEPT), *((*two, ONCE) for two in ((alone, twice), (alone, refused), shown, late, gone))]
    for spec in (NASH, BLOCKS):
        for one, other, person in pairs:
            found = between(one, other, "e-3 e-7", spec, "public", person)
            must(found.within(epsilon=1.0), "that an event is not learned shows where arrivals are public")
        over = script({7: 0.0}, {3: "ann", 7: "ann"})
        found = between(twice, over, "e-7", spec, "public")
        must(found == Compared(0.0, 0.0, ()), "a value over the limit is in a release")


def apprentice(folder: Path) -> None:
    """A round that its caller took away is closed at once for everybody, whoever asks."""
    for missing, person in (("default", ONCE), ("public", ONCE), ("public", KEPT)):
        for baseline in (0, 1):
            worlds = [script({7: 1.0}, {3: "ann", **more}) for more in ({}, {7: "ann"})]
            one, other = ([_told_to(step, baseline) for step in steps] for steps in worlds)
            found = between(one, other, "e-3 e-7", {**NASH, "mode": "apprentice"}, missing, person)
            must(found.within(epsilon=1.0), "who somebody is shows in rounds that their caller took away")


def _told_to(step: tuple[str, Any], baseline: int) -> tuple[str, Any]:
    what, given = step
    return step if what != "ask" else (what, [{**one, "baseline": baseline} for one in given])


def _is(what: str, given: Any, event: int) -> bool:
    return what == "ask" and given[0]["event_id"] == f"e-{event}"


def _deferred(steps: Script, event: int) -> Script:
    """The same with a decision that is shown after its reward came."""
    made = [(what, [{**given[0], "defer": True}] if _is(what, given, event) else given) for what, given in steps]
    return [*made[:-3], ("show", f"e-{event}"), *made[-3:]]


def _candidates(event: int, *people: str, feature: float = 0.1) -> dict[str, Any]:
    rows = [{"group": "a", "features": [feature], "subject": person} for person in people]
    return {"event_id": f"e-{event}", "candidates": rows}


def queue(changed: dict[str, Any], at: int = 2) -> Script:
    """Events with candidates; one is changed."""
    requests = [_candidates(event, f"person of {event}") for event in range(6)]
    requests[at] = changed
    steps: Script = [("ask", [request]) for request in requests]
    rewards: Script = [("reward", (f"e-{event}", 1.0)) for event in range(6)]
    return [*steps, *rewards, ("wait", WAIT + 1)]


def candidates(folder: Path) -> None:
    """Ten places of one person were one event: they are refused, and shown to nobody else; one place costs one."""
    given, other = queue(_candidates(2, "ann")), queue(_candidates(2, "ann", feature=-1.0))
    must(between(given, other, "e-2", GREEDY) == Compared(0.0, 0.0, ()), "a candidate shows beside the noise")
    refused = queue({**_candidates(2, "ann"), "baseline": 7})
    many = queue(_candidates(2, *["ann"] * 10))
    found = between(refused, many, "e-2", GREEDY)
    must(found == Compared(0.0, 0.0, ()), "one person at many places shows to others")


def in_company(folder: Path) -> None:
    """Among candidates one event of somebody decides about the next that they are in, and about no other: who came with
    them is counted either way. Where rows are counted one that is not learned is a row as well."""

    def chain(first: str) -> Script:
        people = [(first,), *((f"p-{place}", f"p-{place + 1}") for place in range(11))]
        steps: Script = [("ask", [_candidates(event, *names)]) for event, names in enumerate(people)]
        rewards: Script = [("reward", (f"e-{event}", 1.0)) for event in range(len(people))]
        return [*steps, *rewards, ("wait", WAIT + 1), ("wait", 1)]

    policy = registry.build("policy", {**FAIRX["policy"], "agents": 1, "dimension": 1}, "policy")
    own, most = "e-0 e-1", promised(policy.running)
    for missing in ("default", "public"):
        found = between(chain("ann"), chain("p-0"), own, FAIRX, missing)
        must(found.within(mu=most), "one event of somebody decides about those of others")
        found = between(chain("ann"), chain("p-0"), own, GREEDY, missing)
        must(found == Compared(0.0, 0.0, ()), "who stands in an event shows in others")


def erased(folder: Path) -> None:
    """An erasure costs the events of one person, and is in no public table before its block is released."""
    gone = script(None, None, ("erase", "person of 3"))
    nobody = script(None, None, ("erase", "nobody"))
    must(between(nobody, gone, "e-3").within(epsilon=1.0), "an erasure costs more than an event, or shows")


def put_back(folder: Path) -> None:
    """A store that is put back learned its events again: over all epochs an event costs what was charged once."""

    def over(value: float) -> Script:
        first = script({3: value})
        again = [("ask", [asked(event)]) for event in range(ROUNDS)]
        rewards = [
            ("reward", (f"e-{event}", value if event == 3 else float(event % 3 == 0))) for event in range(ROUNDS)
        ]
        later = [*again, *rewards, ("wait", WAIT + 1), ("ask", [asked(199)])]
        return [
            ("backup", None),
            *first,
            ("restore", None),
            ("wait", 1),
            *later,
            ("restore", None),
            ("wait", 1),
            *later,
        ]

    must(between(over(1.0), over(0.0), "e-3").within(epsilon=1.0), "an event is learned again from a copy")
    alone, twice = (script({7: 1.0}, {3: "ann", **more}) for more in ({}, {7: "ann"}))
    again: Script = [("restore", None), ("wait", 1), ("ask", [asked(7, "bob")]), ("ask", [asked(98)])]
    one, other = ([("backup", None), *steps, *again] for steps in (alone, twice))
    found = between(one, other, "e-3 e-7", missing="public")
    must(found.within(epsilon=1.0), "a copy shows which events were learned")


def _arms_alone(original: Method) -> Method:
    return lambda facts, *given: None if facts.policy.arms is None else original(facts, *given)


def _if_learned(original: Method) -> Method:
    return lambda self, ask, learned: original(self, ask, learned) if self._blocked(ask) is None else None


@twin
def _open_for_known(original: Method, self: Batch, ask: Any) -> Any:
    choice, learn = original(self, ask)
    known = self._kept_arm(ask) is not None or self._blocked(ask) == "limit"
    return choice._replace(reason="limit") if known and choice.reason == "baseline" else choice, learn


def _learned_alone(facts: Any, driver: Any, epoch: int, block: Any) -> list[bytes]:
    number, where, values = blocks._rows(facts, epoch, block)
    with driver.reading() as tx:
        query = f"SELECT key FROM events WHERE {where} AND learn = 'pending' ORDER BY {number}"
        return [bytes(key) for (key,) in tx.execute(query, (*values, block.first, block.stop))]


def _of_the_learned(tx: Any, loop: int, low: int, high: int) -> int:
    query = (
        "SELECT round FROM events WHERE loop = ? AND round >= ? AND learn = 'pending' "
        "AND (rewarded IS NULL OR activated = 0) ORDER BY round LIMIT 1"
    )
    found = tx.execute(query, (loop, low))
    return int(found[0][0]) if found else high


@twin
def _told(original: Method, loop: Loop) -> Any:
    with loop.store.reading() as tx:
        rows = tx.execute("SELECT count(*) FROM events WHERE loop = ? AND reward > 0", (loop.facts.id,))
    return {**original(loop), "answered": rows[0][0]}


@adapter("loop-replayed")
def loop_checks() -> Checks:
    """A served loop, recorded and replayed: `fairveil.loop`."""
    return Checks(
        (one_reward, one_person, answered_in_public, apprentice, candidates, in_company, erased, put_back),
        (
            Mutant("limit-without-rounds", "who somebody is moves the rows of others into other blocks",
                   in_method(Batch, "_keeps_round", lambda _: lambda self, ask, choice: False),
                   breaks="one_person"),
            Mutant("over-unanswered", "a reward over its person's limit never comes, where arrivals are public",
                   in_function(stands_in, lambda facts, row: False), breaks="answered_in_public"),
            Mutant("row-left-out", "a row that is not learned is missing where rows are counted",
                   in_function(stand_in, _arms_alone(stand_in)), breaks="in_company"),
            Mutant("counted-if-learned", "who was with somebody over a limit is counted by another measure",
                   in_method(Batch, "_count", _if_learned), breaks="in_company"),
            Mutant("known-not-taken", "a round that its caller took away is closed for strangers alone",
                   in_method(Batch, "_choose", _open_for_known), breaks="apprentice"),
            *OF_ARRIVALS,
            Mutant("places-unchecked", "one person at many places of a request is taken",
                   in_method(Preparer, "_check_places", lambda _: lambda self, people: None),
                   breaks="candidates"),
            Mutant("pages-not-asked", "a copy learns events that were released",
                   in_method(pages.Pages, "among", lambda _: lambda self, tx, keys: frozenset()),
                   breaks="put_back"),
            Mutant("page-of-the-learned", "an event that was not learned takes a round once more in a copy",
                   in_function(blocks._keys, _learned_alone), breaks="put_back"),
            Mutant("unasked-settle", "a round that is not learned does not wait for its reward",
                   in_function(settle._answered, _of_the_learned), breaks="answered_in_public"),
            Mutant("answers-counted", "a public table counts rewards of nobody's block",
                   in_function(loop_table, _told(loop_table))),
        ),
    )  # fmt: skip
