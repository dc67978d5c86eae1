"""One node: its rows, its public state, its ledger. The consensus party of `fairveil.federated`.

A message is charged (the whole run at once), reserved, drawn, stored and only then sent. A node that is asked again, or
comes back from a crash, sends the stored message: no second look at the rows, no fresh noise. A message that was
reserved and not stored is lost: the node says so, its budget stays spent, and the others carry on by public rules. A
request under the same run id with another configuration, at another point or on other rows is refused.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fairveil.arrays import Floats
from fairveil.configuration import lasting
from fairveil.consensus.algorithm import Algorithm, Payload, Setting
from fairveil.consensus.rows import Rows
from fairveil.errors import InputError, PrivacyError
from fairveil.federated import Form, Inbox, Message, Party, Receipt
from fairveil.federated.journal import replace_file
from fairveil.federated.party import by_synchronisation
from fairveil.ledger import Account, Ledger, RunCost, release_once
from fairveil.ledger.values import decode, encode
from fairveil.privacy.noise import Noise

LARGEST = 1e15
"""No number in a message may be larger: sums over rows and noise stay far below."""


class Node(Party):
    """A party of a consensus run.

    Guarantee: that of the algorithm, for every row of this node, against everybody who sees all messages. Messages hold
    releases and public facts only. Without a ledger the node is a simulation: its noise comes from ``noise_of``. With
    one it keeps a salted digest of its rows in its own ``folder``.
    Cost: what the algorithm says, and two durable ledger commits a message.

    >>> from fairveil.consensus import PrivateAdmm, Setting, make_graph
    >>> from fairveil.privacy.noise import SeededNoise
    >>> setting = Setting(make_graph("ring", 2), (2, 1), 1, 1, 1)
    >>> algorithm = PrivateAdmm(epsilon=1.0, rounds=1).complete(setting)
    >>> node = Node(algorithm, setting, 0, Rows.dense([[1.0], [0.5]], [1, -1]), noise_of=lambda t: SeededNoise(1, t))
    >>> message = node.send()
    >>> sorted(message.payload), node.send() is message
    (['m', 'v'], True)
    """

    def __init__(
        self,
        algorithm: Algorithm,
        setting: Setting,
        index: int,
        rows: Rows,
        *,
        run: str = "run",
        ledger: Ledger | None = None,
        folder: Path | None = None,
        noise_of: Callable[[int], Noise] | None = None,
    ) -> None:
        self.algorithm, self.setting, self.index, self.rows = algorithm, setting, index, rows
        self.run, self.ledger, self.noise_of = run, ledger, noise_of
        self._check(folder)
        self.total = algorithm.iterations(setting)
        self.lost: list[int] = []
        self._promise = self._under()
        self._met = False
        self._restart()

    def _restart(self) -> None:
        self.local = self.algorithm.local(self.setting, self.index)
        self._inbox = Inbox(self.index, self.setting.nodes)
        self._sync = 0
        self.absent: set[int] = set()
        self._log: list[Any] = []  # bytes of messages, tables of what happened between them
        self.local.hear(1, {}, frozenset())

    def _check(self, folder: Path | None) -> None:
        expected = self.setting.sizes[self.index]
        if len(self.rows) != expected or self.rows.width != self.setting.width:
            raise InputError(
                "the rows are not those that were announced", path=f"node {self.index}",
                allowed=f"{expected} rows of {self.setting.width} columns",
            )  # fmt: skip
        if self.ledger is None:
            return
        promise = self.algorithm.guarantee(self.setting)
        if promise is None or not promise.established:
            raise PrivacyError(
                "a ledger releases nothing without an established guarantee", path="algorithm",
                given=self.algorithm.name, fix="use private-admm, or a sound private variant",
            )  # fmt: skip
        if folder is None:
            raise InputError(
                "a node with a ledger needs a folder of its own", path="folder", allowed="a private folder"
            )
        remember_rows(Path(folder), self.run, self.rows)

    def _under(self) -> dict[str, Any]:
        promise = self.algorithm.guarantee(self.setting)
        return {"plan": self.fingerprint, "promise": None if promise is None else promise.to_dict()}

    @property
    def fingerprint(self) -> str:
        """Of everything public: another plan has another one."""
        facts = {"run": self.run, "algorithm": lasting(self.algorithm), "setting": self.setting.facts()}
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    def introduction(self) -> dict[str, Any]:
        """What a node says before anything is released: its plan and how many rows it has. Public."""
        return {"node": self.index, "plan": self.fingerprint, "rows": len(self.rows)}

    def meet(self, introductions: Iterable[Mapping[str, Any]]) -> None:
        """Compare plans and row counts with everybody's; nothing is released before all agree."""
        seen = {}
        for other in introductions:
            node = other.get("node")
            if other.get("plan") != self.fingerprint:
                raise PrivacyError(
                    "a node runs another plan", path="plan", given=f"node {node}",
                    allowed="one run id, algorithm, graph and list of row counts for all", fix="compare the specs",
                )  # fmt: skip
            sizes = dict(enumerate(self.setting.sizes)) if isinstance(node, int) and not isinstance(node, bool) else {}
            if node not in sizes or other.get("rows") != sizes[node]:
                raise PrivacyError(
                    "a node has another number of rows than announced", path="rows", given=f"node {node}"
                )
            seen[node] = True
        missing = sorted(set(range(self.setting.nodes)) - set(seen) - {self.index})
        if missing:
            raise PrivacyError("not everybody introduced themselves", path="plan", given=f"missing nodes {missing}")
        self._met = True

    @property
    def iteration(self) -> int:
        """The iteration whose message comes next or is awaited, from 1 on."""
        return self._sync + 1

    @property
    def syncs(self) -> int:
        return self._sync

    @property
    def finished(self) -> bool:
        return self._sync >= self.total

    @property
    def weights(self) -> Floats:
        """The classifier of this node so far."""
        return np.array(self.local.weights)

    @property
    def awaited(self) -> frozenset[int]:
        """Whose messages end an iteration: all other nodes, or the neighbours."""
        everybody = self.algorithm.everybody
        others = range(self.setting.nodes) if everybody else self.setting.graph.neighbours[self.index]
        return frozenset(node for node in others if node != self.index and node not in self.absent)

    def due(self) -> bool:
        return not self.finished and self._inbox.own(self._sync) is None

    def send(self, noise: Noise | None = None) -> Message:
        known = self._inbox.own(self._sync)
        if known is not None:
            return known
        if self.finished:
            raise InputError("this run is over", path="iteration", given=self.iteration, allowed=f"1 to {self.total}")
        if self.ledger is not None and self.algorithm.secure_sums:
            raise PrivacyError(
                "a node of secure sums shows its numbers behind masks only", path="algorithm.sums", given="secure",
                fix="run it in a federation: fairveil federate",
            )  # fmt: skip
        if self.ledger is not None and not self._met:
            raise PrivacyError("nothing is released before the plans were compared", path="plan", fix="meet() first")
        message = self._made(noise)
        self._take_own(message)
        self._advance()
        return message

    def _made(self, noise: Noise | None) -> Message:
        """The message of this iteration, drawn now or out of the ledger."""
        payload = self._released(noise) if self.local.reads(self.iteration) else self.local.recycle(self.iteration)
        if payload is None:
            self.lost.append(self.iteration)
        return Message(
            self.index, self._sync, self.iteration, self._shown(payload), self._promise, lost=payload is None
        )

    def _take_own(self, message: Message) -> None:
        self.local.keep(message.round, None if message.lost else message.payload)
        self._remember(message)
        self._inbox.put(message)

    def receive(self, message: Any) -> Receipt:
        form = self.form(message.round if isinstance(message, Message) else 1)
        receipt = self._inbox.take(message, form, self._sync, self._time(message), self.total)
        if receipt.accepted:
            self._remember(message)
            self._advance()
        return receipt

    def leave_out(self, nodes: Iterable[int]) -> None:
        """From this iteration on nobody waits for these nodes; public, and the same at every node."""
        away = set(nodes) - {self.index}
        self._note("leave", away - self.absent)
        self.absent |= away
        self._advance()

    def take_back(self, nodes: Iterable[int]) -> None:
        """These nodes take part again from this iteration on; public, and the same at every node."""
        back = self.absent & set(nodes)
        if back:
            self.local.take_back(frozenset(back))
        self._note("back", back)
        self.absent -= back

    def released(self, sync: int) -> bool:
        account = self._account()
        found = "unknown" if account is None else account.ledger.status(account.block(f"iteration-{sync + 1}"))
        return found in ("published", "lost")

    def catch_up(self, messages: Iterable[Message]) -> None:
        """Follow iterations that others completed meanwhile: all messages of each, from a log.

        This node counts as left out where none is its own; an own one must be in its ledger and is not drawn again.
        """
        for sync, group in by_synchronisation(messages, self._sync):
            reasons = [self.form(sync + 1).problem_with(one) for one in group.values()]
            if any(reasons) or {one.round for one in group.values()} != {sync + 1} or sync >= self.total:
                reason = next(filter(None, reasons), "not in the schedule")
                raise InputError(f"the log holds a message {reason}", path="messages", given=f"iteration {sync + 1}")
            if self.index in group:
                self._repeat(group[self.index])
            self._follow(group)

    def _repeat(self, known: Message) -> None:
        """Put the own message of a log in, out of the own ledger."""
        if self._inbox.own(known.sync) is None and self.released(known.sync):
            self._take_own(self._made(None))
        own = self._inbox.own(known.sync)
        if own is None or own.to_bytes() != known.to_bytes():
            raise PrivacyError(
                "the log holds a message in this party's name that its ledger does not know", path="messages",
                given=f"iteration {known.round}", fix="a party whose folder is lost is retired, and joins anew",
            )  # fmt: skip

    def _follow(self, group: Mapping[int, Message]) -> None:
        """One complete iteration of a log: whoever is not in it was left out, this node too."""
        self._note("followed", [message.to_bytes() for message in group.values()])
        away = frozenset(range(self.setting.nodes)) - set(group)
        others = {m.sender: m.payload for m in group.values() if m.sender != self.index and not m.lost}
        self._inbox.complete(self._sync, ())
        self._sync += 1
        if self.index in away:
            self.local.keep(self._sync, None)
        self.local.hear(self.iteration, others, away)
        back = away - self.absent
        if back:
            self.local.take_back(back)

    def save(self) -> bytes:
        """All messages so far; they are public. Rows and ledger stay where they are."""
        if self.ledger is None:
            raise InputError("a simulated node keeps no log", path="ledger", fix="give it a ledger")
        return encode({"plan": self.fingerprint, "absent": [], "lost": self.lost, "log": self._log}).encode()

    def load(self, data: bytes) -> None:
        table = decode(data.decode())
        if table["plan"] != self.fingerprint:
            raise PrivacyError("this is the log of another run", path="plan", fix="use the run id it was made with")
        self._restart()
        self.lost = [int(t) for t in table["lost"]]
        for item in table["log"]:
            self._replay(item)
        self.leave_out(int(node) for node in table["absent"])  # files of 0.1.0

    def _replay(self, item: Any) -> None:
        if isinstance(item, bytes):
            message = Message.from_bytes(item)
            if message.sender == self.index:
                self._take_own(message)
                self._advance()
            else:
                self.receive(message)
            return
        ((what, given),) = item.items()
        if what == "followed":
            messages = [Message.from_bytes(content) for content in given]
            self._follow({message.sender: message for message in messages})
        else:
            (self.leave_out if what == "leave" else self.take_back)(int(node) for node in given)

    def _time(self, message: Any) -> int | None:
        return message.sync + 1 if isinstance(message, Message) and isinstance(message.sync, int) else None

    def form(self, iteration: Any) -> Form:
        width = (self.setting.width,)
        names = self._names(iteration if isinstance(iteration, int) else 1)
        return Form(self.setting.nodes, dict.fromkeys(names, width), dict.fromkeys(names, LARGEST), self._promise)

    def _names(self, iteration: int) -> tuple[str, ...]:
        if not self.algorithm.everybody:
            return ("f",)
        return ("m", "v") if iteration == 1 else ("g",)

    def _shown(self, payload: Payload | None) -> Payload:
        if payload is not None:
            return payload
        return {name: np.zeros(self.setting.width) for name in self._names(self.iteration)}

    def _remember(self, message: Message) -> None:
        if self.ledger is not None:
            self._log.append(message.to_bytes())

    def _note(self, what: str, given: Collection[Any]) -> None:
        """Keep what happened beside messages: who left, who came back, a whole iteration of a log."""
        if self.ledger is not None and given:
            self._log.append({what: given if isinstance(given, list) else sorted(given)})

    def _advance(self) -> None:
        """When the own message is out and all awaited ones are here: tell the local part, and go on."""
        while not self.finished and self._inbox.own(self._sync) is not None:
            here = self._inbox.complete(self._sync, self.awaited | {self.index})
            if here is None:
                return
            others = {m.sender: m.payload for m in here if m.sender != self.index and not m.lost}
            self._sync += 1
            self.local.hear(self.iteration, others, frozenset(self.absent))

    def _account(self) -> Account | None:
        """Who pays: the whole run of this node, at once."""
        if self.ledger is None:
            return None
        event = self.algorithm.event(self.setting, self.index)
        return Account(self.ledger, f"{self.run}/node-{self.index}", RunCost(event), self.fingerprint)

    def _released(self, noise: Noise | None) -> Payload | None:
        """This iteration's release: drawn now, as it was stored, or None when it was lost."""
        iteration = self.iteration
        source = noise if noise is not None or self.noise_of is None else self.noise_of(iteration)
        account = self._account()
        if account is None:
            return self.local.draw(iteration, self.rows, source)
        asked = hashlib.sha256(self.local.question(iteration).tobytes()).hexdigest()

        def draw(drawn_from: Noise) -> dict[str, Any]:
            payload = self.local.draw(iteration, self.rows, drawn_from)
            return {"asked": asked, **payload}

        def answers(value: dict[str, Any]) -> Payload:
            """What was stored for this question; the node stops where it was drawn for another one.

            Another version may reach the same public point with other last digits: the account tells.
            """
            if value["asked"] != asked and not account.recalibrated:
                raise PrivacyError(
                    "this iteration was released already, for another question", path=f"iteration {iteration}",
                    allowed="the same public point",
                    fix="a new run needs a run id and a budget of its own",
                )  # fmt: skip
            return {name: part for name, part in value.items() if name != "asked"}

        found = release_once(account, account.block(f"iteration-{iteration}"), draw, source)
        return found.answer(drawn=answers, stored=answers, lost=lambda _: None)


def remember_rows(folder: Path, run: str, rows: Rows) -> None:
    """Refuse other rows under the same run id. A salted digest stays in the node's own folder and is never sent."""
    place = folder / "rows.json"
    known = json.loads(place.read_text()) if place.exists() else {}
    salt = known.get(run, {}).get("salt") or secrets.token_hex(16)
    digest = hashlib.sha256(salt.encode())
    for part in (rows.values, rows.columns, rows.signs):
        digest.update(np.ascontiguousarray(part).tobytes())
    if run in known and known[run]["digest"] != digest.hexdigest():
        raise PrivacyError(
            "these are not the rows that this run began with", path="rows", given=run,
            fix="a run with other rows needs a run id and a budget of its own",
        )  # fmt: skip
    if run not in known:
        replace_file(place, json.dumps({**known, run: {"salt": salt, "digest": digest.hexdigest()}}).encode())
