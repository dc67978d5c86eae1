"""Small federations for tests: plans with keys, hosts with seeded noise, everything in one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fairveil.federated import Coordinator, Inline, Member, Message, PartyHost, Plan, SigningKey, drive
from fairveil.federated.secure_sum import masked_numbers
from fairveil.federated.wire import MASKED, MESSAGE, Statement
from fairveil.privacy.noise import SeededNoise

NAMES = ("north", "east", "south", "west", "far")
EXPOSURE: dict[str, Any] = {
    "policy": {
        "name": "batched-priv-fairx", "dimension": 2, "horizon": 24, "epsilon": 2.0, "delta": 1e-3,
        "schedule": {"name": "growing", "factor": 2.0, "first": 4},
    },
    "environment": {"seed": 3, "actions": 3},
}  # fmt: skip
CONSENSUS: dict[str, Any] = {
    "algorithm": {"name": "private-admm", "epsilon": 2.0, "rounds": 3},
    "data": {"name": "logistic", "rows": 160, "features": 3, "test": 10, "seed": 2},
}
KINDS = {"exposure": EXPOSURE, "consensus": CONSENSUS}


def keys(count: int) -> list[SigningKey]:
    """Keys that are the same in every run."""
    return [SigningKey(bytes([place + 1]) * 32) for place in range(count)]


def plan_of(kind: str = "exposure", parties: int = 3, rows: int = 30, *, run: str = "trial", **facts: Any) -> Plan:
    public = rows if kind == "consensus" else None
    members = tuple(Member(name, signing_key=key.public, rows=public) for name, key in zip(NAMES, keys(parties)))
    return Plan(run, kind, members, **{**KINDS[kind], **facts})


def seeded(index: int) -> Any:
    return lambda sync: SeededNoise(7, "federation", index, sync)


def host_of(
    plan: Plan, index: int, folder: Path, source: str = "environment", *, secure: bool = False, **facts: Any
) -> PartyHost:
    """A party; ``secure``: with a real ledger and the noise of the operating system."""
    name = plan.party[index].name
    key = keys(len(plan.party))[index]
    return PartyHost(plan, name, source, folder / name, key, noise_of=None if secure else seeded(index), **facts)


def run(plan: Plan, folder: Path, *, secure: bool = False) -> tuple[Coordinator, list[PartyHost]]:
    """A whole run in this process; hosts and coordinator are closed, and can be looked at."""
    hosts = [host_of(plan, index, folder, secure=secure) for index in range(len(plan.party))]
    coordinator = Coordinator(plan, folder / "coordinator")
    drive(coordinator, Inline({host.index: host.answer for host in hosts}), clock=iter(range(10**6)).__next__)
    for one in (*hosts, coordinator):
        one.close()
    return coordinator, hosts


def rows_of(said: dict[Any, Statement], party: int, sync: int) -> int:
    """How many rows are behind what a party said at a synchronisation."""
    message = said.get((MESSAGE, party, sync))
    if message is not None:
        return int(Message.from_bytes(message.content).payload["rows"])
    return masked_numbers(said[MASKED, party, sync])[0]
