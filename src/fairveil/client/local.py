"""Local loops: the reward is randomised on this machine, once per event, and only the bit is sent."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from pathlib import Path
from typing import Any

from fairveil.client.problems import Unreachable
from fairveil.client.synchronous import RemoteLoop


class LocalClient:
    """A person's side of a local loop. The service never sees a reward.

    Guarantee: that of the loop's policy, for one reward, against the service itself. A retry sends the same bit again:
    the reward of an event is randomised once, because two draws would tell more. ``memory``: a file that remembers the
    bits also when this program dies between two attempts; a bit is on disk before it is sent. Needs fairveil's own
    dependencies.
    """

    def __init__(self, loop: RemoteLoop, memory: str | os.PathLike[str] | None = None) -> None:
        from fairveil import registry
        from fairveil.privacy.noise import SecureNoise

        self.loop = loop
        facts = loop.state()
        self.policy: Any = registry.build("policy", facts["policy"], "policy")
        if not self.policy.local:
            raise Unreachable("this loop takes rewards, not reports", given=facts["policy"]["name"], fix="use Client")
        self._low, self._high = float(facts["reward"]["low"]), float(facts["reward"]["high"])
        self._noise = SecureNoise()
        self._memory = None if memory is None else Path(memory)
        self._bits: dict[str, float] = {} if self._memory is None else _remembered(self._memory)
        self._arms: dict[str, int] = {}
        self._guard = threading.Lock()

    def decide(self, event: str | None = None, **request: Any) -> dict[str, Any]:
        reply = self.loop.decide(event, **request)
        self._arms[reply["event_id"]] = int(reply["action"])
        return reply

    def reward(self, event: str, value: float) -> dict[str, Any]:
        """Randomise the reward here, remember the bit, send the bit."""
        from fairveil.bandits.protocol import Feedback

        with self._guard:
            if event not in self._bits:
                unit = (min(max(float(value), self._low), self._high) - self._low) / (self._high - self._low)
                report = self.policy.report(Feedback(0, self._arms.get(event, 0), unit), self._noise)
                self._remember(event, float(report.value))
        return self.loop.reward(event, self._bits[event])

    def _remember(self, event: str, bit: float) -> None:
        if self._memory is not None:
            descriptor = os.open(self._memory, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            with open(descriptor, "ab") as file:
                file.write(b"\n" + json.dumps([event, bit]).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
        self._bits[event] = bit


def _remembered(memory: Path) -> dict[str, float]:
    """The bits of a file; a line that is not whole was never sent."""
    bits: dict[str, float] = {}
    if memory.exists():
        for line in memory.read_bytes().splitlines():
            with contextlib.suppress(ValueError):
                event, bit = json.loads(line)
                bits.setdefault(event, bit)
    return bits
