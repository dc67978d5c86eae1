"""Laws every policy keeps, built in or plugged in. `check_policy` runs them all and names the one that is broken.

>>> from fairveil import registry
>>> len(check_policy(registry.build("policy", {"name": "ucb", "arms": 3}, "policy"))) >= 8
True
"""

from __future__ import annotations

from collections.abc import Callable

from fairveil import registry
from fairveil.bandits import mutants as mutants  # its rules apply to every policy
from fairveil.bandits.environments.base import Environment
from fairveil.bandits.laws.conduct import (
    bounded_memory,
    cost_before_data,
    documented,
    pure_decide,
    same_seed_same_run,
    state_is_a_value,
    table_round_trip,
)
from fairveil.bandits.laws.lateness import (
    late_and_missing_rewards,
    learn_all_is_a_fold,
    order_of_arrival,
    too_late_changes_nothing,
)
from fairveil.bandits.laws.playing import WORLDS, placed
from fairveil.bandits.laws.releases import (
    adopting_is_releasing,
    any_noise,
    audited,
    blocks_are_forgotten,
    content_is_invisible,
    estimates_read_releases_only,
    lost_releases,
    nothing_exact_is_published,
    reports,
    rows_enter_by_themselves,
    under_a_ledger,
)
from fairveil.bandits.protocol import Policy
from fairveil.bandits.task import BanditTask
from fairveil.configuration import required
from fairveil.laws import check_laws

Law = Callable[[Policy, Environment], None]

ARMS = {"name": "bernoulli", "means": [0.2, 0.5, 0.8]}


@registry.register("laws", "policy")
def check_policy(policy: Policy, environment: Environment | None = None) -> list[str]:
    """Run every law; returns their names, raises ContractError at the first that is broken.

    Without an environment a policy that lacks public facts (features, groups, a scale) is completed first.
    """
    policy, world = (policy, environment) if environment is not None else placed(policy)
    return check_laws(LAWS, policy, world)


def fitting(name: str) -> tuple[Policy, Environment]:
    """A registered policy and a world of its family, completed against each other as a spec would be."""
    target = registry.get("policy", name)
    table = WORLDS[target.family] if target.family not in ("", "nash") else ARMS
    world: Environment = registry.build("environment", table, "environment")
    example = target.example()
    own = {key: getattr(example, key) for key in required(target) if key not in world.facts(1000)}
    spec = {"task": "bandit", "rounds": 1000, "policy": {"name": name, **own}, "environment": table}
    full = BanditTask().complete(spec)
    return registry.build("policy", full["policy"], "policy"), registry.build(
        "environment", full["environment"], "environment"
    )


LAWS: dict[str, Law] = {
    law.__name__: law
    for law in (
        table_round_trip,
        cost_before_data,
        documented,
        pure_decide,
        same_seed_same_run,
        state_is_a_value,
        late_and_missing_rewards,
        order_of_arrival,
        too_late_changes_nothing,
        learn_all_is_a_fold,
        adopting_is_releasing,
        reports,
        any_noise,
        content_is_invisible,
        rows_enter_by_themselves,
        blocks_are_forgotten,
        nothing_exact_is_published,
        lost_releases,
        under_a_ledger,
        estimates_read_releases_only,
        bounded_memory,
        audited,
    )
}
