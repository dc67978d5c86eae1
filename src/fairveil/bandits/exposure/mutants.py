"""Privacy mistakes planted in the served code of exposure policies: each must be caught by an audit or a law."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from fairveil.bandits.exposure.kernel import make_row, raw_row
from fairveil.bandits.exposure.private import PrivatePolicy
from fairveil.privacy.audit.mutants import Mutant, function, method
from fairveil.registry import register


def no_clip(policy: PrivatePolicy) -> AbstractContextManager[None]:
    """Rows enter the sum as they come."""
    return function(make_row, raw_row)


def row_kept(policy: PrivatePolicy) -> AbstractContextManager[None]:
    """The rows of a release stay and enter the next one too, as in the published listing."""

    def change(original: Callable[..., Any]) -> Callable[..., Any]:
        def broken(self: PrivatePolicy, state: Any, noise: Any) -> Any:
            after = original(self, state, noise)
            return after | {"leaf": state["leaf"].copy()}

        return broken

    return method(type(policy), "release", change)


@contextmanager
def raw_belief(policy: PrivatePolicy) -> Iterator[None]:
    """Decisions between releases read the agent's own raw rows, while the promise stays that of the frozen policy."""
    owner = type(policy)
    own = owner.__dict__["uses_local"]
    owner.uses_local = property(lambda self: True)  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        owner.uses_local = own  # type: ignore[method-assign]


MISTAKES = {
    "no-clip": ("contexts and rewards above their bounds", no_clip),
    "row-kept": ("a row that stays after its release", row_kept),
    "raw-belief": ("decisions that read unreleased rows", raw_belief),
}


def _registered(policy: str, name: str) -> None:
    words, plant = MISTAKES[name]

    def mutant(thing: PrivatePolicy) -> Mutant | None:
        # A policy that uses raw rows by its own promise cannot be broken that way.
        return None if name == "raw-belief" and thing.uses_local else Mutant(name, words, plant)

    mutant.__qualname__ = f"mutant[{policy}/{name}]"
    mutant.__doc__ = f"{words}, in {policy}".capitalize() + "."
    register("mutant", f"policy:{policy}/{name}")(mutant)


for _policy in ("priv-fairx", "batched-priv-fairx"):
    for _name in MISTAKES:
        _registered(_policy, _name)
