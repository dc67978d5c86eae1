"""The plan of a federation: everything public, agreed before anybody reads a row, with one fingerprint.

What is learned is a `Kind`: `exposure` (agents of a private exposure policy) or `consensus` (nodes of private-admm).
A kind says what messages look like, what a run costs, and how a party is made from its data.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, fields
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, Strict

from fairveil import registry
from fairveil.configuration import configuration, describe
from fairveil.errors import SpecError
from fairveil.federated.message import Form
from fairveil.federated.party import Party
from fairveil.federated.signing import check_public
from fairveil.fields import Count, Positive, described
from fairveil.ledger import Ledger
from fairveil.privacy.events import Event
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.noise import Noise

VERSION = 1
LEAST_TIMEOUT = 120.0
"""A message that lives shorter than a party needs makes every round fail."""
NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$"
Name = Annotated[str, Strict(), Field(pattern=NAME)]
Key = Annotated[str, Strict(), Field(max_length=400)]


@configuration
class Member:
    """One party of a plan: its name, its keys, and how many rows it has where that is public."""

    name: Name = described("what people call it; a folder and messages carry it", example="north")
    signing_key: Key = described("public key that its statements are signed with", default="")
    node_key: Key = described("public key of its node on the transport", default="")
    rows: Count | None = described("how many rows it has (consensus; public)", default=None)


@configuration
class Plan:
    """The frozen public configuration of a federated run.

    A party refuses a request under another fingerprint before its data is touched. ``quorum``: so many parties are
    enough to complete a synchronisation once ``timeout`` seconds have passed since its first message. ``sums``:
    ``own`` (each party's numbers carry the whole noise) or ``secure`` (only the sum is seen, and ``colluding`` parties
    may pool what they know). ``void_after``: a block of secure sums whose last numbers do not come is given up then.

    >>> plan = Plan("trial", "exposure", (Member("a"), Member("b")), policy={"name": "batched-priv-fairx",
    ...     "dimension": 2, "horizon": 64, "epsilon": 1.0, "delta": 1e-5})
    >>> plan.made.syncs, len(plan.fingerprint())
    (3, 64)
    """

    run: Name = described("name of the run; another run with the same rows needs a budget of its own", example="trial")
    kind: Literal["exposure", "consensus"] = described("what is learned", example="exposure")
    party: tuple[Member, ...] = described("who takes part, in order", example=(Member("a"), Member("b")))
    _: KW_ONLY
    policy: dict[str, Any] | None = described("the private exposure policy, as in a spec", default=None)
    algorithm: dict[str, Any] | None = described("the consensus algorithm, as in a spec", default=None)
    data: dict[str, Any] | None = described("public schema of the rows (consensus)", default=None)
    environment: dict[str, Any] | None = described("a simulated world, to try a plan out (exposure)", default=None)
    quorum: Count | None = described("fewest parties of a synchronisation; all when left out", default=None)
    timeout: Positive = described("seconds after the first message before the others are left out", default=600.0)
    sums: Literal["own", "secure"] = described("who sees the numbers of one party", default="own")
    colluding: Count = described("t, parties that may pool what they know (secure sums)", default=1)
    void_after: Positive = described("seconds after which a block of secure sums is given up", default=604_800.0)
    most_bytes: Count = described("longest request or answer", default=16_000_000)
    bundle: Annotated[str, Strict(), Field(pattern=r"^([0-9a-f]{64})?$")] = described(
        "sha256 of the transport's app bundle; nothing of it runs at a party", default=""
    )

    def __post_init__(self) -> None:
        names = [member.name for member in self.party]
        if len(names) < 2 or len(set(names)) < len(names):
            raise SpecError(
                "a federation needs parties of different names", path="party", given=names, allowed="at least two"
            )
        if self.quorum is not None and self.quorum > len(names):
            raise SpecError(
                "the quorum is above the number of parties", path="quorum", given=self.quorum,
                allowed=f"at most {len(names)}",
            )  # fmt: skip
        if self.sums == "secure" and self.colluding >= self.least:
            raise SpecError(
                "as many parties may collude as must take part", path="colluding", given=self.colluding,
                allowed=f"below the quorum, {self.least}", fix="raise the quorum, or use sums = own",
            )  # fmt: skip
        known = set[str]()
        for place, member in enumerate(self.party):
            if not member.signing_key:
                continue
            check_public(member.signing_key, f"party.{place}.signing_key")
            if member.signing_key in known:
                raise SpecError(
                    "two parties have one signing key", path=f"party.{place}.signing_key", given=member.name,
                    fix="every party makes its own: fairveil federate keys DIR",
                )  # fmt: skip
            known.add(member.signing_key)

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> Plan:
        """A plan from what a TOML file holds; unknown keys and wrong values say where they are."""
        facts = dict(table)
        version = facts.pop("version", VERSION)
        if version != VERSION:
            raise SpecError("this version of plans is not known", path="version", given=version, allowed=str(VERSION))
        members = facts.pop("party", [])
        if not isinstance(members, list) or not all(isinstance(member, dict) for member in members):
            raise SpecError("parties are a list of tables", path="party", allowed="[[party]] with name = ...")
        return cls(party=tuple(Member(**member) for member in members), **facts)

    @property
    def least(self) -> int:
        """Fewest parties of a synchronisation."""
        return len(self.party) if self.quorum is None else self.quorum

    @cached_property
    def made(self) -> Kind:
        """What is learned, built and checked."""
        built: Kind = registry.get("federation", self.kind, "kind")(self)
        return built

    def fingerprint(self) -> str:
        """Of every public fact, defaults filled: another plan has another one."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        facts = {field.name: getattr(self, field.name) for field in fields(self)}
        facts["party"] = [describe(member) for member in self.party]
        facts |= {"version": VERSION, "learned": self.made.table()}
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    def index(self, name: str) -> int:
        """The place of a party, by its name."""
        for place, member in enumerate(self.party):
            if member.name == name:
                return place
        names = ", ".join(member.name for member in self.party)
        raise SpecError("the plan has no party of this name", path="party", given=name, allowed=names)

    def check_keys(self) -> None:
        """Refuse a plan that cannot tell who said what."""
        for place, member in enumerate(self.party):
            if not member.signing_key:
                raise SpecError(
                    "a party has no signing key", path=f"party.{place}.signing_key", given=member.name,
                    fix="fairveil federate keys DIR makes one; its public part goes into the plan",
                )  # fmt: skip


class Worker(ABC):
    """A party with its data: what it does between synchronisations."""

    party: Party

    @abstractmethod
    def work(self) -> None:
        """Go on with the own data until a message is due or nothing is left to do."""

    @abstractmethod
    def progress(self) -> dict[str, Any]:
        """Public facts of how far it is."""

    @abstractmethod
    def result(self) -> dict[str, Any]:
        """What this party has learned; stays with it."""


class Kind(ABC):
    """What a federation learns, from its plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    @property
    @abstractmethod
    def syncs(self) -> int:
        """How many synchronisations a run has at most."""

    @abstractmethod
    def table(self) -> dict[str, Any]:
        """The complete public configuration of what is learned."""

    @abstractmethod
    def form(self, sync: int) -> Form:
        """What a message of this synchronisation looks like."""

    @abstractmethod
    def time(self, sync: int) -> int | None:
        """The public round that its messages name; None where it depends on releases."""

    @abstractmethod
    def numbers(self, sync: int) -> int:
        """How many numbers one party's vector has at this synchronisation (secure sums)."""

    @abstractmethod
    def event(self) -> Event:
        """What one row pays over the whole run."""

    @abstractmethod
    def guarantee(self) -> Guarantee:
        """The promise to one row of one party."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """Schedule, noise and bytes in words and numbers, for people who read a plan before they join."""

    @abstractmethod
    def worker(
        self, index: int, source: str, ledger: Ledger, folder: Path, noise_of: Callable[[int], Noise] | None
    ) -> Worker:
        """A party with its data. ``noise_of``: seeded noise of a synchronisation for a simulated ledger."""
