"""What the writer of version 0.1.0's files and the tests that continue them share: names, rows, rounds.

Public names only, so that the same lines run under 0.1.0 and under what came after it.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np

from fairveil import Ledger, SeededNoise, generator, registry
from fairveil.bandits.ledgered import drive
from fairveil.bandits.protocol import Candidate, Feedback, Round
from fairveil.state import State

FILES = Path(__file__).resolve().parent.parent / "compat" / "files"
KEY = bytes(range(32))
WAIT = 60
"""Seconds that a reward may take in every loop."""

FEATURES = [{"name": "x", "low": -1.0, "high": 1.0}, {"name": "y", "low": -1.0, "high": 1.0}]
PEOPLE = {"groups": ["a", "b"], "features": FEATURES}
CANDIDATES = ("census", "items")
"""Loops whose decisions are among candidates."""


def known() -> dict[str, Any]:
    """What a reader saw when the files were written."""
    return json.loads(gzip.decompress((FILES / "facts.json.gz").read_bytes()))


def packed(name: str, folder: Path) -> None:
    """Keep a folder as one small file; indexes of SQLite's log, which it makes again, are left out."""

    def cleaned(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        member.uid = member.gid = member.mtime = 0
        member.uname = member.gname = ""
        return None if member.name.endswith("-shm") else member

    with tarfile.open(FILES / f"{name}.tar.xz", "w:xz") as archive:
        archive.add(folder, name, filter=cleaned)


def unpacked(name: str, into: Path) -> Path:
    """The folder as version 0.1.0 left it."""
    with tarfile.open(FILES / f"{name}.tar.xz") as archive:
        archive.extractall(into, filter="data")
    return into / name


def plain(value: Any) -> Any:
    """A released value as JSON says it."""
    if isinstance(value, dict):
        return {str(key): plain(own) for key, own in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(own) for own in value]
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def story(ledger: Ledger) -> dict[str, Any]:
    """Everything that a ledger says: its entries, and the value of every published block."""
    entries = plain(list(ledger.entries()))
    blocks = [entry["name"] for entry in entries if entry["kind"] == "publish"]
    return {
        "entries": entries,
        "values": {block: plain(ledger.value(block)) for block in blocks},
        "lost": ledger.lost(),
        "spent": [ledger.spent.units, ledger.spent.delta_units],
        "remaining": [ledger.remaining.units, ledger.remaining.delta_units],
        "limit": ledger.limit.to_dict(),
    }


def goes_on(ledger: Ledger, before: dict[str, Any]) -> list[dict[str, Any]]:
    """The entries since: those of before are unchanged, and every value is what it was."""
    now = story(ledger)
    count = len(before["entries"])
    assert now["entries"][:count] == before["entries"]
    assert {block: now["values"][block] for block in before["values"]} == before["values"]
    assert set(before["lost"]) <= set(now["lost"])
    assert now["limit"] == before["limit"]
    return now["entries"][count:]


def kinds(entries: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(entry["kind"], entry["name"]) for entry in entries]


def command(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The command line, in a process of its own."""
    call = [sys.executable, "-c", "from fairveil.cli import main; main()", *words]
    environment = {**os.environ, "FAIRVEIL_KEY": KEY.hex()}
    return subprocess.run(call, cwd=folder, capture_output=True, text=True, env=environment)


# Policies ------------------------------------------------------------------------------------------------------------


def policy_of(table: dict[str, Any]) -> Any:
    return registry.build("policy", table, "policy")


def shown(table: dict[str, Any], index: int) -> Round:
    """What a policy sees in a round: fixed by the round's number."""
    rng = generator(21, "shown", index)
    if "arms" in table and table["arms"] is not None:
        return Round(index)
    rows = rng.uniform(-0.5, 0.5, (4, 2))
    agents = table.get("agents")
    groups = [0] * 4 if agents else [place % 2 for place in range(4)]
    candidates = tuple(Candidate(group, row) for group, row in zip(groups, rows, strict=True))
    return Round(index, candidates, index % agents if agents else 0)


def step(policy: Any, table: dict[str, Any], state: State, index: int) -> State:
    """One round without its release."""
    coins = generator(22, "coins", index)
    state = policy.open(state, index, coins)
    seen = shown(table, index)
    arm = policy.decide(state, seen, coins).arm
    reward = float(generator(23, "reward", index).random() < (0.3, 0.5, 0.7, 0.6)[arm % 4])
    return policy.learn(state, policy.report(Feedback(index, arm, reward, seen), SeededNoise(24, index)))


def choice(policy: Any, table: dict[str, Any], state: State, index: int) -> list[float]:
    """What a state decides next, with fixed coins."""
    coins = generator(25, "next", index)
    decision = policy.decide(policy.open(state, index, coins), shown(table, index), coins)
    return [int(decision.arm), float(decision.propensity)]


def driven(policy: Any, state: State, settled: int, ledger: Ledger) -> State:
    """All that is due, through the ledger."""
    neighbours = policy.guarantee().neighbours
    return drive(policy, state, settled, ledger, noise=SeededNoise(26, settled), neighbours=neighbours, resume=True)


def until_due(policy: Any, table: dict[str, Any], state: State, first: int, most: int = 600) -> tuple[State, int]:
    """Rounds until a release is due; the number of rounds that were played in all."""
    for index in range(first, first + most):
        state = step(policy, table, state, index)
        if policy.due(state, index + 1) is not None:
            return state, index + 1
    raise AssertionError(f"{policy.name}: nothing was due in {most} rounds")


# Loops ---------------------------------------------------------------------------------------------------------------


def request(name: str, index: int) -> dict[str, Any]:
    """What is asked of a loop in a round."""
    if name not in CANDIDATES:
        return {"subject": f"p-{index // 2}"} if name == "sticky" else {}
    rows = generator(27, name, index).uniform(-0.5, 0.5, (3, 2)).tolist()
    return {"candidates": [{"group": "ab"[place % 2], "features": row} for place, row in enumerate(rows)]}


def live(loop: Any, first: int, count: int) -> None:
    """Decisions and rewards of a loop."""
    events = {f"e-{index}": index for index in range(first, first + count)}
    replies = loop.decide_many([{"event_id": event, **request(loop.name, index)} for event, index in events.items()])
    assert all(reply.event_id in events for reply in replies)
    loop.reward_many([(event, float(generator(28, index).integers(2))) for event, index in events.items()])


# Streams, agents, nodes ----------------------------------------------------------------------------------------------

RELEASERS: dict[str, dict[str, Any]] = {
    "ba": {"unit": "window", "window": 10, "horizon": 40},
    "bd": {"unit": "window", "window": 10, "horizon": 40},
    "baseline-laplace": {"horizon": 40},
    "baseline-gaussian": {"delta": 1e-6, "horizon": 40, "neighbours": "add-remove", "starts": 5},
    "fast": {"horizon": 40, "samples": 12},
    "predictive": {"delta": 1e-6, "horizon": 40},
    "private-kalman": {"delta": 1e-6, "horizon": 40, "seasons": [6], "lag": 2},
}


def releaser_of(name: str) -> Any:
    return registry.build("releaser", {"name": name, "epsilon": 2.0, **RELEASERS[name]}, "releaser")


def values_of(first: int, count: int) -> list[float | None]:
    return [None if t % 7 == 5 else 100.0 + (t * 37) % 11 for t in range(first, first + count)]


def agent_policy(name: str) -> tuple[Any, dict[str, Any]]:
    table = {"name": name, "agents": 3, "dimension": 2, "horizon": 200, "epsilon": 2.0, "delta": 1e-5}
    return policy_of(table), table


def act(agent: Any, table: dict[str, Any], rounds: int) -> None:
    """Rounds of one agent, as many as are missing."""
    for index in range(agent.played, rounds):
        rng = generator(29, agent.index, index)
        agent.act(rng.uniform(-0.6, 0.6, (4, 2)), rng)
        agent.observe(float(rng.random()))


def rows_of(node: int) -> Any:
    from fairveil.consensus import Rows

    rng = generator(30, node)
    return Rows.dense(rng.normal(size=(40, 2)) / 2, np.where(rng.random(40) < 0.5, 1.0, -1.0))
