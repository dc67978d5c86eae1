"""Public facts of a world that a policy must agree with or assumes: one way from an environment into a policy's table.

An environment lists facts under the names of policy fields; a fact says what a field becomes that is left out, and
refuses a given value that does not fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairveil import registry
from fairveil.configuration import describe, field_names
from fairveil.errors import FairveilError, HorizonError, SpecError


class Fact:
    """Something public about a world or a run."""

    def settle(self, given: Any, path: str) -> Any:
        """The value of a policy's field: what was given if it fits, else an error; the fact where nothing is given."""
        raise NotImplementedError


@dataclass(frozen=True)
class Assumed(Fact):
    """A default that the spec may overrule."""

    value: Any

    def settle(self, given: Any, path: str) -> Any:
        return self.value if given is None else given


@dataclass(frozen=True)
class Same(Fact):
    """The policy must have exactly this."""

    value: Any

    def settle(self, given: Any, path: str) -> Any:
        if given is not None and given != self.value:
            raise SpecError(
                "the policy and the environment differ in what they must share",
                path=path,
                given=given,
                allowed=str(self.value),
                fix="leave it out: it follows from the environment",
            )
        return self.value


@dataclass(frozen=True)
class AtLeast(Fact):
    """The policy must be made for at least this much."""

    value: int
    problem: str
    fix: str = ""
    error: type[FairveilError] = SpecError

    def settle(self, given: Any, path: str) -> Any:
        if isinstance(given, int) and given < self.value:
            raise self.error(self.problem, path=path, given=given, allowed=f"at least {self.value}", fix=self.fix)
        return self.value if given is None else given


def horizon(rounds: int) -> dict[str, Fact]:
    """How long the run is: known to every policy that has a horizon."""
    return {
        "horizon": AtLeast(
            rounds,
            "the policy was built for fewer rounds",
            "raise horizon, or wrap the policy in anytime",
            HorizonError,
        )
    }


def settled_table(kind: str, table: dict[str, Any], facts: Mapping[str, Fact]) -> dict[str, Any]:
    """The table with every fact that its target has a field for filled in or checked."""
    target = registry.target_of(kind, table, kind)
    fields = field_names(target)
    known = {name: fact.settle(table.get(name), f"{kind}.{name}") for name, fact in facts.items() if name in fields}
    return {**table, **known}


def fitted(policy: Any, environment: Any, rounds: int) -> Any:
    """A policy with the public facts of a world filled in, as a spec would have it."""
    table = settled_table("policy", describe(policy), environment.facts(rounds))
    return registry.build("policy", table, "policy")
