"""A process of its own that forks consensus nodes with ledgers, kills them at random moments, and reports as JSON.

Node 0 has a ledger and dies; nodes 1 and 2 are simulations beside it. Two logs outside the ledger: every draw, and
every message that left the node.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import numpy as np

from fairveil.consensus import Inline, Node, PrivateAdmm, Rows, Setting, make_graph
from fairveil.consensus.transport import NodePlan
from fairveil.ledger import Ledger, Limit
from fairveil.privacy.charges import Charge

ROUNDS = 6
SETTING = Setting(make_graph("ring", 3), (30, 30, 30), 3, 3, 1)
ALGORITHM = PrivateAdmm(epsilon=2.0, rounds=ROUNDS).complete(SETTING)
LIMIT = Limit.approximate(2.0, 1e-5, currency="gaussian")


def rows(node: int) -> Rows:
    rng = np.random.default_rng(node)
    return Rows.dense(rng.normal(size=(30, 3)) / 3, np.where(rng.random(30) < 0.5, 1.0, -1.0))


PARTS = [rows(node) for node in range(3)]


def log(file: Path, *words: object) -> None:
    with open(file, "a") as out:
        out.write(" ".join(map(str, words)) + "\n")


def conversation(folder: Path) -> None:
    """The whole run, from the start or from wherever the last process died."""
    plans = [NodePlan(ALGORITHM, SETTING, node, PARTS[node], path=(7, "crash")) for node in range(3)]
    ledger = Ledger.create(folder / "ledger.db", limit=LIMIT, simulated=True)
    first = Node(ALGORITHM, SETTING, 0, PARTS[0], ledger=ledger, folder=folder, noise_of=plans[0].noise_for)
    draw = first.local.draw

    def logged(iteration, rows, noise):
        log(folder / "draws", iteration)
        return draw(iteration, rows, noise)

    first.local.draw = logged  # type: ignore[method-assign]
    nodes = [first, plans[1].build(), plans[2].build()]
    transport = Inline(nodes)
    send = first.send

    def told(noise=None):
        message = send(noise)
        content = b"".join(np.asarray(message.payload[name]).tobytes() for name in sorted(message.payload))
        log(folder / "seen", message.round, message.lost, hashlib.sha256(content).hexdigest())
        return message

    first.send = told  # type: ignore[method-assign]
    for seen in transport.iterations():
        weights = seen.weights[0]
    np.save(folder / "weights.npy", weights)
    (folder / "lost").write_text(json.dumps(first.lost))
    log(folder / "done", "done")
    transport.close()


def child(folder: Path) -> int:
    process = os.fork()
    if process == 0:
        try:
            conversation(folder)
            os._exit(0)
        except BaseException as problem:
            log(folder / "failed", repr(problem))
            os._exit(1)
    return process


def lines(file: Path) -> list[list[str]]:
    return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


def main(kills: int) -> dict[str, object]:
    place = os.environ.get("FAIRVEIL_CRASH_FOLDER")
    whole = Path(tempfile.mkdtemp(dir=place))
    os.waitpid(child(whole), 0)  # compiles and warms everything that forks inherit
    whole = Path(tempfile.mkdtemp(dir=place))
    start = time.perf_counter()
    os.waitpid(child(whole), 0)
    length = time.perf_counter() - start
    truth = np.load(whole / "weights.npy")
    rng = random.Random(3)
    killed = lost = tries = 0
    while killed < kills:
        tries += 1
        folder = Path(tempfile.mkdtemp(dir=place))
        for _ in range(50):
            process = child(folder)
            if rng.random() < 0.75 or not lines(folder / "draws"):
                time.sleep(rng.random() * length)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            _, status = os.waitpid(process, 0)
            killed += os.WIFSIGNALED(status)
            assert not (folder / "failed").exists(), (folder / "failed").read_text()
            if lines(folder / "done") and not os.WIFSIGNALED(status):
                break
        drawn = [int(t) for (t,) in lines(folder / "draws")]
        assert len(drawn) == len(set(drawn)), "a block was drawn twice"
        told: dict[str, set[tuple[str, ...]]] = defaultdict(set)
        for iteration, *rest in lines(folder / "seen"):
            told[iteration].add(tuple(rest))
        assert all(len(values) == 1 for values in told.values()), "a message had two values"
        with Ledger.open(folder / "ledger.db", simulated=True) as ledger:
            event = ALGORITHM.event(SETTING)
            assert ledger.spent != Charge() or not told, "something was told and nothing was charged"
            assert not ledger.quote(event).admitted, "the budget could be spent again"
            gone = ledger.lost()
        named = json.loads((folder / "lost").read_text())
        assert len(gone) == len(named) == sum(next(iter(v))[0] == "True" for v in told.values())
        lost += len(gone)
        if not gone:
            assert np.array_equal(np.load(folder / "weights.npy"), truth), "another classifier than undisturbed"
    return {"tries": tries, "killed": killed, "lost": lost}


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]))))
