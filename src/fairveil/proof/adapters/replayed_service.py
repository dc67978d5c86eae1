"""The service recorded and replayed: requests over HTTP, scheduled reports, a group that one person alone has.

Breaks behind it: who was over a limit took no place in reports, so that everybody behind stood in another report, and
how many they are was published exactly; how many events an erased person had stood in the trail; whether two rewards of
an event differ was a status in metrics; a row of a rare category is the one whose count everybody can check.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fairveil.loop import asked, trail
from fairveil.loop.loop import Loop
from fairveil.loop.places import Placing
from fairveil.loop.play import kept_choice
from fairveil.loop.public import counted, loop_table
from fairveil.proof.adapters.replayed_loop import _told
from fairveil.proof.adapters.served import BROKEN, Served, Step, equal_coins, waited
from fairveil.proof.engine.adapter import Checks, adapter
from fairveil.proof.engine.replay import Compared, compare
from fairveil.proof.laws import must
from fairveil.proof.mutants import Method, Mutant, function, in_function, in_method, method, together, twin
from fairveil.service.app import TOLD, Service, log
from fairveil.service.messages import Answer, Scope, refusal
from fairveil.service.metrics import Metrics

SAME = Compared(0.0, 0.0, ())
WAIT, ROUNDS, OWN = 60, 8, 3
LIMITED = {"person": {"max_events": 1}}
LOOP: dict[str, Any] = {
    "name": "trial",
    "policy": {"name": "private-nash", "arms": 2, "epsilon": 1.0},
    "reward": {"low": 0, "high": 1, "wait": f"{WAIT}s", "missing": "default"},
}
REPORTS: dict[str, Any] = {
    **LOOP,
    "groups": ["a", "b", "rare"],
    "explore": 0.9,
    "targets": [{"name": "uniform"}],
    "reports": {"every": 4, "epsilon": 0.5, "kinds": ["fairness"]},
}
EVENTS = "/v1/loops/trial/decisions"


def script(loop: dict[str, Any], person: str = "ann", group: str = "a", value: float = 1.0, *more: Step) -> list[Step]:
    """Decisions and their rewards over HTTP; the fourth is of that person, who may be the one of the first."""
    steps = [Step("POST", "/v1/loops", loop)]
    for event in range(ROUNDS):
        own, body = event == OWN, {"event_id": f"e-{event}", "subject": f"person of {event}"}
        if "groups" in loop:
            body["group"] = group if own else "ab"[event % 2]
        steps.append(Step("POST", EVENTS, body | ({"subject": person} if own else {}), own))
    for event in range(ROUNDS):
        sent = value if event == OWN else float(event % 3 == 0)
        steps.append(Step("POST", f"{EVENTS}/e-{event}/reward", {"value": sent}, event == OWN))
    return [*steps, *more, waited(WAIT + 1), Step("GET", "/v1/loops/trial"), waited(1)]


def between(one: list[Step], other: list[Step]) -> Compared:
    """Two scripts through the service, with everything that it says to others."""

    def path(folder: Path, world: int) -> dict[str, Any]:
        with equal_coins(), Served(f"sqlite:///{folder}/data/store.db") as served:
            served.run((one, other)[world])
            others = [f"e-{event}" for event in range(ROUNDS) if event != OWN]
            return served.channels("trial", others, [f"e-{OWN}"])

    return compare(path)


def one_reward(folder: Path) -> None:
    """A reward that is sent shows on no channel before its block is released, and then costs its event."""
    must(between(script(LOOP)[:-3], script(LOOP, value=0.0)[:-3]) == SAME, "a reward shows before it is released")
    found = between(script(LOOP), script(LOOP, value=0.0))
    must(found.within(epsilon=1.0), "a reward costs more than its event, or shows beside the noise")


def one_identity(folder: Path) -> None:
    """Who was over the limit moved everybody's place in reports: who somebody is costs one event of each release."""
    loop = {**REPORTS, **LIMITED}
    found = between(script(loop), script(loop, "person of 0"))
    must(found.within(epsilon=1.5), "who somebody is moves the places of others, or shows beside the noise")
    over = script(loop, "person of 0", "rare", 0.0)
    must(between(script(loop, "person of 0"), over) == SAME, "what is over the limit is reported")


def one_round(folder: Path) -> None:
    """Coins that explore take no round; who keeps an arm, is over the limit or excludes one took it all the same."""
    loop = {**LOOP, "person": {"max_events": 1, "sticky": True}, "explore": 0.9}
    for other in ("person of 0", "person of 1", "person of 2"):
        found = between(script(loop), script(loop, other))
        must(found.within(epsilon=1.0), "who somebody is changes the rounds of others")


def one_erasure(folder: Path) -> None:
    """How many events an erased person had was in the trail: it is told to who asked for it."""
    gone = Step("DELETE", "/v1/loops/trial/subjects", {"subject": "ann"}, own=True)
    found = between(script(LOOP, "bob", "a", 1.0, gone), script(LOOP, "ann", "a", 1.0, gone))
    must(found.within(epsilon=1.0), "an erasure costs more than an event, or shows beside the noise")


def a_rare_category(folder: Path) -> None:
    """A group that one person has is in every report or in none: it costs the report, and is listed all the same."""
    found = between(script(REPORTS), script(REPORTS, group="rare"))
    must(found.within(epsilon=0.5), "a group that one person has shows beside the noise")


def an_unforeseen_error(folder: Path) -> None:
    """Words of an error that nobody foresaw may be about a person: its kind alone is said, and to nobody else."""
    body = {"event_id": "e-x", "subject": "ann"}
    broken = [Step(BROKEN, EVENTS, body), Step(BROKEN, f"{EVENTS}/e-0/reward", {"value": 0.125})]
    other = [broken[0]._replace(body={**body, "subject": "eve"}), broken[1]._replace(body={"value": 0.75})]
    must(between(script(LOOP, "a", "a", 1.0, *broken), script(LOOP, "a", "a", 1.0, *other)) == SAME,
         "an error says what was sent")  # fmt: skip


def a_conflict(folder: Path) -> None:
    """Whether a second reward, or request, of an event is the first one again was a status in metrics and log."""
    reward, event = f"{EVENTS}/e-{OWN}/reward", {"event_id": f"e-{OWN}", "subject": "ann"}
    again = [Step("POST", reward, {"value": 1.0}, own=True), Step("POST", EVENTS, event, own=True)]
    one, other = script(LOOP, "ann", "a", 1.0, *again), script(LOOP, "eve", "a", 0.0, *again)
    must(between(one[:-3], other[:-3]) == SAME, "whether somebody sends the same again is told to others")


@twin
def _conflicts_told(original: Method, self: Service, scope: Scope, template: str, status: int, *given: Any) -> None:
    told = 409 if scope.pop(TOLD, None) is not None else status
    original(self, scope, template, told, *given)


@twin
def _says_words(original: Method, error: Exception, request: str = "") -> Answer:
    if type(error) is RuntimeError:
        error = asked.Invalid(str(error), path="body")
    made: Answer = original(error, request)
    return made


@twin
def _logs_words(original: Method, self: Service, error: Exception, request: str = "-") -> None:
    original(self, error, request)
    log.error("request %s: %s", request, error)


@twin
def _counts_rewards(original: Method, self: Metrics, service: Service) -> bytes:
    with service.store.reading() as tx:
        [(found,)] = tx.execute("SELECT coalesce(sum(reward), 0) FROM events")
    return bytes(original(self, service)) + f"fairveil_rewards {found}\n".encode()


@twin
async def _tagged(
    original: Method, self: Service, route: Any, names: Any, token: Any, scope: Scope, receive: Any, send: Any
) -> int:
    with self.store.reading() as tx:
        [(found,)] = tx.execute("SELECT coalesce(sum(reward), 0) FROM events")

    async def tagged(message: Any) -> None:
        tag = [(b"etag", f'"{found}"'.encode())] if "headers" in message else []
        await send({**message, "headers": [*message.get("headers", ()), *tag]})

    return int(await original(self, route, names, token, scope, receive, tagged))


@twin
def _names_people(original: Method, self: Loop, subject: str, actor: str = "local") -> int:
    found = int(original(self, subject, actor))
    self.writer.act(lambda batch: trail.note(batch.tx, batch.now, actor, "erased", self.name, {"events": found}))
    return found


@twin
def _without_places(original: Method, self: Placing, ask: Any, made: Any) -> None:
    if not self._over(ask):
        original(self, ask, made)


@twin
def _counts_blanks(original: Method, self: Placing, ask: Any, made: Any) -> None:
    self.counters.limited += self._over(ask)
    original(self, ask, made)


def _told_blanks(original: Method) -> Method:
    return lambda now: {**original(now), "limit": now.limited}


def _blank_content(original: Method) -> Method:
    return lambda self, ask, made, blank: original(self, ask, made, False)


@adapter("service-replayed")
def service_checks() -> Checks:
    """Requests over HTTP, reports and rare groups, recorded and replayed: `fairveil.service`."""
    return Checks(
        (one_reward, one_identity, one_round, one_erasure, a_rare_category, an_unforeseen_error, a_conflict),
        (
            Mutant("answers-counted", "a public table counts rewards of nobody's block",
                   in_function(loop_table, _told(loop_table))),
            Mutant("rewards-in-a-metric", "a metric adds up rewards that wait",
                   in_method(Metrics, "page", _counts_rewards)),
            Mutant("rows-in-a-head", "the head of an answer tells whether rows that wait have changed",
                   in_method(Service, "_cold", _tagged)),
            Mutant("words-of-an-error", "an answer holds the words of an error that nobody foresaw",
                   in_function(refusal, _says_words(refusal)), breaks="an_unforeseen_error"),
            Mutant("words-in-the-log", "a log holds the words of every error",
                   in_method(Service, "note", _logs_words), breaks="an_unforeseen_error"),
            Mutant("erased-in-the-trail", "the trail counts the events of an erased person",
                   in_method(Loop, "erase_subject", _names_people), breaks="one_erasure"),
            Mutant("limit-without-places", "who somebody is moves everybody behind into another report",
                   in_method(Placing, "decided", _without_places), breaks="one_identity"),
            Mutant("known-take-rounds", "who is known takes a round, where others take one now and then",
                   in_function(kept_choice, lambda batch, kept, ask, at: kept), breaks="one_round"),
            Mutant("blanks-told", "how many are over the limit is in a public table",
                   lambda _: together(method(Placing, "decided", _counts_blanks),
                                      function(counted, _told_blanks(counted))), breaks="one_identity"),
            Mutant("blanks-reported", "what is over the limit is reported",
                   in_method(Placing, "_content", _blank_content), breaks="one_identity"),
            Mutant("conflicts-told", "metrics and log say whether two rewards of an event differ",
                   in_method(Service, "told", _conflicts_told), breaks="a_conflict"),
            Mutant("groups-told", "exact counts of private groups stand beside a report",
                   in_function(asked.group_privacy, lambda facts: "public"), breaks="a_rare_category"),
        ),
    )  # fmt: skip
