"""What every mechanism has: a sensitivity, an event, and one release."""

from __future__ import annotations

from typing import Any

from fairveil.privacy.events import Event
from fairveil.privacy.noise import Noise


class Mechanism:
    """Public configuration of one release. The sensitivity and the budget fix the noise; nobody passes a scale."""

    name: str = ""

    def event(self) -> Event:
        """What one release costs, before any data."""
        raise NotImplementedError

    def release(self, value: Any, noise: Noise) -> Any:
        """The private answer. ``value`` is clipped to its public range first."""
        raise NotImplementedError
