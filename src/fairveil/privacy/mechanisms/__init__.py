"""One release each: every mechanism carries its sensitivity, its event and its proof."""

from fairveil.privacy.mechanisms.base import Mechanism
from fairveil.privacy.mechanisms.one_bit import OneBit

__all__ = ["Mechanism", "OneBit"]
