"""Estimators whose pickles of version 0.1.0 must load and go on, and what is known about each fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fairveil import Ledger, generator
from fairveil.classify import (
    ExponentialFairClassifier,
    FairNRClassifier,
    PrivateFairClassifier,
    PrivateFairNRClassifier,
    PrivateGameClassifier,
    PrivateLogisticRegression,
)
from fairveil.consensus import ConsensusClassifier
from fairveil.privacy.limits import Limit


def people() -> tuple[Any, Any, Any]:
    rng = generator(31)
    X = rng.uniform(-0.5, 0.5, (240, 3))
    groups = rng.choice(["a", "b"], 240)
    y = (X[:, 0] + 0.2 * (groups == "a") + 0.2 * rng.normal(size=240) > 0).astype(int)
    return X, y, groups


def made(folder: Path) -> dict[str, Any]:
    """Estimators before their first fit; ``ledger.db`` is found in the working folder."""
    Ledger.create(folder / "ledger.db", limit=Limit.approximate(20.0, 1e-3, currency="epsilon")).close()
    return {
        "logistic": PrivateLogisticRegression(1.0, random_state=0),
        "planned-logistic": PrivateLogisticRegression(1.0, retrainings=3, ledger="ledger.db"),
        "fair": PrivateFairClassifier(1.0, rounds=20, random_state=0),
        "planned-fair": PrivateFairClassifier(1.0, rounds=20, retrainings=3, ledger="ledger.db"),
        "exponential": ExponentialFairClassifier(1.0, count=40, random_state=0),
        "game": PrivateGameClassifier(1.0, rounds=10, count=40, random_state=0),
        "fair-nr": FairNRClassifier(rounds=10, random_state=0),
        "private-fair-nr": PrivateFairNRClassifier(1.0, rounds=5, random_state=0),
        "consensus": ConsensusClassifier(3, epsilon=1.0, random_state=0),
    }


def fitted(model: Any, X: Any, y: Any, groups: Any) -> Any:
    grouped = not type(model).__name__.startswith(("PrivateLogistic", "Consensus"))
    return model.fit(X, y, **({"sensitive_features": groups} if grouped else {}))


def decided(model: Any, X: Any, groups: Any) -> Any:
    """What a fitted model says of people, without a coin."""
    if hasattr(model, "decision_chance"):
        return np.asarray(model.decision_chance(X, sensitive_features=groups))
    return np.asarray(model.predict_proba(X) if hasattr(model, "predict_proba") else model.decision_function(X))


def facts(model: Any, X: Any, groups: Any) -> dict[str, Any]:
    promise = getattr(model, "guarantee_", None)
    return {
        "decided": decided(model, X[:20], groups[:20]).tolist(),
        "guarantee": None if promise is None else promise.to_dict(),
        "parameters": {key: repr(value) for key, value in sorted(model.get_params(deep=False).items())},
    }
