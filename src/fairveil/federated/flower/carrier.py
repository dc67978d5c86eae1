"""Flower as a carrier: bytes to the ServerApp over a socket, which has them delivered to nodes."""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path

from fairveil.federated.carrier import Carrier

FRAME = struct.Struct("<QBQ")
ANSWER, WORD, NOTHING = 0, 1, 2
PAUSE = 0.2


def listen(file: Path) -> socket.socket:
    """A listening socket that its owner alone may connect to. Paths longer than a socket's name can be are fine."""
    file.unlink(missing_ok=True)
    line = socket.socket(socket.AF_UNIX)
    mask = os.umask(0o177)
    folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        line.bind(str(file) if len(str(file)) < 100 else f"/proc/self/fd/{folder}/{file.name}")
    finally:
        os.umask(mask)
        os.close(folder)
    line.listen(16)
    return line


class FlowerCarrier(Carrier):
    """Requests go to the ServerApp that has called last; while none has, they are lost and asked again.

    ``nodes``: the SuperLink's node of each party; an answer of another node is nobody's. ``tend`` is called in pauses
    with whether a ServerApp is connected. ``words``: the last fixed word of a party whose process is not there.
    """

    def __init__(self, file: Path, nodes: dict[int, int], tend: Callable[[bool], None], most_bytes: int) -> None:
        self.nodes, self.parties = nodes, {node: party for party, node in nodes.items()}
        self.tend, self.most_bytes = tend, most_bytes
        self.words: dict[int, str] = {}
        self.sent = self.received = 0
        self._door, self._buffer = listen(file), b""
        self._line: socket.socket | None = None
        self._lost: list[int] = []
        self._waiting: set[int] = set()

    def ask(self, party: int, request: bytes) -> None:
        if self._line is None:
            self._lost.append(party)
            return
        self._waiting.add(party)
        try:
            self._line.sendall(FRAME.pack(self.nodes[party], ANSWER, len(request)) + request)
            self.sent += len(request)
        except OSError:
            self.hang_up()

    def answers(self) -> list[tuple[int, bytes | None]]:
        found: list[tuple[int, bytes | None]] = []
        self._listen()
        for node, kind, content in self._frames():
            party = self.parties.get(node)
            if party is None:
                continue
            self._waiting.discard(party)
            self.received += len(content)
            self.words[party] = content.decode(errors="replace")[:80] if kind == WORD else ""
            found.append((party, content if kind == ANSWER else None))
        lost, self._lost = self._lost, []
        return [*found, *((party, None) for party in lost)]

    def _listen(self) -> None:
        """Take the newest caller, and what it has said."""
        while True:
            lines = [self._door] if self._line is None else [self._door, self._line]
            ready = select.select(lines, [], [], 0)[0]
            if not ready:
                return
            if self._door in ready:
                self.hang_up()
                self._line = self._door.accept()[0]
            elif self._line is not None:
                try:
                    more = self._line.recv(1 << 20)
                except OSError:
                    more = b""
                self._buffer += more
                if not more:
                    self.hang_up()

    def _frames(self) -> list[tuple[int, int, bytes]]:
        found = []
        while len(self._buffer) >= FRAME.size:
            node, kind, length = FRAME.unpack_from(self._buffer)
            if length > self.most_bytes:
                self.hang_up()
                break
            if len(self._buffer) < FRAME.size + length:
                break
            found.append((node, kind, self._buffer[FRAME.size : FRAME.size + length]))
            self._buffer = self._buffer[FRAME.size + length :]
        return found

    def hang_up(self) -> None:
        """Whatever was asked over this line will not come."""
        if self._line is not None:
            self._line.close()
        self._line, self._buffer = None, b""
        self._lost += sorted(self._waiting)
        self._waiting.clear()

    @property
    def connected(self) -> bool:
        return self._line is not None

    def pause(self) -> None:
        self.tend(self.connected)
        if not self._lost:
            lines = [self._door] if self._line is None else [self._door, self._line]
            select.select(lines, [], [], PAUSE)
        else:
            time.sleep(PAUSE)

    def close(self) -> None:
        """End the run: the ServerApp goes with its line."""
        self.hang_up()
        self._door.close()
