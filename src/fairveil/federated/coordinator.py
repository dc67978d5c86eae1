"""The coordinator: who said what, in one order, on disk before it is passed on. It adds nothing and holds no secret.

Transport-free: `ask` gives the bytes for a party, `take` reads its answer, `tick` lets time pass. Everything it decides
(a synchronisation is complete, a union is fixed, a block is void) is a statement of its log, which every party follows
in order; after a restart it goes on from that file.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from fairveil.errors import FairveilError, InputError, PrivacyError
from fairveil.federated import secure_sum, wire
from fairveil.federated.journal import FolderLock, StatementLog, replace_file
from fairveil.federated.message import Message
from fairveil.federated.party import Receipt
from fairveil.federated.plan import Plan
from fairveil.federated.wire import Answer, LogPart, Statement, table, within

log = logging.getLogger("fairveil.federated")
KEPT_REFUSALS = 100
OPERATOR = b"operator"
NAMES, RETIRED = "parties.json", "retired"
HEADER_BYTES = 300
"""More than the header of any statement takes."""


class Coordinator:
    """Collects signed statements of all parties into one log, and says when a synchronisation is complete.

    A synchronisation closes with everybody, or, once ``timeout`` seconds have passed since its first message, with at
    least the quorum; who was missing is public. Bad statements are refused in fixed words, cost nothing and change
    nothing. Memory O(log); one fsync a statement.
    """

    def __init__(self, plan: Plan, folder: Path) -> None:
        plan.check_keys()
        self.plan, self.folder, self.kind = plan, Path(folder).resolve(), plan.made
        self._lock = FolderLock(self.folder)
        try:
            check_folder(self.folder, {"plan": plan.fingerprint(), "party": None})
            replace_file(self.folder / NAMES, json.dumps([member.name for member in plan.party]).encode())
            self.journal = StatementLog(self.folder / "log")
        except BaseException:
            self._lock.close()
            raise
        self.sync = 0
        self.met: set[int] = set()
        self.retired: set[int] = set()
        self.here: dict[str, dict[int, Statement]] = {}
        self.union: list[int] | None = None
        self.union_time = 0.0
        self.have: dict[int, int] = dict.fromkeys(range(len(plan.party)), 0)
        self.words: dict[int, str] = {}
        self.told: dict[int, dict[str, Any]] = {}
        self.refused: list[str] = []
        self._shown: dict[int, range] = {}  # entries that the last request to a party held
        self._said: dict[tuple[str, int, int], Statement] = {}
        self._since: float | None = None  # first statement of this synchronisation, on this process' clock
        for statement in self.journal.entries:
            self._apply(statement)

    # What people see ----------------------------------------------------------------------------------------------

    @property
    def complete(self) -> bool:
        """Whether all synchronisations of the plan are made."""
        return self.sync >= self.kind.syncs or len(self.present) < self.plan.least

    @property
    def present(self) -> list[int]:
        """Parties that have not left for good."""
        return [party for party in self.have if party not in self.retired]

    @property
    def finished(self) -> bool:
        """Whether everybody has the whole log, or had the time to fetch it."""
        late = [party for party in self.present if self.have[party] < len(self.journal.entries)]
        return self.complete and (not late or self._overdue)

    @property
    def awaited(self) -> list[int]:
        """Whom to ask: who has not said what comes next and can say it, or at the end has not stored all of the log."""
        return [party for party in self.present if self._missing(party)]

    def _missing(self, party: int) -> bool:
        if self.complete:
            return self.have[party] < len(self.journal.entries)
        if party not in self.met or len(self.met) < self.plan.least:
            return party not in self.met
        if self.union is not None and party not in self.union:
            return False
        return party not in self.here.get(self._next, {})

    @property
    def _next(self) -> str:
        """What is awaited now."""
        if self.plan.sums == "own":
            return wire.MESSAGE
        return wire.READY if self.union is None else wire.MASKED

    def status(self) -> dict[str, Any]:
        """Round, who is awaited, the last refusal: public facts for people."""
        names = [member.name for member in self.plan.party]
        missing = [names[party] for party in self.awaited]
        facts = {"plan": self.plan.fingerprint(), "run": self.plan.run, "sync": self.sync, "of": self.kind.syncs}
        done = {"complete": self.complete, "awaited": missing, "retired": [names[p] for p in sorted(self.retired)]}
        words = {names[party]: word for party, word in sorted(self.words.items()) if word}
        last = self.refused[-1] if self.refused else ""
        told = {names[party]: progress for party, progress in sorted(self.told.items())}
        return {**facts, **done, "entries": len(self.journal.entries), "refused": last, "words": words, "told": told}

    # What travels -------------------------------------------------------------------------------------------------

    def ask(self, party: int) -> bytes:
        """The request for a party: what it has not stored yet of the log."""
        first, room, entries = self.have[party], self.plan.most_bytes // 2, list[Statement]()
        for entry in self.journal.entries[first:]:
            room -= len(entry.content) + HEADER_BYTES
            if room < 0 and entries:
                break
            entries.append(entry)
        self._shown[party] = range(first, first + len(entries))
        return LogPart(self.plan.fingerprint(), first, len(self.journal.entries), tuple(entries)).to_bytes()

    def up_to_date(self, party: int) -> bool:
        """Whether a party knows what the last request showed it; or so little that it has to be asked anew."""
        return self.have[party] not in self._shown.get(party, ())

    def take(self, party: int, data: bytes, now: float = 0.0) -> Receipt:
        """Read a party's answer. What it says is checked, logged, and only then passed on to others."""
        try:
            answer = Answer.from_bytes(within(data, self.plan.most_bytes, "answer"))
        except FairveilError as problem:
            return self._refuse(problem.problem)
        if answer.plan != self.plan.fingerprint():
            return self._refuse("under another plan")
        if not 0 <= answer.have <= len(self.journal.entries):
            return self._refuse("from a party that knows another log")
        self.have[party], self.words[party] = answer.have, answer.word[:200]
        self.told[party] = answer.progress if len(json.dumps(answer.progress)) < 2000 else {}
        last = Receipt(True)
        for statement in answer.says:
            reason = self._problem(party, statement)
            if reason:
                last = self._refuse(reason)
            elif statement.place not in self._said:
                self._log(statement)
                self._since = now if self._since is None else self._since
        self._decide(now)
        return last

    def tick(self, now: float) -> None:
        """Let time pass: a synchronisation may close without those who are late."""
        self._now = now
        if self._since is not None:
            self._since = min(self._since, now)  # a clock that was set back begins to wait anew
        elif self.complete:
            self._since = now
        for place, member in enumerate(self.plan.party):
            if (self.folder / RETIRED / member.name).exists():
                self.retire(place)
        self._decide(now)

    _now = 0.0

    def retire(self, party: int) -> None:
        """A party that the operator knows to be gone for good. It can also say so itself."""
        if party not in self.retired:
            self._log(Statement(wire.RETIRE, party, self.sync, b"", signature=OPERATOR))
            self._decide(self._now)

    def told_to_retire(self, party: int) -> bool:
        """Whether the operator, and not the party, said that it is gone."""
        return any(said.by == party and said.signature == OPERATOR for said in self.journal.entries)

    def close(self) -> None:
        self.journal.close()
        self._lock.close()

    # Decisions ----------------------------------------------------------------------------------------------------

    def _problem(self, party: int, statement: Statement) -> str:
        """Why a statement is not taken; empty where it is, or was before."""
        if statement.by != party or statement.purpose not in wire.BY_PARTIES:
            return "from a stranger"
        if not statement.is_by(self.plan.party[party].signing_key, self.plan.fingerprint()):
            return "not signed by its sender"
        known = self._said.get(statement.place)
        if known is not None:
            return "" if known == statement else "replayed"
        if party in self.retired:
            return "from a party that has left"
        if statement.purpose in (wire.HELLO, wire.RETIRE):
            bare = not statement.content and not statement.union
            return "" if bare and 0 <= statement.sync <= self._latest(statement.purpose) else "of the wrong shape"
        if statement.sync != self.sync or self.complete:
            return "not awaited any more" if statement.sync < self.sync else "out of order"
        return self._misfit(statement)

    def _latest(self, purpose: str) -> int:
        """Hello is said once, at the beginning; leaving at whatever synchronisation a party knows of."""
        return 0 if purpose == wire.HELLO else self.sync

    def _misfit(self, statement: Statement) -> str:
        own = self.plan.sums == "own"
        if statement.purpose not in ((wire.MESSAGE,) if own else (wire.READY, wire.MASKED, wire.LOST)):
            return "of another kind of sums"
        if own:
            return message_problem(self.plan, statement)[0]
        if statement.purpose == wire.READY:
            return "after the union was fixed" if self.union is not None else secure_sum.ready_problem(statement)
        digest = self._digest()
        if digest is None or statement.by not in (self.union or ()) or statement.union != digest:
            return "for another union"
        if statement.purpose == wire.LOST:
            return "of the wrong shape" if statement.content else ""
        return secure_sum.masked_problem(statement, self.kind.numbers(self.sync))

    def _digest(self) -> str | None:
        if self.union is None:
            return None
        return secure_sum.union_digest([self.here[wire.READY][party] for party in self.union])

    @property
    def _overdue(self) -> bool:
        return self._since is not None and self._now - self._since >= self.plan.timeout

    def _decide(self, now: float) -> None:
        self._now = max(self._now, now)
        if self.complete:
            return
        said, wanted = set(self.here.get(self._next, {})), set(self.present)
        if self.union is not None:
            self._decide_union(said)
        elif said >= wanted or (self._overdue and len(said) >= self.plan.least):
            chosen = sorted(said & wanted) if self._next == wire.READY else sorted(said)
            if len(chosen) < self.plan.least:
                return
            if self._next == wire.READY:
                self._announce(wire.UNION, {"parties": chosen, "time": now})
            else:
                self._announce(wire.CLOSE, {"present": chosen})

    def _decide_union(self, said: set[int]) -> None:
        """A block of a union is complete, or void by a public rule; never at the timeout."""
        assert self.union is not None
        reason = ""
        if self.here.get(wire.LOST):
            reason = "lost"
        elif said >= set(self.union):
            self._announce(wire.CLOSE, {"present": self.union})
            return
        elif (set(self.union) - said) & self.retired:
            reason = "retired"
        elif self._now - self.union_time >= self.plan.void_after:
            reason = "overdue"
        if reason:
            self._announce(wire.VOID, {"reason": reason})

    def _announce(self, purpose: str, content: dict[str, Any]) -> None:
        self._log(Statement(purpose, wire.COORDINATOR, self.sync, json.dumps(content, sort_keys=True).encode()))

    def _log(self, statement: Statement) -> None:
        self.journal.append(statement)
        self._apply(statement)

    def _apply(self, statement: Statement) -> None:
        self._said[statement.place] = statement
        if statement.purpose == wire.HELLO:
            self.met.add(statement.by)
        elif statement.purpose == wire.RETIRE:
            self.retired.add(statement.by)
        elif statement.purpose == wire.UNION:
            content = table(statement.content)
            self.union, self.union_time = list(content["parties"]), float(content["time"])
        elif statement.purpose in (wire.CLOSE, wire.VOID):
            self.sync += 1
            self.here, self.union, self._since = {}, None, None
        else:
            self.here.setdefault(statement.purpose, {})[statement.by] = statement

    def _refuse(self, reason: str) -> Receipt:
        self.refused = [*self.refused[-KEPT_REFUSALS:], reason]
        log.warning("the coordinator refused a statement: %s", reason)
        return Receipt(False, reason)


def note_retired(folder: Path, party: str) -> None:
    """Note in the coordinator's folder that a party has left for good; it is taken up by the one that runs there."""
    names = json.loads((folder / NAMES).read_text())
    if party not in names:
        raise InputError("the plan has no party of this name", path="party", given=party, allowed=", ".join(names))
    (folder / RETIRED).mkdir(exist_ok=True)
    replace_file(folder / RETIRED / party, b"")


def message_problem(plan: Plan, statement: Statement) -> tuple[str, Message | None]:
    """Why the message in a statement cannot be believed (empty where it can), and the message."""
    try:
        message = Message.from_bytes(statement.content)
    except InputError:
        return "not a message", None
    if statement.union or message.to_bytes() != statement.content:  # one spelling: a longer one would fill the log
        return "of the wrong shape", None
    reason = plan.made.form(statement.sync).problem_with(message)
    time = plan.made.time(statement.sync)
    if not reason and (message.sender != statement.by or message.sync != statement.sync):
        reason = "from a stranger"
    if not reason and time is not None and message.round != time:
        reason = "not in the schedule"
    return reason, message


def check_folder(folder: Path, facts: dict[str, Any]) -> None:
    """Bind a folder to a plan and a party, for ever; that of another one is refused."""
    file = folder / "federation.json"
    if not file.exists():
        if (folder / "ledger.db").exists():
            raise PrivacyError(
                "this folder holds a ledger of another run", path=str(folder), fix="begin with an empty folder"
            )
        replace_file(file, json.dumps(facts, sort_keys=True).encode())
        return
    known = json.loads(file.read_text())
    if known != facts:
        what = "another party" if known.get("plan") == facts["plan"] else "another plan"
        raise PrivacyError(
            f"this folder belongs to {what}", path=str(folder), given=known.get("party") or "the coordinator",
            fix="give every party and every run a folder of its own",
        )  # fmt: skip
