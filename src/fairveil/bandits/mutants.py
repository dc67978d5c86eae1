"""Privacy mistakes that any policy could make, planted in its served methods; families add their own.

What is kept of a state is what the policy does not name in ``released``: raw rows and their counters.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from fairveil.bandits.protocol import Feedback, Policy, Report
from fairveil.privacy.audit.mutants import Mutant, method, no_clip, rule, together
from fairveil.privacy.noise import Noise
from fairveil.state import State

Method = Callable[..., Any]


def row_kept(policy: Policy) -> AbstractContextManager[None]:
    """Raw rows stay in the state after their release and enter the next one too."""
    raw = tuple(name for name in policy.start() if name not in policy.released and name not in ("handed", "answered"))

    def kept(original: Method) -> Method:
        def broken(self: Policy, state: State, *more: Any) -> State:
            after: State = original(self, state, *more)
            return after | {name: state[name] for name in raw if name in state}

        return broken

    served = ("adopt", "release") if policy.clock == "settled" else ("release",)
    return together(*(method(type(policy), name, kept) for name in served))


def kept_after_loss(policy: Policy) -> AbstractContextManager[None]:
    """The rows of a lost block stay and enter the next one, although somebody may have seen the draw."""
    raw = tuple(name for name in policy.start() if name not in policy.released and name not in ("handed", "answered"))

    def kept(original: Method) -> Method:
        def broken(self: Policy, state: State, block: str) -> State:
            after: State = original(self, state, block)
            return after | {name: state[name] for name in raw if name in state}

        return broken

    return method(type(policy), "lost", kept)


def raw_report(policy: Policy) -> AbstractContextManager[None]:
    """A device sends the reward itself."""

    def change(original: Method) -> Method:
        def broken(self: Policy, feedback: Feedback, noise: Noise) -> Report:
            return Report(feedback.index, feedback.arm, feedback.reward, feedback.round)

        return broken

    return method(type(policy), "report", change)


def closed_by_content(policy: Policy) -> AbstractContextManager[None]:
    """When a block is due depends on its raw content: on one bit of a checksum of it."""

    def change(original: Method) -> Method:
        def broken(self: Policy, state: State, settled: int) -> str | None:
            block = self.block(state)
            raw = [name for name in state if name not in self.released and name not in ("handed", "answered")]
            content = sum(float(abs(state[name]).sum()) for name in raw if state[name].dtype.kind in "if")
            told = zlib.crc32(repr(content).encode()) & 1
            return block.name if block is not None and told else original(self, state, settled)

        return broken

    return method(type(policy), "due", change)


@rule
def policy_mutants(kind: str, thing: Any) -> list[Mutant]:
    """What applies to any policy that makes a promise."""
    if kind != "policy" or not isinstance(thing, Policy):
        return []
    if thing.local:
        return [Mutant("raw-report", "a report without randomisation", raw_report)]
    found = [Mutant("no-clip", "rewards and rows enter as they come", no_clip)]
    if thing.released and not thing.keeps_history:
        found.append(Mutant("row-kept", "a row that stays after its release", row_kept))
    if thing.clock == "settled":
        found.append(Mutant("closed-by-content", "a block that closes by its raw content", closed_by_content))
        found.append(Mutant("kept-after-loss", "rows of a lost block that enter the next", kept_after_loss))
    return found
