"""Run a policy under a privacy ledger: every release is charged before it is drawn and stored before it is used.

The ledger stores only the arrays that a policy names in ``released``: values that were released and public counters,
never raw sums. After a crash the same state asks for the same block again and gets the stored value; a block that was
charged and lost goes to the policy's `lost`.
"""

from __future__ import annotations

from fairveil.bandits.protocol import Policy, State
from fairveil.errors import PrivacyError
from fairveil.privacy.ledger import Ledger, ReleaseLost
from fairveil.privacy.noise import Noise


def drive(
    policy: Policy, state: State, now: int, ledger: Ledger, *, account: str = "policy", noise: Noise | None = None
) -> State:
    """Make every release that is due when ``now`` rounds have been decided, each through the ledger.

    The whole run is charged once, as ``account``, before the first release. BudgetError: nothing was charged or
    released, and the policy may go on deciding from what it has. Policies that share a ledger have their own accounts.
    """
    while (block := policy.due(state, now)) is not None:
        state = _release(policy, state, block, ledger, account, noise)
    return state


def _release(policy: Policy, state: State, block: str, ledger: Ledger, account: str, noise: Noise | None) -> State:
    _check(policy)
    ledger.spend(account, policy.event(), releases=None)
    drawn: list[State] = []

    def draw(source: Noise) -> State:
        after = policy.release(state, source)
        drawn.append(after)
        return {name: after[name] for name in policy.released}

    try:
        stored = ledger.release(f"{account}/{block}", draw, account=account, noise=noise)
    except ReleaseLost:
        return policy.lost(state, block)
    if drawn:
        return drawn[0]
    # Published before a crash that came before the state was saved: drop the raw block, put the released values in.
    return {**policy.lost(state, block), **stored}


def _check(policy: Policy) -> None:
    guarantee = policy.guarantee()
    if guarantee is None or not guarantee.established:
        raise PrivacyError(
            "a ledger releases nothing without an established guarantee",
            path="policy",
            given=policy.name,
            fix="use a sound private variant",
        )
    if not policy.released:
        raise PrivacyError(
            "this policy does not say which part of its state is released",
            path="policy.released",
            given=policy.name,
            allowed="names of state arrays without raw data",
            fix="name them in the policy's class: released = (...)",
        )
