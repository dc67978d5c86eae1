"""What a ledger holds, spent and has left, as public tables."""

from __future__ import annotations

from typing import Any

from fairveil.ledger import Ledger
from fairveil.privacy.charges import DELTA_UNITS, UNITS, Currency
from fairveil.privacy.conversions import gdp_epsilon, zcdp_epsilon
from fairveil.privacy.guarantee import Guarantee


def ledger_table(name: str, ledger: Ledger, guarantee: Guarantee | None) -> dict[str, Any]:
    now = ledger.filter
    words = now.limit.words
    amount = now.spent.units / UNITS[now.limit.currency]
    delta = now.spent.delta_units / DELTA_UNITS
    target = guarantee.delta if guarantee is not None and guarantee.delta else 1e-6
    if now.limit.currency is Currency.EPSILON:
        epsilon = amount
    else:
        convert = zcdp_epsilon if now.limit.currency is Currency.ZCDP else (lambda a, d: gdp_epsilon(a**0.5, d))
        rest = max(target - delta, target / 2)
        epsilon, delta = (convert(amount, rest) if amount > 0 else 0.0), max(target, delta)
    return {
        "ledger": name,
        "definition": now.limit.currency.value,
        "unit": "" if guarantee is None else guarantee.unit,
        "limit": words(now.limit.total),
        "spent": words(now.spent),
        "reserved": words(now.reserved),
        "remaining": words(now.remaining),
        "epsilon": epsilon,
        "delta": delta,
        "simulated": ledger.simulated,
        "upper_bound": "upper bound by this ledger's currency",
        "words": f"{words(now.spent)} of {words(now.limit.total)} is spent; {words(now.remaining)} is left",
    }


def accounts(ledger: Ledger) -> list[dict[str, Any]]:
    """What was paid for in advance."""
    limit = ledger.limit
    return [
        {"name": entry["name"], "time": entry["time"], "charge": limit.words(type(limit.total)(*entry["charge"]))}
        for entry in ledger.entries()
        if entry["kind"] == "account"
    ]
