"""What is recorded: small seeded specs of every task, policy, variant, releaser, learner and algorithm, by a name.

All data are generated or written here, so that the list runs everywhere. A spec of a new name is one entry.
"""

from __future__ import annotations

from typing import Any

Spec = dict[str, Any]

ARMS = {"name": "bernoulli", "means": [0.2, 0.5, 0.8]}
LATE = {"delay": ["geometric", 4], "missing": 0.1}
BOUNDED_A = {"0": ["truncnorm", 4, 5, -8, 19], "1": ["truncnorm", 20, 6, 5, 35]}
BOUNDED_B = {"0": ["truncnorm", 8, 3, -6, 25], "1": ["truncnorm", 27, 6, 9, 43]}
NORMAL = {"0": ["normal", -5, 5], "1": ["normal", 5, 5]}
STAYING = {
    "a": {"arrivals": 1e4, "qualified": 0.6, "features": BOUNDED_A},
    "b": {"arrivals": 1e4, "qualified": 0.4, "features": BOUNDED_B},
}
ROWS = {"skill": [1, 2, 3, 4, 5, 6, 7, 8] * 8, "site": ["n", "s"] * 32, "rating": [2, 1, 4, 3, 6, 5, 8, 7] * 8}
COLUMNS = {"skill": {"low": 0.0, "high": 10.0}, "site": {"values": ["n", "s"]}}


def bandit(name: str, environment: Spec, rounds: int = 400, feedback: Spec | None = None, **policy: Any) -> Spec:
    spec = {"task": "bandit", "rounds": rounds, "runs": 2, "seed": 7, "checkpoints": [rounds // 4, rounds]}
    late = {} if feedback is None else {"feedback": feedback}
    return {**spec, **late, "policy": {"name": name, **policy}, "environment": environment}


def nash() -> dict[str, Spec]:
    """Plain arms: every policy and variant, late and missing rewards, the five worlds."""
    coins = {"means": [0.3, 0.6]}
    log = {"file": {"arm": ["a", "b"] * 300, "outcome": [0, 1, 1, 1, 0, 1] * 100}, "arm": "arm", "outcome": "outcome"}
    table = {"name": "table", "rewards": [[0.0, 1.0, 0.5, 0.25], [1.0, 1.0, 0.0, 0.5]] * 60}
    private = {"epsilon": 1.0}
    return {
        "adap-ucb": bandit("adap-ucb", ARMS, **private),
        "adap-ucb/figure": bandit("adap-ucb", ARMS, **private, variant="figure"),
        "adap-ucb late": bandit("adap-ucb", ARMS, feedback=LATE, **private),
        "anytime gdp-ncb": bandit("anytime", ARMS, inner={"name": "gdp-ncb", **private}),
        "anytime ncb": bandit("anytime", ARMS, inner={"name": "ncb"}),
        "gdp-ncb": bandit("gdp-ncb", ARMS, **private),
        "gdp-ncb long": bandit("gdp-ncb", {"name": "mixed", **coins}, rounds=4000, epsilon=2.0, phase_rounds=60),
        "gdp-ncb threshold": bandit("gdp-ncb", ARMS, 2000, **private, phase1="threshold", tau=20.0, episodes="forget"),
        "gdp-ncb/figure": bandit("gdp-ncb", ARMS, **private, variant="figure"),
        "gdp-ncb/printed": bandit("gdp-ncb", ARMS, **private, variant="printed"),
        "kl-ucb": bandit("kl-ucb", ARMS),
        "ldp-ncb": bandit("ldp-ncb", ARMS, **private),
        "ldp-ncb/figure": bandit("ldp-ncb", ARMS, **private, variant="figure"),
        "ldp-ncb/printed": bandit("ldp-ncb", ARMS, **private, variant="printed"),
        "ldp-ucb": bandit("ldp-ucb", ARMS, **private),
        "ldp-ucb/figure": bandit("ldp-ucb", ARMS, **private, variant="figure"),
        "local-nash": bandit("local-nash", {"name": "extreme"}, **private),
        "local-nash late": bandit("local-nash", ARMS, feedback={"delay": 5, "missing": 0.2}, **private),
        "ncb": bandit("ncb", ARMS),
        "ncb/printed": bandit("ncb", ARMS, variant="printed"),
        "private-nash": bandit("private-nash", ARMS, **private),
        "private-nash late": bandit("private-nash", ARMS, feedback=LATE, **private),
        "private-nash private arrivals": bandit(
            "private-nash", ARMS, feedback={**LATE, "treat": "default", "default": 0.5}, **private, arrivals="private"
        ),
        "private-nash logged": bandit("private-nash", {"name": "logged", "log": log}, rounds=200, **private),
        "private-nash table": bandit("private-nash", table, rounds=100, **private),
        "random": bandit("random", ARMS),
        "thompson": bandit("thompson", ARMS),
        "ucb": {**bandit("ucb", ARMS), "powers": [-1.0, 0.0, 0.5]},
        "ucb late": bandit("ucb", ARMS, feedback={"delay": ["uniform", 2, 9], "window": 20}),
    }


def meritocratic() -> dict[str, Spec]:
    """Candidates of groups, one is chosen each round."""
    census = {"name": "synthetic-census", "people_per_group": 300}
    two = {"name": "gaussian", "weights": [1.0, 0.5], "means": [[0.0, 0.0], [1.0, 0.0]]}
    own = {
        "name": "people", "file": ROWS, "outcome": "rating", "groups_by": ["site"], "columns": COLUMNS, "high": 10.0
    }  # fmt: skip
    private = {"epsilon": 1.0, "delta": 1e-5}
    return {
        "fair-greedy": bandit("fair-greedy", two, 120),
        "greedy": bandit("greedy", two, 120),
        "oful": bandit("oful", two, 120),
        "private-fair-greedy": bandit("private-fair-greedy", two, 120, **private, bound=2.0),
        "private-fair-greedy/printed": bandit("private-fair-greedy", two, 120, **private, bound=2.0, variant="printed"),
        "batched-private-fair-greedy": bandit("batched-private-fair-greedy", census, 300, **private),
        "batched-private-fair-greedy late": bandit(
            "batched-private-fair-greedy", {**two, "delay": 6.0, "missing": 0.1, "presence": 0.8}, 300, **private
        ),
        "batched-private-fair-greedy people": bandit("batched-private-fair-greedy", own, 200, **private),
        "random candidates": bandit("random", two, 120),
    }


def exposure() -> dict[str, Spec]:
    """Agents that show items in proportion to merit."""
    world = {"name": "exposure", "agents": 3, "actions": 4, "dimension": 2}
    items = {
        "name": "items",
        "file": {**ROWS, "sold": [0, 1, 0, 0, 1, 1, 0, 1] * 8},
        "outcome": "sold",
        "columns": COLUMNS,
        "actions": 4,
    }
    private = {"epsilon": 2.0, "delta": 1e-5}
    return {
        "fairx-linucb": bandit("fairx-linucb", world, 120),
        "fed-fairx": bandit("fed-fairx", world, 120),
        "priv-fairx": bandit("priv-fairx", world, 120, **private),
        "priv-fairx determinant": bandit("priv-fairx", world, 120, **private, schedule={"name": "determinant"}),
        "priv-fairx/printed": bandit("priv-fairx", world, 120, epsilon=4.0, delta=0.1, variant="printed"),
        "priv-fairx/dubey-pentland": bandit("priv-fairx", world, 120, epsilon=4.0, delta=0.1, variant="dubey-pentland"),
        "batched-priv-fairx": bandit("batched-priv-fairx", world, 120, **private),
        "batched-priv-fairx personal": bandit("batched-priv-fairx", world, 120, **private, personal=True),
        "batched-priv-fairx late": bandit("batched-priv-fairx", world, 120, {"delay": ["uniform", 1, 6]}, **private),
        "batched-priv-fairx items": bandit("batched-priv-fairx", {**items, "agents": 2}, 120, **private),
    }


def classify() -> dict[str, Spec]:
    def learn(name: str, rows: int = 1500, **more: Any) -> Spec:
        data = {"name": "synthetic-adult", "sensitive": ["sex"], "rows": rows}
        return {"task": "classify", "runs": 2, "seed": 3, "learner": {"name": name, **more}, "data": data}

    private = {"epsilon": 1.0, "delta": 1e-5}
    return {
        "logistic": learn("logistic"),
        "fair-reductions": learn("fair-reductions", iterations=5),
        "threshold-optimizer": learn("threshold-optimizer"),
        "private-logistic": learn("private-logistic", **private),
        "private-logistic output": learn("private-logistic", method="output", definition="pure", epsilon=1.0),
        "private-fair": learn("private-fair", **private),
        "private-fair blind parity": learn(
            "private-fair", **private, fairness="demographic-parity", awareness="blind", rounds=40
        ),
        "fair-nr": learn("fair-nr", rounds=20),
        "private-fair-nr": learn("private-fair-nr", **private, rounds=10),
        "private-game": learn("private-game", **private, rounds=10, count=50),
        "exponential-fair": learn("exponential-fair", **private, count=50),
    }


def consensus() -> dict[str, Spec]:
    def agree(name: str, iterations: int = 6, **more: Any) -> Spec:
        data = {"name": "logistic", "rows": 600, "features": 4, "test": 200}
        spec = {"task": "consensus", "seed": 5, "nodes": 3, "graph": "ring", "iterations": iterations, "data": data}
        return {**spec, "runs": 1, "algorithm": {"name": name, **more}}

    return {
        "admm": agree("admm"),
        "m-admm": agree("m-admm", growth=1.1),
        "r-admm": agree("r-admm", loss={"name": "huber-hinge"}),
        "mr-admm": agree("mr-admm"),
        "private-admm": {**agree("private-admm", epsilon=1.0), "runs": 2, "graph": "complete"},
        "private-m-admm": agree("private-m-admm", epsilon=2.0),
        "private-r-admm": agree("private-r-admm", epsilon=2.0),
        "private-mr-admm": agree("private-mr-admm", epsilon=2.0, perturb="gaussian-primal", delta=1e-5),
        "dvp": agree("dvp", epsilon=2.0),
        "pvp": agree("pvp", epsilon=2.0),
    }


def stream() -> dict[str, Spec]:
    def release(name: str, rows: int = 60, **more: Any) -> Spec:
        data = {"name": "binomial-ar1", "rows": rows}
        return {
            "task": "stream",
            "runs": 2,
            "seed": 2,
            "releaser": {"name": name, "epsilon": 2.0, **more},
            "data": data,
        }

    small = {"delta": 1e-5}
    seasonal = {"name": "seasonal", "rows": 60, "periods": [6], "level": 20.0, "amplitude": 10.0, "std": 3.0}
    return {
        "baseline-laplace": release("baseline-laplace"),
        "baseline-laplace event": release("baseline-laplace", unit="event"),
        "baseline-gaussian": release("baseline-gaussian", **small),
        "baseline-gaussian window": release("baseline-gaussian", **small, unit="window", window=8, horizon=60),
        "ba": release("ba", unit="window", window=10, horizon=60),
        "bd": release("bd", unit="window", window=10, horizon=60),
        "bd sequence": release("bd"),
        "dft": release("dft", frequencies=4),
        "dft delayed": release("dft", frequencies=3, delay=20),
        "fast": release("fast", samples=15),
        "predictive": release("predictive", **small, nonnegative=True, round=True),
        "predictive oracle": release("predictive", rows=40, **small, weight="oracle"),
        "private-kalman": {**release("private-kalman", **small, seasons=[6]), "data": seasonal},
    }


def dynamics() -> dict[str, Spec]:
    strategic = {
        "a": {"share": 0.6, "qualified": 0.7, "features": NORMAL, "cost": ["beta", 10, 2]},
        "b": {"share": 0.4, "qualified": 0.4, "features": NORMAL, "cost": ["uniform", 0, 1]},
    }
    moving = {
        "a": {"share": 0.5, "qualified": 0.5, "features": NORMAL, "transitions": [[0.4, 0.5], [0.5, 0.9]]},
        "b": {"share": 0.5, "qualified": 0.5, "features": NORMAL, "transitions": [[0.1, 0.5], [0.5, 0.7]]},
    }
    arriving = {name: {**group, "arrivals": 120} for name, group in STAYING.items()}
    here = {name: {"qualified": group["qualified"], "features": group["features"]} for name, group in STAYING.items()}
    learner = {"name": "private-logistic", "epsilon": 1.0}
    longterm = {"task": "longterm", "learner": learner, "steps": 3, "runs": 2, "evaluation": 200, "seed": 4}
    compas = {"task": "qualification-trained", "data": "synthetic-compas", "rows": 400, "points": 5, "seed": 1}
    people = {"task": "participation-trained", "data": "synthetic-adult", "column": "sex", "value": "Female"}
    return {
        "strategic dp": {
            "task": "strategic", "groups": strategic, "fairness": "dp", "points": 256,
            "grid": {"groups.a.cost.2": [1.0, 5.0], "groups.b.share": [0.3, 0.4]},
        },
        "strategic eqopt": {"task": "strategic", "groups": strategic, "fairness": "eqopt", "points": 256},
        "strategic naive": {
            "task": "strategic", "groups": strategic, "strategic": False, "points": 256,
            "grid": {"utility.gain": [1.0, 2.0]},
        },
        "qualification": {"task": "qualification", "groups": moving, "steps": 20},
        "qualification dp": {"task": "qualification", "groups": moving, "fairness": "dp", "steps": 20},
        "qualification simple": {"task": "qualification", "groups": moving, "fairness": "simple", "steps": 20},
        "participation": {"task": "participation", "groups": STAYING, "steps": 15},
        "participation simple": {"task": "participation", "groups": STAYING, "fairness": "simple", "steps": 15},
        "participation eqopt": {
            "task": "participation", "groups": STAYING, "fairness": "eqopt", "rate": "fpr", "steps": 15
        },
        "participation eqloss join": {
            "task": "participation", "groups": STAYING, "fairness": "eqloss", "growth": "join", "steps": 15
        },
        "participation learned": {
            "task": "participation", "groups": STAYING, "fairness": "dp", "decisions": "learned", "steps": 6, "seed": 1
        },
        "participation-criterion": {
            "task": "participation-criterion", "groups": STAYING, "points": 11, "steps": 6, "seed": 1
        },
        "participation-trained": {**people, "rows": 400, "points": 3, "steps": 6, "seed": 2},
        "qualification-trained": {
            **compas, "cutoffs": [0.5, 0.8, 0.2], "transitions": [[[0.4, 0.5], [0.5, 0.9]], [[0.1, 0.5], [0.5, 0.7]]]
        },
        "longterm participation": {**longterm, "groups": arriving},
        "longterm qualification": {
            **longterm, "model": "qualification", "groups": here, "people": 200,
            "learner": {"name": "fair-reductions", "iterations": 4}, "transitions": [[0.2, 0.5], [0.6, 0.9]],
        },
    }  # fmt: skip


def the_rest() -> dict[str, Spec]:
    """Audits, values of rules, exact fractions, theorems."""
    rows = {"drug": ["a", "b", "c"] * 60, "recovered": [0, 1, 1, 1, 0, 1] * 30, "p": [0.25, 0.25, 0.5] * 60}
    log = {"file": rows, "arm": "drug", "outcome": "recovered", "propensity": "p", "arms": ["a", "b", "c"]}
    value = {"task": "evaluate", "seed": 6, "log": log}

    def audit(kind: str, name: str, trials: int = 2000, **more: Any) -> Spec:
        return {"task": "audit", "seed": 8, "trials": trials, "target": {"kind": kind, "name": name, **more}}

    return {
        "audit laplace": audit("mechanism", "laplace", sensitivity=1.0, epsilon=1.0),
        "audit gaussian": audit("mechanism", "gaussian", sensitivity=1.0, epsilon=1.0, delta=1e-5),
        "audit tree": audit("sum", "tree", 500, releases=8, epsilon=1.0, delta=1e-5),
        "audit private-nash": audit("policy", "private-nash", 500, arms=3, epsilon=1.0),
        "audit ba": audit("releaser", "ba", 500, epsilon=1.0, horizon=8),
        "evaluate": {**value, "target": {"name": "arm", "arm": "c"}},
        "evaluate mixture": {**value, "target": {"name": "mixture", "shares": [0.5, 0.25, 0.25]}, "clip": 2.0},
        "evaluate private": {**value, "target": {"name": "uniform"}, "epsilon": 1.0, "clip": 4.0},
        "evaluate private gaussian": {
            **value, "target": {"name": "arm", "arm": "b"}, "epsilon": 1.0, "delta": 1e-5, "clip": 4.0
        },
        "impossibility": {"task": "impossibility", "levels": 6, "printed_levels": 4},
        "theorem 15": {"task": "theorem", "statement": "theorem 15", "count": 5, "seed": 1},
        "theorem 17": {"task": "theorem", "statement": "theorem 17", "count": 4, "seed": 1},
        "theorem 22": {"task": "theorem", "statement": "theorem 22", "count": 5, "seed": 1},
        "proposition 8": {"task": "theorem", "statement": "proposition 8", "count": 3, "seed": 1},
    }  # fmt: skip


SPECS: dict[str, Spec] = {
    **nash(), **meritocratic(), **exposure(), **classify(), **consensus(), **stream(), **dynamics(), **the_rest()
}  # fmt: skip
