"""Run a policy under a privacy ledger: every release is charged before it is drawn and stored before it is used.

The ledger stores the numbers of one block with its header (arm, first and stop round), never raw sums and never what
was opened since. After a crash the same state asks for the same block again and `adopt` puts the stored numbers in; a
block that was charged and lost goes to the policy's `lost`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from fairveil.bandits.protocol import Feedback, Policy, Report
from fairveil.configuration import describe
from fairveil.errors import PrivacyError, SpecError
from fairveil.privacy.events import NothingEvent
from fairveil.privacy.guarantee import Neighbours
from fairveil.privacy.ledger import Ledger, ReleaseLost
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
        state = _release(policy, state, block, ledger, account=account, noise=noise, rows=rows, resume=resume)
    return state


_ledger: ContextVar[Ledger | None] = ContextVar("ledger", default=None)


@contextmanager
def releases_into(ledger: Ledger) -> Iterator[None]:
    """Runs of recorded data inside this block make their releases through the ledger: `fairveil run --ledger`."""
    token = _ledger.set(ledger)
    try:
        yield
    finally:
        _ledger.reset(token)


def with_ledger(policy: Policy, spec: dict[str, Any], recorded: bool) -> Policy:
    """The policy as it is, or, inside `releases_into`, with every release charged and stored before it is used."""
    found = _ledger.get()
    if found is None:
        return policy
    ledger: Ledger = found
    check_run(policy, spec, recorded)
    asked: list[str] = []

    class Ledgered(type(policy)):  # type: ignore[misc]
        """Asks the ledger for what is due; played step by step."""

        def due(self, state: State, settled: int) -> str | None:
            block = policy.due(state, settled)
            asked[:] = [] if block is None else [block]
            return block

        def release(self, state: State, noise: Noise) -> State:
            return _release(policy, state, asked[0], ledger, account="policy", noise=noise, rows=None, resume=False)

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
    if spec["runs"] != 1:
        raise SpecError("a ledger pays for one run", path="runs", given=spec["runs"], allowed="1", fix=fix)
    if spec["noise"] != "secure":
        raise SpecError(
            "a ledger takes secure noise only", path="noise", given=spec["noise"], allowed="secure", fix=fix
        )
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
    table = json.dumps(describe(policy), sort_keys=True)
    return hashlib.sha256(table.encode()).hexdigest()[:32]


def _release(
    policy: Policy,
    state: State,
    block: str,
    ledger: Ledger,
    *,
    account: str,
    noise: Noise | None,
    rows: Pages | None,
    resume: bool,
) -> State:
    ledger.spend(account, policy.event(), releases=None, holder=fingerprint(policy))
    name = f"{account}/{block}"
    if not resume and ledger.first_block(account) == name:
        raise PrivacyError(
            "this account has released its first block already, and the state has not",
            path="account",
            given=account,
            allowed="the state that was saved last, or an account of its own",
            fix="load the saved state; resume=True if the run stopped before its first state was saved",
        )

    drawn: list[State] = []

    def draw(source: Noise) -> State:
        full = state
        opened = policy.block(state)
        if rows is not None and opened is not None:
            for page in rows(opened.first, opened.stop):
                full = policy.learn_all(full, page)
        if policy.clock == "settled":
            return policy.draw(full, source)
        drawn.append(policy.release(full, source))
        return {name: drawn[0][name] for name in policy.released}

    try:
        value = ledger.release(name, draw, account=account, noise=noise)
    except ReleaseLost:
        return policy.lost(state, block)
    # A decided clock may keep raw rows for later releases; they are in the state that was just made, not in the ledger.
    return drawn[0] if drawn else policy.adopt(state, block, value)


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
