"""Local loops: the reward is randomised on this machine, once per event, and only the bit is sent."""

from __future__ import annotations

import threading
from typing import Any

from fairveil.client.problems import Unreachable
from fairveil.client.synchronous import RemoteLoop


class LocalClient:
    """A person's side of a local loop. The service never sees a reward.

    Guarantee: that of the loop's policy, for one reward, against the service itself. A retry sends the same bit again:
    the reward of an event is randomised once, because two draws would tell more. Needs fairveil's own dependencies.
    """

    def __init__(self, loop: RemoteLoop) -> None:
        from fairveil import registry
        from fairveil.privacy.noise import SecureNoise

        self.loop = loop
        facts = loop.state()
        self.policy: Any = registry.build("policy", facts["policy"], "policy")
        if not self.policy.local:
            raise Unreachable("this loop takes rewards, not reports", given=facts["policy"]["name"], fix="use Client")
        self._low, self._high = float(facts["reward"]["low"]), float(facts["reward"]["high"])
        self._noise = SecureNoise()
        self._bits: dict[str, float] = {}
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
                self._bits[event] = float(report.value)
        return self.loop.reward(event, self._bits[event])
