"""The verbs of the service, written once: what to send, when to try again, what to make of the answer.

A verb is a generator without any input or output of its own. It yields a `Call` and is given the answer to it, or is
thrown the failure of its transport; it yields a `Pause` and is resumed after it; it returns what its caller gets. The
two clients (`fairveil.client.clients`) drive the same verbs, one blocking and one awaiting.
"""

from __future__ import annotations

import logging
import os
import random
import secrets
import threading
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar
from urllib.parse import quote as quoted

import httpx

from fairveil.client.problems import Problem, Unreachable, check_sendable, finite
from fairveil.errors import SpecError

log = logging.getLogger("fairveil.client")

AGAIN = (429, 503)
LONGEST = 5.0
"""Seconds of the longest pause between two attempts."""
PATIENCE = 60.0
"""Seconds in which attempts begin, unless told otherwise."""
SLOW = 75.0
"""Seconds for one attempt of a call that takes long: a little more than the service takes at most."""
SILENCE = 2.0
"""Seconds of trying after which a client says that it waits."""
FALLBACK = 2.0
"""Seconds in which attempts begin where a fallback is at hand."""


@dataclass(frozen=True)
class Call:
    """``slow``: may take long (creating a loop). ``patience``: seconds in which attempts begin, None: the client's.

    Every call may be repeated: the service answers the repeated one as it did, or would have done, the first.
    """

    method: str
    path: str
    body: Any = None
    slow: bool = False
    patience: float | None = None
    timeout: float = 10


class Pause(NamedTuple):
    """Seconds to wait before the verb goes on."""

    seconds: float


T = TypeVar("T")
Steps = Generator[Call | Pause, Any, T]


class Sender:
    """What the clients have in common: an address, a token, and how often a call is tried."""

    connection: ClassVar[Any]

    def __init__(
        self,
        url: str,
        token: str | None = None,
        timeout: float = 10,
        retries: int | None = None,
        patience: float = PATIENCE,
        **options: Any,
    ) -> None:
        if not url.lower().startswith(("http://", "https://")):
            raise SpecError("this is not an address of a service", path="url", given=url, allowed="http:// or https://")
        self.url, self.timeout, self.retries, self.patience = url, timeout, retries, patience
        self._http = self.connection(base_url=url, timeout=timeout, headers=token_of(token), **options)

    def _do(self, step: Call | Pause) -> Any:
        """One step of a verb: an attempt, or a pause; awaited where its client is."""
        raise NotImplementedError

    def send(self, call: Call) -> Steps[Any]:
        """Send a call until it is answered, and give the answer or raise its problem."""
        check_sendable(call.body)
        sent = replace(call, timeout=SLOW if call.slow else self.timeout)
        patience = self.patience if call.patience is None else call.patience
        began, attempt, said = time.monotonic(), 0, False
        while True:
            answer: httpx.Response | None = None
            last = asked = None
            more = SLOW if call.slow else 0.0
            try:
                quiet = SILENCE if said else max(began + SILENCE - time.monotonic(), SILENCE / 2)
                with self._speaking(sent, quiet):
                    answer = yield sent
            except httpx.TransportError as problem:
                last = type(problem).__name__
                more = 0.0 if isinstance(problem, httpx.ConnectError | httpx.ConnectTimeout) else more
            if answer is not None:
                if answer.status_code not in AGAIN:
                    return self._answered(answer)
                asked = answer.headers.get("retry-after")
            wait, spent = pause(attempt, asked), time.monotonic() - began
            if attempt == self.retries or spent + wait > patience + more:
                break
            if answer is None and not said and spent + wait >= SILENCE:
                longest = patience + more
                log.warning("waiting for %s: no answer yet (%s), tries for at most %.0f s", self.url, last, longest)
                said = True
            yield Pause(wait)
            attempt += 1
        if answer is not None:
            return self._answered(answer)
        raise Unreachable(
            "the service cannot be reached",
            path=self.url,
            given=f"{last}, {attempt + 1} attempts in {spent:.0f} s",
            fix=f"check the address; if none runs there, `fairveil serve` starts one and stays in its terminal"
            f"{_repeated(call)}",
        )

    @contextmanager
    def _speaking(self, call: Call, quiet: float) -> Iterator[None]:
        """Say that a call that may take long is under way, once, when it has been so for so many seconds."""
        words = "waiting for %s: it works on %s %s, which takes some seconds the first time (it compiles)"
        later = threading.Timer(quiet, log.warning, (words, self.url, call.method, call.path))
        later.daemon = True
        if call.slow:
            later.start()
        try:
            yield
        finally:
            later.cancel()

    def _answered(self, answer: httpx.Response) -> Any:
        """What was answered, or the problem that it is."""
        try:
            table = answer.json() if answer.content else None
        except ValueError:
            raise Unreachable(
                f"what answers at {self.url} is not fairveil",
                given=f"{answer.status_code} {answer.headers.get('content-type', 'of no type')}",
                allowed="answers in JSON",
                fix="check the address; another program may have the port that `fairveil serve` was to have",
            ) from None
        if answer.status_code >= 400:
            raise Problem(answer.status_code, table if isinstance(table, dict) else {})
        return table


C = TypeVar("C", bound=Sender)


class LoopPath(Generic[C]):
    """One loop of the service, reached through a client."""

    def __init__(self, client: C, name: str) -> None:
        self.client, self.name = client, name
        self._do = client._do
        self.fallen: set[str] = set()
        """Events that a fallback has answered: the service never heard of them."""

    def send(self, method: str, *parts: str, body: Any = None, **facts: Any) -> Steps[Any]:
        path = "/".join(["/v1/loops", *(quoted(part, safe="") for part in (self.name, *parts))])
        return self.client.send(Call(method, path, body, **facts))

    @property
    def subjects(self) -> Subjects:
        return Subjects(self)


class Subjects:
    """The people of a loop: ``loop.subjects.erase(subject)``."""

    def __init__(self, loop: Any) -> None:
        self.erase = loop.erase


# Verbs of a client ---------------------------------------------------------------------------------------------------


def loops(sender: Sender) -> Steps[list[dict[str, Any]]]:
    """What is public of all loops, with budget and last release; asked for in pages."""
    found: list[dict[str, Any]] = []
    while True:
        after = quoted(found[-1]["name"], safe="") if found else ""
        page = (yield from sender.send(Call("GET", f"/v1/loops?after={after}")))["loops"]
        if not page:
            return found
        found += page


def create(sender: Sender, name: str, **table: Any) -> Steps[dict[str, Any]]:
    """Create a loop; keys as in POST /v1/loops. The same one again gives the loop that there is."""
    return dict((yield from sender.send(Call("POST", "/v1/loops", {"name": name, **table}, slow=True))))


def quote(sender: Sender, name: str, **table: Any) -> Steps[dict[str, Any]]:
    """What a loop would cost; keys as in POST /v1/loops."""
    return dict((yield from sender.send(Call("POST", "/v1/quote", {"name": name, **table}, slow=True))))


def call(sender: Sender, call: Call) -> Steps[Any]:
    """Send a call until it is answered, and give the answer or raise its problem."""
    return (yield from sender.send(call))


# Verbs of a loop -----------------------------------------------------------------------------------------------------


def decide(
    place: LoopPath[Any], event: str | None = None, *, fallback: int | None = None, **request: Any
) -> Steps[dict[str, Any]]:
    """A decision. ``fallback``: the action to take when the service cannot be reached for two seconds, or is too busy;
    it is never learned."""
    made, patience = event or new_event_id(), None if fallback is None else FALLBACK
    given = {key: value for key, value in request.items() if value is not None}
    try:
        body = {"event_id": made, **given}
        reply = dict((yield from place.send("POST", "decisions", body=body, patience=patience)))
    except (Unreachable, Problem) as problem:
        if fallback is None or (isinstance(problem, Problem) and problem.status not in AGAIN):
            raise
        place.fallen.add(made)
        return _fallback_reply(made, fallback)
    return _named(reply, given)


def reward(place: LoopPath[Any], event: str, value: float) -> Steps[dict[str, Any]]:
    """What came of an event; that of a fallback is not sent."""
    if event in place.fallen:
        return {"event_id": event, "accepted": False, "learned": "never", "reason": "fallback"}
    return dict((yield from place.send("POST", "decisions", event, "reward", body={"value": finite(value)})))


def activate(place: LoopPath[Any], event: str) -> Steps[dict[str, Any]]:
    """A deferred decision was shown: from now on it counts."""
    return dict((yield from place.send("POST", "decisions", event, "activate")))


def decide_many(place: LoopPath[Any], requests: Iterable[dict[str, Any]]) -> Steps[list[dict[str, Any]]]:
    """Many decisions at once; each is a reply or a problem."""
    named = [{"event_id": new_event_id(), **request} for request in requests]
    found = (yield from place.send("POST", "decisions", "batch", body={"decisions": named}))["decisions"]
    return [_named(reply, request) for reply, request in zip(found, named, strict=True)]


def reward_many(place: LoopPath[Any], rewards: Iterable[tuple[str, float]]) -> Steps[list[dict[str, Any]]]:
    """Many rewards at once; each is a reply or a problem."""
    table = [{"event_id": event, "value": finite(value)} for event, value in rewards]
    return list((yield from place.send("POST", "rewards", "batch", body={"rewards": table}))["rewards"])


def event(place: LoopPath[Any], event: str) -> Steps[dict[str, Any]]:
    """The stored reply of an event and what became of its reward."""
    return dict((yield from place.send("GET", "decisions", event)))


def state(place: LoopPath[Any]) -> Steps[dict[str, Any]]:
    """What is public of the loop."""
    return dict((yield from place.send("GET")))


def budget(place: LoopPath[Any]) -> Steps[dict[str, Any]]:
    """What the loop's ledger holds, spent and left."""
    return dict((yield from place.send("GET", "budget")))


def set_mode(place: LoopPath[Any], mode: str) -> Steps[dict[str, Any]]:
    """Change who decides and whether is learned."""
    return dict((yield from place.send("PUT", "mode", body={"mode": mode})))


def release(place: LoopPath[Any], kind: str = "summary", **asked: Any) -> Steps[dict[str, Any]]:
    """A release by hand: ``summary`` is free; ``fairness`` and ``evaluation`` take a budget (``epsilon``, ``rho``).

    A report carries an id of the request, made here: a repeat gives what the first attempt made, and costs nothing.
    """
    named = {} if kind == "summary" else {"request_id": new_event_id()}
    return dict((yield from place.send("POST", "releases", body={"kind": kind, **named, **asked}, slow=True)))


def releases(place: LoopPath[Any]) -> Steps[list[dict[str, Any]]]:
    """All releases; free for ever."""
    return list((yield from place.send("GET", "releases"))["releases"])


def quote_release(place: LoopPath[Any], kind: str, **asked: Any) -> Steps[dict[str, Any]]:
    """What a release would cost and how sure it would be; ``half_width`` asks for the budget that it needs."""
    return dict((yield from place.send("POST", "budget", "quote", body={"kind": kind, **asked})))


def audit(place: LoopPath[Any], trials: int = 20_000) -> Steps[dict[str, Any]]:
    """Begin an audit of the loop's policy on made-up rows; `audits` says what became of it."""
    return dict((yield from place.send("POST", "audits", body={"trials": trials})))


def audits(place: LoopPath[Any]) -> Steps[list[dict[str, Any]]]:
    """All audits and what they found."""
    return list((yield from place.send("GET", "audits"))["audits"])


def erase(place: LoopPath[Any], subject: str) -> Steps[int]:
    """Erase a person's raw data; gives the number of events."""
    return int((yield from place.send("DELETE", "subjects", body={"subject": subject}))["events"])


def close_action(place: LoopPath[Any], action: str) -> Steps[None]:
    """Close an arm, for ever."""
    yield from place.send("DELETE", "actions", action)


def wait_release(
    place: LoopPath[Any], version: int, timeout: float = 60.0, every: float = 0.2
) -> Steps[dict[str, Any]]:
    """Wait until the policy has published at least this version; gives the state."""
    deadline = time.monotonic() + timeout
    while (found := (yield from state(place)))["version"] < version:
        if time.monotonic() > deadline:
            raise Unreachable(
                "no release came in time", given=found["version"], allowed=f"version {version}",
                fix="send more outcomes, or wait longer (timeout=); the loop's page says what it is waiting for",
            )  # fmt: skip
        yield Pause(every)
    return found


def close(place: LoopPath[Any]) -> Steps[None]:
    """End the loop; its ledger and releases stay."""
    yield from place.send("DELETE")


# What they are made of -----------------------------------------------------------------------------------------------


def new_event_id() -> str:
    """UUID version 7, made before the first attempt: every retry repeats it."""
    digits = ((time.time_ns() // 1_000_000).to_bytes(6, "big") + secrets.token_bytes(10)).hex()
    return (
        f"{digits[:8]}-{digits[8:12]}-7{digits[13:16]}-{'89ab'[int(digits[16], 16) & 3]}{digits[17:20]}-{digits[20:]}"
    )


def pause(attempt: int, asked: str | None) -> float:
    """Seconds before the next attempt: doubling, with jitter so that clients do not come back together."""
    floor = float(asked) if asked is not None and asked.isdigit() else 0.0
    share = random.random() / 2
    return max(min(floor, LONGEST / 1.5) * (1 + share), min(LONGEST, 0.1 * 2 ** min(attempt, 10)) * (1 - share))


def _named(reply: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    """A repeated request whose content the service has erased gets its name from the caller, who alone still has it."""
    candidates, action = request.get("candidates"), reply.get("action")
    if candidates and isinstance(action, int) and reply.get("action_id") is None:
        return {**reply, "action_id": candidates[action].get("id")}
    return reply


def _fallback_reply(event: str, action: int) -> dict[str, Any]:
    """What is played while the service cannot be reached: marked, and never learned."""
    return {
        "event_id": event,
        "action": action,
        "action_id": None,
        "propensity": 1.0,
        "round": None,
        "learning": "never",
        "reason": "fallback",
        "source": "fallback",
    }


def _repeated(call: Call) -> str:
    """What to know before a call is made again by hand: a decision and its reward go by their event id."""
    return "; a repeat with the same event id is safe" if call.method == "POST" and "/decisions" in call.path else ""


def token_of(given: str | None) -> dict[str, str]:
    token = given if given is not None else os.environ.get("FAIRVEIL_TOKEN")
    return {} if token is None else {"authorization": f"Bearer {token}"}
