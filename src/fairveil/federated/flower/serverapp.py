"""The ServerApp of a run, alone in its bundle: requests of `coordinate` go to nodes, what they answer goes back.

Frames on the socket, both ways: node (8 bytes), kind (1 byte: 0 an answer, 1 a fixed word, 2 nothing will come), length
(8 bytes), content. The run ends with the socket.
"""

from __future__ import annotations

import os
import select
import socket
import struct
from collections.abc import Iterator

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

PAUSE = 0.2
FRAME = struct.Struct("<QBQ")
NOTHING = 2
app = ServerApp()
client = ClientApp()  # parties run a program of their own in its place


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Carry bytes until `coordinate` closes the socket."""
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(os.environ["FAIRVEIL_COORDINATOR"])
        carry(grid, line, float(os.environ["FAIRVEIL_TIMEOUT"]))


def carry(grid: Grid, line: socket.socket, ttl: float) -> None:
    waiting: dict[str, int] = {}
    buffer = b""
    while True:
        if select.select([line], [], [], PAUSE)[0]:
            found = line.recv(1 << 20)
            if not found:
                return
            buffer += found
            requests, buffer = frames(buffer)
            for node, _, content in requests:
                record = RecordDict({"request": ConfigRecord({"bytes": content})})
                message = Message(record, dst_node_id=node, message_type="query", ttl=ttl)
                for key in grid.push_messages([message]) or [None]:
                    if key:
                        waiting[key] = node
                    else:
                        line.sendall(FRAME.pack(node, NOTHING, 0))
        if waiting:
            for node, kind, content in answers(grid, waiting):
                line.sendall(FRAME.pack(node, kind, len(content)) + content)


def answers(grid: Grid, waiting: dict[str, int]) -> Iterator[tuple[int, int, bytes]]:
    for reply in grid.pull_messages(list(waiting)):
        asked = waiting.pop(reply.metadata.reply_to_message_id, None)
        node = reply.metadata.src_node_id
        if reply.has_error() or asked != node:
            if asked is not None:
                yield asked, NOTHING, b""
            continue
        record = reply.content["answer"]
        yield node, int(record["kind"]), bytes(record["bytes"])


def frames(buffer: bytes) -> tuple[list[tuple[int, int, bytes]], bytes]:
    """The whole frames at the beginning, and the rest."""
    found = []
    while len(buffer) >= FRAME.size:
        node, kind, length = FRAME.unpack_from(buffer)
        if len(buffer) < FRAME.size + length:
            break
        found.append((node, kind, buffer[FRAME.size : FRAME.size + length]))
        buffer = buffer[FRAME.size + length :]
    return found, buffer
