"""A party at home: its folder, its lock, its ledger; bytes in, bytes out, saved before it answers.

The host follows the coordinator's log entry by entry and believes none of it: every statement must be signed by its
sender under this plan, every message must have the agreed form, every decision must follow from what was said.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fairveil.errors import FairveilError, PrivacyError
from fairveil.federated import wire
from fairveil.federated.coordinator import OPERATOR, check_folder, message_problem
from fairveil.federated.journal import FolderLock, replace_file
from fairveil.federated.message import Message
from fairveil.federated.plan import Plan, Worker
from fairveil.federated.secure_sum import KeyGone, SecureBlock, masked_content
from fairveil.federated.signing import SigningKey
from fairveil.federated.wire import Answer, LogPart, Statement, table, within
from fairveil.ledger import Ledger
from fairveil.ledger.values import decode, encode
from fairveil.privacy.limits import Limit
from fairveil.privacy.noise import Noise
from fairveil.storage.faults import point

log = logging.getLogger("fairveil.federated")
STOPPED = "stopped: see the log of this party"
RETIRED = "retired"


def leave(folder: Path) -> None:
    """Note in a party's folder that it leaves for good; `PartyHost` says so and nothing more."""
    replace_file(folder / RETIRED, b"")


class PartyHost:
    """One party of a plan, its data and its folder: `answer` turns a request into an answer.

    Guarantee: what leaves is a statement of the party, privatised, charged and stored before; asked again, it repeats
    what is stored. Errors leave as fixed words; their text goes to this party's own log. Receiving spends nothing.
    A folder that was put back to an older copy refuses as soon as the log shows what it does not remember to have said;
    with an ``anchor`` (a file outside of the folder and of its copies) it does not even open.
    Cost: one replaced state file an answer, and the ledger's commits.
    """

    def __init__(
        self,
        plan: Plan,
        name: str,
        source: str,
        folder: Path,
        key: SigningKey,
        *,
        noise_of: Callable[[int], Noise] | None = None,
        anchor: Path | None = None,
    ) -> None:
        plan.check_keys()
        self.plan, self.index, self.folder, self.key = plan, plan.index(name), Path(folder).resolve(), key
        if plan.party[self.index].signing_key != key.public:
            raise PrivacyError(
                "this is not the signing key of this party", path="key", given=name, fix="use the key of the plan"
            )
        self.noise_of, self.anchor = noise_of, anchor
        self._lock = FolderLock(self.folder)
        self.ledger: Ledger | None = None
        try:
            check_folder(self.folder, {"plan": plan.fingerprint(), "party": name})
            self._open(source)
        except BaseException:
            self.close()
            raise

    def _open(self, source: str) -> None:
        kind, simulated = self.plan.made, self.noise_of is not None
        unit = kind.guarantee().unit
        self.ledger = Ledger.create(
            self.folder / "ledger.db", limit=Limit.covering(kind.event()), anchor=self.anchor, simulated=simulated,
            unit=unit,
        )  # fmt: skip
        self.worker: Worker = kind.worker(self.index, source, self.ledger, self.folder, self.noise_of)
        self.position, self.met, self.said = 0, set[int](), set[str]()
        self.heard: dict[int, Message] = {}
        self.gone: set[int] = set()
        self.block = SecureBlock(self.plan, self.index, self.folder)
        self.pending: Statement | None = None  # said and not in the log yet: repeated until it is
        self.last_refusal = ""
        state = self.folder / "state"
        if state.exists():
            self._load(state.read_bytes())

    @property
    def party(self) -> Any:
        return self.worker.party

    @property
    def sync(self) -> int:
        """The synchronisation that is awaited."""
        return int(self.party.syncs)

    @property
    def finished(self) -> bool:
        """Whether this party has nothing more to say: all synchronisations are made, it left, or too many did."""
        left = len(self.plan.party) - len(self.gone) < self.plan.least
        return self.sync >= self.plan.made.syncs or self.index in self.gone or RETIRED in self.said or left

    # Requests -----------------------------------------------------------------------------------------------------

    def answer(self, data: bytes) -> bytes:
        """What this party says to a request. Whatever goes wrong leaves as a fixed word."""
        fingerprint = self.plan.fingerprint()
        try:
            request = LogPart.from_bytes(within(data, self.plan.most_bytes, "request"))
            if request.plan != fingerprint:
                return Answer(fingerprint, 0, word="refused: another plan").to_bytes()
            if request.first > self.position:
                return Answer(fingerprint, self.position).to_bytes()  # something was lost on the way
            self._follow(request)
            says = self._speak() if self.position >= request.total else []
            self._save()
        except FairveilError as problem:
            self.last_refusal = problem.problem
            log.warning("this party stopped: %s", problem)
            return Answer(fingerprint, self.position, word=f"refused: {problem.code}").to_bytes()
        except Exception:  # of whatever kind: a fixed word leaves, and nothing of a row
            log.exception("this party stopped")
            return Answer(fingerprint, self.position, word=STOPPED).to_bytes()
        point("host-answer")
        return Answer(fingerprint, self.position, tuple(says), progress=self.progress()).to_bytes()

    def progress(self) -> dict[str, Any]:
        """Public facts of how far this party is."""
        return {"sync": self.sync, **self.worker.progress()}

    def close(self) -> None:
        if self.ledger is not None:
            self.ledger.close()
        self._lock.close()

    # Following the log --------------------------------------------------------------------------------------------

    def _follow(self, request: LogPart) -> None:
        for place, entry in enumerate(request.entries, request.first):
            if place < self.position:
                continue
            self._check(entry)
            self._hear(entry)
            self.position = place + 1

    def _check(self, entry: Statement) -> None:
        """Refuse a log that holds what nobody said."""
        if entry.purpose in wire.BY_COORDINATOR or (entry.purpose == wire.RETIRE and entry.signature == OPERATOR):
            return
        known = 0 <= entry.by < len(self.plan.party)
        if not known or not entry.is_by(self.plan.party[entry.by].signing_key, self.plan.fingerprint()):
            raise PrivacyError("the log holds a statement that its sender did not sign", path="log")
        if entry.by == self.index:
            self._check_own(entry)

    def _check_own(self, entry: Statement) -> None:
        """Refuse numbers in the own name that this folder does not remember: it is older than what was sent."""
        released = entry.purpose in (wire.MESSAGE, wire.MASKED)
        other = self.pending is not None and self.pending.place == entry.place and self.pending != entry
        if other or (released and not self.party.released(entry.sync)):
            raise PrivacyError(
                "the log holds a statement in this party's name that its ledger does not know", path="log",
                given=f"{entry.purpose} of synchronisation {entry.sync}",
                fix="a party whose folder was lost or put back to an older copy is retired, and joins anew",
            )  # fmt: skip

    def _hear(self, entry: Statement) -> None:
        if self.pending is not None and entry.place == self.pending.place:
            self.pending = None
        if entry.purpose == wire.HELLO:
            self.met.add(entry.by)
        elif entry.purpose == wire.RETIRE:
            self.gone.add(entry.by)
        elif self.plan.sums == "secure":
            self._hear_secure(entry)
        elif entry.purpose == wire.MESSAGE:
            reason, message = message_problem(self.plan, entry)
            if reason or message is None:
                raise PrivacyError(f"the log holds a message {reason}", path="log")
            if entry.sync == self.sync:
                self.heard[entry.by] = message
        elif entry.purpose == wire.CLOSE:
            self._complete(self._list(entry, "present"))
        else:
            raise PrivacyError("the log holds a statement of another kind of sums", path="log", given=entry.purpose)

    def _hear_secure(self, entry: Statement) -> None:
        block = self.block
        if entry.sync != self.sync or entry.purpose == wire.MESSAGE:
            raise PrivacyError("the log holds a statement of another block", path="log", given=entry.purpose)
        if entry.purpose == wire.READY:
            block.hear_ready(entry)
        elif entry.purpose == wire.UNION:
            block.hear_union(self._list(entry, "parties"))
        elif entry.purpose == wire.MASKED:
            block.hear_masked(entry)
        elif entry.purpose in (wire.CLOSE, wire.VOID):
            self._end_block(entry)

    def _end_block(self, entry: Statement) -> None:
        union = self.block.union
        if union is None or (entry.purpose == wire.CLOSE and self._list(entry, "present") != union):
            raise PrivacyError("the coordinator ends a block that it did not begin", path="log")
        if entry.purpose == wire.CLOSE:
            total, rows = self.block.total(self.sync)
            self.party.take_sum(union, total, rows)
        else:
            self.party.void(union)
        if self.index in union:
            self.block.erase_key()
        self.block.start()

    def _list(self, entry: Statement, name: str) -> list[int]:
        """The parties that a decision of the coordinator names: known, in order, at least the quorum."""
        try:
            found = table(entry.content)[name]
            parties = [int(party) for party in found]
        except (ValueError, TypeError, KeyError):
            parties = []
        known = set(range(len(self.plan.party)))
        if entry.sync != self.sync or parties != sorted(set(parties) & known) or len(parties) < self.plan.least:
            raise PrivacyError(
                "the coordinator decided what does not follow from the plan", path="log", given=entry.purpose,
                allowed=f"the synchronisation that is awaited, with at least {self.plan.least} parties",
            )  # fmt: skip
        return parties

    def _complete(self, present: list[int]) -> None:
        if not set(present) <= set(self.heard):
            raise PrivacyError("the coordinator counts a party whose message is not in the log", path="log")
        self.party.catch_up([self.heard[party] for party in present])
        self.heard = {}

    # Speaking -----------------------------------------------------------------------------------------------------

    def _speak(self) -> list[Statement]:
        """All that is due and not in the log as far as this party knows it."""
        if (self.folder / RETIRED).exists():
            self.said.add(RETIRED)
            return [self._statement(wire.RETIRE, b"")] if self.index not in self.gone else []
        if self.index not in self.met:
            return [self._statement(wire.HELLO, b"", 0)]
        if len(self.met) < self.plan.least or self.index in self.gone:
            return []  # nothing is released before the quorum has agreed on this plan
        if self.pending is None or self.pending.sync < self.sync:
            self.worker.work()
            self.pending = self._message() if self.plan.sums == "own" else self._secure()
        return [] if self.pending is None else [self.pending]

    def _message(self) -> Statement | None:
        sync = self.sync
        if sync >= self.plan.made.syncs or not self.party.due() or self.index in self.heard:
            return None
        point("host-send")
        message = self.party.send(None if self.noise_of is None else self.noise_of(sync))
        return self._statement(wire.MESSAGE, message.to_bytes(), message.sync)

    def _secure(self) -> Statement | None:
        """Ready, or the masked numbers of the union that is fixed."""
        sync, block = self.sync, self.block
        if sync >= self.plan.made.syncs or not self.party.due():
            return None
        if block.union is None:
            return None if self.index in block.ready else self._statement(wire.READY, block.ready_for(sync))
        if self.index not in block.union or self.index in block.masked:
            return None
        point("host-contribute")
        try:
            found = self.party.contribute(block.union_for(sync), None if self.noise_of is None else self.noise_of(sync))
        except KeyGone:
            found = None
        block.erase_key()
        if found is None:
            return self._statement(wire.LOST, b"", union=block.digest)
        return self._statement(wire.MASKED, masked_content(found.rows, found.numbers), union=block.digest)

    def _statement(self, purpose: str, content: bytes, sync: int | None = None, union: str = "") -> Statement:
        made = Statement(purpose, self.index, self.sync if sync is None else sync, content, union)
        return made.signed(self.key, self.plan.fingerprint())

    # Files --------------------------------------------------------------------------------------------------------

    def _save(self) -> None:
        replace_file(self.folder / "state", encode({**self._facts(), "party": self.party.save()}).encode())

    def _facts(self) -> dict[str, Any]:
        assert self.ledger is not None
        return {
            "ledger": [self.ledger.known.ledger, self.ledger.known.sequence],
            "position": self.position,
            "met": sorted(self.met),
            "gone": sorted(self.gone),
            "said": sorted(self.said),
            "pending": None if self.pending is None else self.pending.to_bytes(),
            "block": self.block.facts(),
            "heard": [message.to_bytes() for message in self.heard.values()],
        }

    def _load(self, data: bytes) -> None:
        found: Mapping[str, Any] = decode(data.decode())
        assert self.ledger is not None
        if found["ledger"][0] != self.ledger.known.ledger or found["ledger"][1] > self.ledger.known.sequence:
            raise PrivacyError(
                "the ledger in this folder is another one than its state knows, or older", path=str(self.folder),
                fix="put the newest copy of the whole folder back, or retire this party",
            )  # fmt: skip
        self.position, self.met, self.gone = int(found["position"]), set(found["met"]), set(found["gone"])
        self.said, pending = set(found["said"]), found["pending"]
        self.pending = None if pending is None else Statement.from_bytes(pending)
        heard = [Message.from_bytes(content) for content in found["heard"]]
        self.heard = {message.sender: message for message in heard}
        self.block.load(found["block"])
        self.party.load(found["party"])
