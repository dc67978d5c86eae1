"""The coordinator's side on Flower: a door, a SuperLink behind it, and the coordinator that asks through both."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

from fairveil.errors import SpecError
from fairveil.federated.carrier import drive
from fairveil.federated.coordinator import Coordinator
from fairveil.federated.flower.carrier import FlowerCarrier
from fairveil.federated.flower.certificates import (
    AUTHORITY,
    CERTIFICATE,
    KEY,
    NodeKeys,
    check_server,
    is_loopback,
    make_certificates,
)
from fairveil.federated.flower.front import Front
from fairveil.federated.flower.link import LOOPBACK, SuperLink, ttl
from fairveil.federated.plan import Plan

log = logging.getLogger("fairveil.federated")
ANYWHERE = ("0.0.0.0", "::")
RESUBMIT_SECONDS = 90.0
"""A run whose ServerApp has not called by then is submitted again."""
ENVELOPE_BYTES = 1_000_000
"""More than Flower puts around an answer."""
REFUSED_SECONDS = 5.0
"""Seconds until a run that the SuperLink did not take is submitted again."""


def check_node_keys(plan: Plan) -> None:
    """Refuse a plan whose parties have no keys on the transport, or share one."""
    keys = [member.node_key for member in plan.party]
    for place, key in enumerate(keys):
        if not key or keys.count(key) > 1:
            raise SpecError(
                "a party has no node key of its own", path=f"party.{place}.node_key", given=plan.party[place].name,
                fix="fairveil federate keys DIR makes one; its public part goes into the plan",
            )  # fmt: skip


def certificates(folder: Path, host: str, certificate: Path | None, key: Path | None) -> tuple[Path, Path]:
    """The front's certificate and key; made for trying out on loopback, refused elsewhere."""
    if certificate is not None and key is not None:
        return certificate, key
    if not is_loopback(host):
        raise SpecError(
            "without a certificate only loopback is served", path="host", given=host, allowed="127.0.0.1",
            fix="give --certificate and --key",
        )  # fmt: skip
    made = folder / "trial"
    made.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not (made / AUTHORITY).exists():
        (made / KEY).unlink(missing_ok=True)
        make_certificates(made, host)
    return made / CERTIFICATE, made / KEY


class FlowerFederation:
    """A coordinator on Flower. `run` ends when the plan is complete; stopped and started again, it goes on."""

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        *,
        host: str,
        port: int,
        certificate: Path | None = None,
        key: Path | None = None,
        authority: Path | None = None,
    ) -> None:
        check_node_keys(plan)
        nodes = NodeKeys([member.node_key for member in plan.party])
        self.plan, self.authority = plan, authority
        self._called, self._revoked, self._next_submission = False, set[int](), 0.0
        chain = certificates(folder, host, certificate, key)
        self.coordinator = Coordinator(plan, folder)
        try:
            self.link = SuperLink(plan, self.coordinator.folder)
            digest = self.link.digest()
            if plan.bundle and plan.bundle != digest:
                raise SpecError("the plan names another bundle", path="bundle", given=plan.bundle, allowed=digest)
            self.front = Front(host, port, *chain, nodes=nodes, most_bytes=plan.most_bytes + ENVELOPE_BYTES)
        except BaseException:
            self.coordinator.close()
            raise

    def run(self, watch: Callable[[FlowerFederation], None] | None = None) -> None:
        """Open the door, have the run carried, until everybody has the whole log."""
        plan, carrier = self.plan, None
        try:
            self.front.start()
            self._check_authority()
            self._start()
            carrier = FlowerCarrier(self.link.socket, self.link.nodes(), self._tend, plan.most_bytes)
            self.carrier = carrier
            seen = None if watch is None else lambda _: watch(self)
            drive(self.coordinator, carrier, patience=ttl(plan), watch=seen)
        finally:
            if carrier is not None:
                carrier.close()
            self.front.stop()
            self.link.stop()
            self.coordinator.close()

    def _check_authority(self) -> None:
        """Whoever trusts the authority trusts the front: found out here, and not at every party."""
        if self.authority is not None:
            where = LOOPBACK if self.front.host in ANYWHERE else self.front.host
            check_server(where, self.front.port, self.authority, named=False)

    def _start(self) -> None:
        self.link.start()
        self.front.open(f"https://{self.link.address}", self.link.folder / AUTHORITY)

    def _tend(self, connected: bool) -> None:
        """Bring back a SuperLink that ended, and a run whose ServerApp hung up or never called."""
        if self._called and not connected:
            self._next_submission = 0.0
        self._called = connected
        for party in self.coordinator.retired - self._revoked:
            self._revoked.add(party)
            if self.coordinator.told_to_retire(party):
                self.link.revoke(self.carrier.nodes[party])
        if not self.link.kept.running:
            log.warning("the SuperLink ended and is started again")
            self.link.kept.stop()
            self.carrier.hang_up()  # a ServerApp that outlived its SuperLink carries nothing
            self._start()
            connected = self._called = False
            self._next_submission = 0.0
        if not connected and time.monotonic() >= self._next_submission and self.link.answers():
            taken = self.link.submit()
            self._next_submission = time.monotonic() + (RESUBMIT_SECONDS if taken else REFUSED_SECONDS)
