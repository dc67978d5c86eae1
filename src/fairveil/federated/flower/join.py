"""A party's side on Flower: a socket in its folder that answers, and a SuperNode that is kept running."""

from __future__ import annotations

import logging
import socket
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path

from fairveil.errors import PrivacyError
from fairveil.federated.flower.bundle import bundle_digest, write_bundle
from fairveil.federated.flower.carrier import listen
from fairveil.federated.flower.certificates import check_server, node_public
from fairveil.federated.flower.link import ttl
from fairveil.federated.flower.programs import KeptProgram, answers, environment, free_port, own_programs, program
from fairveil.federated.host import PartyHost

log = logging.getLogger("fairveil.federated")
HEAD = struct.Struct("<32sQ")
REPLY = struct.Struct("<BQ")
OTHER_BUNDLE = b"refused: another bundle"
TOO_LARGE = b"refused: too large"
NOT_ACTIVATED = "Failed to activate SuperNode"
REFUSED_SECONDS = 300.0
SILENT_SECONDS = 600.0
"""A SuperNode that asked for nothing for so long is started again: one whose message process died without a word waits
for its reply for ever. One that has nothing to ask loses nothing."""


class PartyDoor:
    """Requests from the pipe, one at a time, to a party; the digest of the coordinator's bundle comes with each."""

    def __init__(self, host: PartyHost, bundle: str) -> None:
        self.host, self.bundle = host, bytes.fromhex(bundle)
        self.requests, self.refused, self.last = 0, "", time.monotonic()
        self._door = listen(host.folder / "pipe")
        self._thread = threading.Thread(target=self._serve, name="door", daemon=True)
        self._open = True
        self._thread.start()

    def _serve(self) -> None:
        while self._open:
            try:
                line = self._door.accept()[0]
            except OSError:
                return
            self.last = time.monotonic()
            with line:
                try:
                    line.settimeout(60)
                    self._answer(line)
                except (OSError, struct.error):
                    log.warning("a request broke off")

    def _answer(self, line: socket.socket) -> None:
        with line.makefile("rb") as reader:
            digest, length = HEAD.unpack(reader.read(HEAD.size))
            kind, answer = 1, TOO_LARGE
            if digest != self.bundle:
                answer = OTHER_BUNDLE
            elif length <= self.host.plan.most_bytes:
                request = reader.read(length)
                if len(request) < length:
                    return
                kind, answer = 0, self.host.answer(request)
        self.refused = answer.decode() if kind else ""
        if kind:
            log.warning("this party stopped: %s", self.refused)
        self.requests, self.last = self.requests + 1, time.monotonic()
        line.sendall(REPLY.pack(kind, len(answer)) + answer)

    def close(self) -> None:
        self._open = False
        self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()
        self._thread.join(10)
        (self.host.folder / "pipe").unlink(missing_ok=True)


class Joined:
    """A party on Flower. `run` ends when it has all of the run; stopped and started again, it goes on."""

    def __init__(self, host: PartyHost, server: str, *, authority: Path, node_key: Path) -> None:
        self.host, self.authority, self.node_key = host, authority.resolve(), node_key.resolve()
        name, _, port = server.rpartition(":")
        self.name, self.port = name.strip("[]"), int(port)
        self.folder = host.folder / "flower"
        member = host.plan.party[host.index]
        if node_public(node_key) != member.node_key:
            raise PrivacyError("this is not the node key of this party", path="node_key", given=member.name)
        self.reached = check_server(self.name, self.port, self.authority)
        own = write_bundle(self.folder / "app" / "fairveil-federation")
        self.bundle = host.plan.bundle or bundle_digest(own)
        self.node = KeptProgram("supernode", self.folder)
        self.refused_since: float | None = None
        self.started = self._tried = time.monotonic()

    def run(self, watch: Callable[[Joined], None] | None = None) -> None:
        """Answer until the run is over and the coordinator knows it."""
        self.door = PartyDoor(self.host, self.bundle)
        try:
            while not self._over():
                if time.monotonic() - max(self.door.last, self.started) > SILENT_SECONDS:
                    log.info("the SuperNode was silent and is started again")
                    self.node.stop()
                if self.node.due() and self._reach():
                    self._start_node()
                if watch is not None:
                    watch(self)
                time.sleep(0.2)
        finally:
            self.node.stop()
            self.door.close()

    def _reach(self) -> bool:
        """Whether the coordinator is there; asked at most every few seconds, a SuperNode without one would end."""
        if time.monotonic() - self._tried >= self.node.pause:
            self.reached, self._tried = check_server(self.name, self.port, self.authority), time.monotonic()
        return self.reached

    def _start_node(self) -> None:
        if self.node.starts:
            log.warning("the SuperNode ended and is started again")
            self._check_end()
        self.started = time.monotonic()
        programs = own_programs(self.folder / "bin")
        self.node.start(
            [
                program("flower-supernode"), f"--superlink={self.name}:{self.port}",
                f"--root-certificates={self.authority}", f"--auth-supernode-private-key={self.node_key}",
                "--host=127.0.0.1", f"--port={free_port()}",
            ],
            environment(self.folder, str(programs), FAIRVEIL_TIMEOUT=str(ttl(self.host.plan))), self.host.folder,
        )  # fmt: skip

    def _check_end(self) -> None:
        """A key that the coordinator took back does not get better by waiting.

        A SuperNode that was killed is refused in the same words, until it has been missed for a minute.
        """
        if NOT_ACTIVATED not in self.node.last_words(1000):
            self.refused_since = None
            return
        self.refused_since = self.refused_since or time.monotonic()
        if time.monotonic() - self.refused_since > REFUSED_SECONDS:
            raise PrivacyError(
                "the coordinator does not take this node key", path="node_key",
                given=self.host.plan.party[self.host.index].name,
                fix="ask whether this party was retired, whether another join runs with its key, and whether the"
                " clocks of both machines are within an hour",
            )  # fmt: skip

    def _over(self) -> bool:
        """A coordinator that is there may not know yet that this party has all: its last answer may be lost, and a busy
        machine needs minutes to ask again. It waits for so long as a message lives, and so does this party."""
        if not self.host.finished:
            return False
        gone = not answers(self.name, self.port)
        return gone or time.monotonic() - self.door.last > ttl(self.host.plan)
