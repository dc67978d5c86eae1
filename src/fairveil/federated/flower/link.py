"""The SuperLink of a federation: kept running on loopback, its nodes registered, the run submitted, again if needed."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from fairveil.errors import StoreError
from fairveil.federated.flower.bundle import bundle_digest, write_bundle
from fairveil.federated.flower.certificates import AUTHORITY, CERTIFICATE, CLOCKS_APART, KEY, make_certificates
from fairveil.federated.flower.programs import HERE, KeptProgram, answers, environment, free_port, program
from fairveil.federated.journal import replace_file
from fairveil.federated.plan import LEAST_TIMEOUT, Plan

log = logging.getLogger("fairveil.federated")
LOOPBACK = "127.0.0.1"
START_SECONDS = 300.0
COMMAND_SECONDS = 300.0


class SuperLink:
    """Flower's server for one plan, in the coordinator's folder: database, node ids, log.

    Its port is on loopback and changes with every start; its certificate is its own. Nodes are registered by the keys
    of the plan and no others, once: a crash between registration and the note of its id registers that node again.
    """

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan, self.folder = plan, folder / "flower"
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not (self.folder / AUTHORITY).exists():
            (self.folder / KEY).unlink(missing_ok=True)
            make_certificates(self.folder, LOOPBACK)
        self.app = write_bundle(self.folder / "app" / "fairveil-federation")
        self.socket = folder / "pipe"
        self.kept = KeptProgram("superlink", self.folder)
        self.port = 0

    def digest(self) -> str:
        return bundle_digest(self.app)

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    def start(self) -> None:
        """Start it and wait until it answers."""
        self.port = free_port()
        certificates = [f"--ssl-ca-certfile={self.folder / AUTHORITY}", f"--ssl-certfile={self.folder / CERTIFICATE}"]
        self.kept.start(
            [
                sys.executable, "-I", str(HERE / "superlink.py"), str(CLOCKS_APART),
                f"--host={LOOPBACK}", f"--port={self.port}", *certificates, f"--ssl-keyfile={self.folder / KEY}",
                f"--database={self.folder / 'superlink.db'}", "--enable-supernode-auth",
                "--disable-runtime-dependency-installation",
            ],
            self._environment(), self.folder,
        )  # fmt: skip
        end = time.monotonic() + START_SECONDS
        while not answers(LOOPBACK, self.port):
            if not self.kept.running or time.monotonic() > end:
                self.kept.stop()
                raise StoreError("the SuperLink did not start", path=str(self.kept.log), fix="read its log")
            time.sleep(0.2)
        (self.folder / "config.toml").write_text(
            f'[superlink]\ndefault = "own"\n[superlink.own]\naddress = "{self.address}"\n'
            f"root-certificates = {json.dumps(str(self.folder / AUTHORITY))}\n"
        )

    def _environment(self) -> dict[str, str]:
        path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
        ours = {"FAIRVEIL_COORDINATOR": str(self.socket), "FAIRVEIL_TIMEOUT": str(ttl(self.plan))}
        return environment(self.folder, path, **ours)

    def _flwr(self, *words: str) -> dict[str, Any]:
        """One command of Flower's own line; what it says as JSON."""
        command = [program("flwr"), *words, "--format", "json"]
        try:
            done = subprocess.run(
                command, env=self._environment(), cwd=self.folder, capture_output=True, text=True,
                timeout=COMMAND_SECONDS, stdin=subprocess.DEVNULL,
            )  # fmt: skip
            found: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])
        except (subprocess.TimeoutExpired, ValueError):
            found = {"success": False}
        if not found.get("success"):
            log.warning("flwr %s did not succeed", words[0])
        return found

    # Nodes --------------------------------------------------------------------------------------------------------

    def nodes(self) -> dict[int, int]:
        """Which node is which party; registers those that are not yet."""
        file = self.folder / "nodes.json"
        known: dict[str, int] = json.loads(file.read_text()) if file.exists() else {}
        for member in self.plan.party:
            if member.name in known:
                continue
            public = self.folder / "node.pub"
            public.write_text(member.node_key + "\n")
            found = self._flwr("supernode", "register", str(public), "own")
            if not found.get("success"):
                self._forget_unknown(set(known.values()))
                found = self._flwr("supernode", "register", str(public), "own")
            if not found.get("success"):
                raise StoreError("a node could not be registered", path="node_key", given=member.name)
            known[member.name] = int(found["node-id"])
            replace_file(file, json.dumps(known).encode())
        return {self.plan.index(name): node for name, node in known.items()}

    def _forget_unknown(self, known: set[int]) -> None:
        """Unregister nodes whose ids a crash kept from being noted."""
        for node in self._flwr("supernode", "list", "own").get("nodes", []):
            if int(node["node-id"]) not in known and node.get("status") != "unregistered":
                self._flwr("supernode", "unregister", str(node["node-id"]), "own")

    def revoke(self, node: int) -> None:
        """Take a node's key back: its SuperNode is refused from now on."""
        self._flwr("supernode", "unregister", str(node), "own")

    def answers(self) -> bool:
        """Whether it listens: while one that was killed is cleared away, its program counts as running."""
        return answers(LOOPBACK, self.port)

    def submit(self) -> bool:
        """Start a run of the bundle; whether it was taken."""
        found = self._flwr("run", str(self.app), "own")
        log.info("run submitted" if found.get("success") else "the run was not taken")
        return bool(found.get("success"))

    def stop(self) -> None:
        self.kept.stop()


def ttl(plan: Plan) -> float:
    """How long a message lives: shorter than a party needs makes every round fail."""
    return max(plan.timeout, LEAST_TIMEOUT)
