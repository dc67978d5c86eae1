"""The ServerApp of a run, alone in its bundle: requests of `coordinate` go to nodes, what they answer goes back.

Frames on the socket, both ways: node (8 bytes), kind (1 byte: 0 an answer, 1 a fixed word, 2 nothing will come), length
(8 bytes), content. The run ends with the socket.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import threading
import time
from queue import SimpleQueue
from typing import Any

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
    replies: SimpleQueue[Any] = SimpleQueue()
    active: set[int] = set()
    buffer = b""
    while True:
        if select.select([line], [], [], PAUSE)[0]:
            found = line.recv(1 << 20)
            if not found:
                return
            requests, buffer = frames(buffer + found)
            for node, _, content in requests:
                facts = (grid, node, content, ttl, active, replies)
                threading.Thread(target=fetch, args=facts, daemon=True).start()
        while not replies.empty():
            reply = replies.get()
            if isinstance(reply, Exception):
                raise reply
            line.sendall(FRAME.pack(*reply[:2], len(reply[2])) + reply[2])


def fetch(grid: Grid, node: int, content: bytes, ttl: float, active: set[int], replies: SimpleQueue[Any]) -> None:
    """One request and its reply, in a thread: for one that a killed node sent in part, Flower waits for 3 minutes."""
    active.add(threading.get_ident())
    try:
        record = RecordDict({"request": ConfigRecord({"bytes": content})})
        keys = grid.push_messages([Message(record, dst_node_id=node, message_type="query", ttl=ttl)])
        found: list[Message] = []
        while any(keys := list(keys)) and not found:
            time.sleep(PAUSE * len(active))  # together they ask as often as one alone
            found = list(grid.pull_messages(keys))
        ours = (reply for reply in found if not reply.has_error() and reply.metadata.src_node_id == node)
        whole = [reply.content["answer"] for reply in ours]
        replies.put((node, int(whole[0]["kind"]), bytes(whole[0]["bytes"])) if whole else (node, NOTHING, b""))
    except Exception as problem:  # ends the run; `coordinate` submits another
        replies.put(problem)
    finally:
        active.discard(threading.get_ident())


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
