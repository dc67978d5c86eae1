"""Decisions that wait for their rewards: loops, windows, blocks and a durable store, without HTTP."""

from fairveil.loop.clock import ManualClock, SystemClock
from fairveil.loop.config import Budget, Feature, Person, Retention, Reward
from fairveil.loop.events import Reply, RewardReply
from fairveil.loop.loop import Loop
from fairveil.loop.store import Store

__all__ = [
    "Budget",
    "Feature",
    "Loop",
    "ManualClock",
    "Person",
    "Reply",
    "Retention",
    "Reward",
    "RewardReply",
    "Store",
    "SystemClock",
]
