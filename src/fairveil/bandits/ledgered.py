"""Run a policy under a privacy ledger: every release is charged before it is drawn and stored before it is used.

The ledger stores the numbers of one block with its header (arm, first and stop round), never raw sums and never what
was opened since. After a crash the same state asks for the same block again and `adopt` puts the stored numbers in; a
block that was charged and lost goes to the policy's `lost`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from typing import Any

from fairveil.bandits.protocol import Feedback, Policy, Report
from fairveil.configuration import lasting
from fairveil.errors import PrivacyError, SpecError
from fairveil.ledger import Account, Ledger, RunCost, release_once
from fairveil.ledger.account import check_single, ledger_of_run
from fairveil.ledger.account import releases_into as releases_into  # the name that docs of 0.1.0 have
from fairveil.privacy.events import NothingEvent
from fairveil.privacy.guarantee import Neighbours
from fairveil.privacy.noise import Noise
from fairveil.state import State

Pages = Callable[[int, int], Iterable[Iterable[Feedback | Report]]]
"""Pages of feedback of the rounds first .. stop - 1, in the order of rounds."""


def drive(
    policy: Policy,
    state: State,
    settled: int,
    ledger: Ledger,
    *,
    account: str = "policy",
    noise: Noise | None = None,
    rows: Pages | None = None,
    resume: bool = False,
    neighbours: Neighbours | str | None = None,
) -> State:
    """Make every release that is due at this number of settled (or decided) rounds, each through the ledger.

    The whole run is charged once, as ``account``, before the first release; an account belongs to one complete table
    of a policy, so policies that share a ledger have accounts of their own. BudgetError: nothing was charged or
    released, and the policy may go on deciding from what it has.
    ``rows``: where raw rows are kept outside the state, pages of a block's feedback; they are read once, in the draw.
    ``resume``: the state is a starting one, yet the account has blocks (a crash before the first state was saved);
    without it such a state is refused, because it would be served what another run has released.
    ``neighbours``: a policy that uses raw rows between releases protects less than an interaction with all that follows
    from it; it is refused unless the caller names its weaker neighbours.
    Nine arguments, since five are choices of a deployment that have a safe default each.
    """
    while (block := policy.due(state, settled)) is not None:
        check_promise(policy, neighbours)
        state = _release(policy, state, block, account_of(policy, ledger, account), noise, rows, resume)
    return state


def account_of(policy: Policy, ledger: Ledger, name: str = "policy") -> Account:
    """The whole run of a policy, bound to its complete table."""
    return Account(ledger, name, RunCost(policy.event()), fingerprint(policy))


def with_ledger(policy: Policy, spec: dict[str, Any], recorded: bool) -> Policy:
    """The policy as it is, or, inside `releases_into`, with every release charged and stored before it is used."""
    ledger = ledger_of_run()
    if ledger is None:
        return policy
    check_run(policy, spec, recorded)
    account = account_of(policy, ledger)
    asked: list[str] = []

    class Ledgered(type(policy)):  # type: ignore[misc]
        """Asks the ledger for what is due; played step by step."""

        def due(self, state: State, settled: int) -> str | None:
            block = policy.due(state, settled)
            asked[:] = [] if block is None else [block]
            return block

        def release(self, state: State, noise: Noise) -> State:
            return _release(policy, state, asked[0], account, noise, None, False)

        def simulator(self, case: Any, streams: Any) -> None:
            return None

    made: Policy = object.__new__(Ledgered)
    made.__dict__.update(policy.__dict__)
    return made


def check_run(policy: Policy, spec: dict[str, Any], recorded: bool) -> None:
    """Refuse what a ledger cannot stand for: invented people, several runs, noise that can be computed again."""
    fix = "leave --ledger out to study a policy"
    if not recorded:
        raise SpecError(
            "a ledger is for people's data, and this world is invented",
            path="environment.name",
            given=spec["environment"]["name"],
            allowed="an environment of recorded data",
            fix=fix,
        )
    check_single(spec, fix)
    if isinstance(policy.event(), NothingEvent):
        raise PrivacyError(
            "this policy spends nothing that a ledger could charge",
            path="policy.name",
            given=policy.name,
            allowed="a policy with a curator",
            fix=fix,
        )
    check_promise(policy, None)


def fingerprint(policy: Policy) -> str:
    """A digest of the policy's complete table: what an account is bound to."""
    table = json.dumps(lasting(policy), sort_keys=True)
    return hashlib.sha256(table.encode()).hexdigest()[:32]


def check_seats(account: Account, block: str) -> None:
    """Refuse seats of which the ledger has released some already, under another interval of their arm."""
    arm, first, stop = (int(part) for part in block.split("-"))
    start = account.block(f"{arm}-")
    for entry in account.ledger.entries():
        if entry["kind"] != "reserve" or not entry["name"].startswith(start) or entry["name"] == account.block(block):
            continue
        taken = entry["name"].removeprefix(start).split("-")
        if int(taken[0]) < stop and first < int(taken[1]):
            raise PrivacyError(
                "some of these rewards are in a release already",
                path="block",
                given=block,
                allowed=f"seats of arm {arm} that no release has",
                fix="go on from the state that was saved last before that release, which knows the seats",
            )


def _release(
    policy: Policy, state: State, block: str, account: Account, noise: Noise | None, rows: Pages | None, resume: bool
) -> State:
    after: list[State] = []
    if policy.clock == "arrived":
        check_seats(account, block)

    def draw(source: Noise) -> State:
        full = state
        opened = policy.block(state)
        if rows is not None and opened is not None:
            for page in rows(opened.first, opened.stop):
                full = policy.learn_all(full, page)
        if policy.clock != "decided":
            return policy.draw(full, source)
        after.append(policy.release(full, source))
        return {name: after[0][name] for name in policy.released}

    def adopt(value: State) -> State:
        return policy.adopt(state, block, value)

    # A decided clock may keep raw rows for later releases; they are in the state that was just made, not in the ledger.
    return release_once(account, account.block(block), draw, noise, resume=resume).answer(
        drawn=lambda value: after[0] if after else adopt(value),
        stored=adopt,
        lost=lambda _: policy.lost(state, block),
    )


def check_promise(policy: Policy, neighbours: Neighbours | str | None) -> None:
    """Refuse a policy without an established guarantee, or with weaker neighbours than the caller names."""
    guarantee = policy.guarantee()
    if guarantee is None or not guarantee.established:
        raise PrivacyError(
            "a ledger releases nothing without an established guarantee",
            path="policy",
            given=policy.name,
            fix="use a sound private variant",
        )
    if guarantee.neighbours is Neighbours.REPLACE_INTERACTION_ROWS_FIXED and neighbours != guarantee.neighbours:
        raise PrivacyError(
            "this policy uses own raw rows: a real interaction changes later rows, which its promise takes as fixed",
            path="neighbours",
            given=neighbours,
            allowed=guarantee.neighbours.value,
            fix="use the frozen policy, or name these weaker neighbours",
        )
    if not policy.released:
        raise PrivacyError(
            "this policy does not say which part of its state is released",
            path="policy.released",
            given=policy.name,
            allowed="names of state arrays without raw data",
            fix="name them in the policy's class: released = (...)",
        )
