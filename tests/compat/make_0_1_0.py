"""Write the files of version 0.1.0 that later versions must continue: run once, under that version.

    PYTHONPATH=src python tests/compat/make_0_1_0.py      # with the source of version 0.1.0

Processes that die are real: each is a fork that ends without a word at a named place (`privacy.ledger.faults`), so
that blocks stay reserved, drawn and not adopted, or lost. ``files/facts.json`` holds what a reader saw at the time.
"""

from __future__ import annotations

import gzip
import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

import compat_estimators
from compat_plays import (
    FILES,
    RELEASERS,
    act,
    agent_policy,
    choice,
    driven,
    packed,
    plain,
    policy_of,
    releaser_of,
    rows_of,
    step,
    story,
    until_due,
    values_of,
)
from fairveil.privacy.ledger import Limit
from make_databases import Facts, dying, ledgers, loops, on_a_server

import fairveil
from fairveil import Ledger, SeededNoise, registry
from fairveil.bandits.exposure.agent import Agent
from fairveil.consensus import Inline, Node, PrivateAdmm, PrivateMrAdmm, Setting, make_graph
from fairveil.state import save_state
from fairveil.streams import Stream

# Policies ------------------------------------------------------------------------------------------------------------

NASH = {"arms": 3}
COLUMNS = {"columns": [0, 1], "centre": [0.0, 0.0], "spread": [1.0, 1.0], "norm": 2.0}
SCALING = {"kind": "declared", **COLUMNS, "reward_centre": 0.5, "reward_bound": 0.5}
PAID: dict[str, dict[str, Any]] = {
    "private-nash": {**NASH, "epsilon": 1.0},
    "adap-ucb": {**NASH, "epsilon": 1.0},
    "gdp-ncb": {**NASH, "horizon": 600, "epsilon": 1.0},
    "anytime": {**NASH, "inner": {"name": "gdp-ncb", "epsilon": 1.0}},
    "batched-private-fair-greedy": {
        "groups": 2,
        "features": 2,
        "epsilon": 5.0,
        "delta": 1e-5,
        "first_batch": 16,
        "scaling": SCALING,
    },
    "priv-fairx": {"agents": 3, "dimension": 2, "horizon": 200, "epsilon": 2.0, "delta": 1e-5},
    "batched-priv-fairx": {"agents": 3, "dimension": 2, "horizon": 200, "epsilon": 2.0, "delta": 1e-5},
}
FREE: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("kl-ucb", "thompson", "ucb", "random"), NASH),
    **{name: {**NASH, "horizon": 600} for name in ("ncb",)},
    **{name: {**NASH, "epsilon": 1.0} for name in ("ldp-ucb", "local-nash")},
    "ldp-ncb": {**NASH, "horizon": 600, "epsilon": 1.0},
    "private-fair-greedy": {
        "groups": 2,
        "features": 2,
        "epsilon": 1.0,
        "delta": 1e-5,
        "bound": 2.0,
        "rounds": 60,
        "candidates": 4,
        "per_group": 2,
    },
    "fair-greedy": {"groups": 2, "features": 2},
    "greedy": {"features": 2},
    "oful": {"features": 2},
    "fairx-linucb": {"agents": 3, "dimension": 2, "horizon": 200},
    "fed-fairx": {"agents": 3, "dimension": 2, "horizon": 200},
}


def states(folder: Path) -> Facts:
    """Saved states of every policy; of those with a ledger before and after a release, and before a lost one."""
    facts: Facts = {}
    for name, more in FREE.items():
        table = {"name": name, **more}
        policy = policy_of(table)
        state = policy.start()
        for index in range(40):
            state = step(policy, table, state, index)
            while policy.due(state, index + 1) is not None:
                state = policy.release(state, SeededNoise(2, index))
        (folder / f"{name}.npz").write_bytes(save_state(state))
        facts[name] = {"table": table, "rounds": 40, "next": choice(policy, table, state, 40)}
    for name, more in PAID.items():
        table = {"name": name, **more}
        facts[name] = paid_states(folder, table)
    return facts


def paid_states(folder: Path, table: dict[str, Any]) -> Facts:
    policy, name = policy_of(table), table["name"]
    path = folder / f"{name}.db"
    with Ledger.create(path, limit=Limit.covering(policy.event()), simulated=True) as ledger:
        first, rounds = until_due(policy, table, policy.start(), 0)
        state = driven(policy, first, rounds, ledger)
        before, rounds = until_due(policy, table, state, rounds)
        after = driven(policy, before, rounds, ledger)
        told = story(ledger)
    for kind, kept in {"before": before, "after": after}.items():
        (folder / f"{name}.{kind}.npz").write_bytes(save_state(kept))
    last, at = until_due(policy, table, after, rounds)
    (folder / f"{name}.lost.npz").write_bytes(save_state(last))
    block = policy.due(last, at)
    dying("draw", lambda: driven(policy, last, at, Ledger.open(path, simulated=True)))
    return {
        "table": table, "rounds": rounds, "next": choice(policy, table, after, rounds), "lost_at": at,
        "lost": f"policy/{block}", "ledger": told,
    }  # fmt: skip


# Streams, agents, nodes ----------------------------------------------------------------------------------------------


def streams(folder: Path) -> Facts:
    """Journals with stored and lost steps; what the next steps show with fixed noise."""
    facts: Facts = {}
    for name in RELEASERS:
        releaser, path = releaser_of(name), folder / f"{name}.db"
        with Ledger.create(path, limit=Limit.covering(releaser.event()), simulated=True) as ledger:
            stream = Stream(releaser, ledger, noise=SeededNoise(3))
            shown = [stream.release(z) for z in values_of(0, 9)]
            shown += stream.release_many(values_of(9, 6))
            stream.close()
            told = story(ledger)

        def dies(path: Path = path, releaser: Any = releaser) -> None:
            stream = Stream(releaser, Ledger.open(path, simulated=True), noise=SeededNoise(4))
            stream.release_many(values_of(15, 3))

        dying("draw", dies, after=2 if name == "baseline-gaussian" else 1)
        with tempfile.TemporaryDirectory() as copy:
            shutil.copytree(folder, copy, dirs_exist_ok=True)
            with Ledger.open(Path(copy, f"{name}.db"), simulated=True) as ledger:
                stream = Stream(releaser, ledger, noise=SeededNoise(8))
                after = [stream.release(z) for z in values_of(18, 5)]
                stream.close()
        facts[name] = {"ledger": told, "shown": [list(one) for one in shown], "next": [list(one) for one in after]}
    return facts


def command(folder: Path) -> Facts:
    """What `fairveil release` leaves when it is told to stop: input, ledger, output."""
    lines = ["" if value is None else f"{value:g}" for value in values_of(0, 12)]
    (folder / "in.csv").write_text("n\n" + "\n".join(lines) + "\n")
    options = ["--column", "n", "--epsilon", "1", "--delta", "1e-7", "--horizon", "40"]
    options += ["--ledger", "n.db", "--out", "out.csv"]
    call = [sys.executable, "-c", "from fairveil.cli import main; main()", "release", "--in", "in.csv", *options]
    subprocess.run(call, check=True, cwd=folder)
    with Ledger.open(folder / "n.db") as ledger:
        return {"options": options, "out": (folder / "out.csv").read_text(), "ledger": story(ledger)}


def agents(folder: Path) -> Facts:
    """Agent 0 was saved after its message, agent 1 before (the ledger has it), agent 2 died while it drew."""
    facts: Facts = {}
    for name in ("batched-priv-fairx", "priv-fairx"):
        policy, table = agent_policy(name)
        neighbours = policy.guarantee().neighbours
        facts[name] = {"messages": {}, "ledgers": {}}
        for index in range(3):
            path = folder / f"{name}-{index}.db"
            with Ledger.create(path, limit=Limit.covering(policy.event()), simulated=True) as ledger:
                agent = Agent(policy, index, ledger, neighbours=neighbours)
                act(agent, table, int(agent.state["next"]))
                while not agent.due():
                    act(agent, table, agent.played + 1)
                kept = agent.save()
                if index < 2:
                    message = agent.send(SeededNoise(5, index))
                    facts[name]["messages"][index] = {key: plain(value) for key, value in message.payload.items()}
                    kept = agent.save() if index == 0 else kept
                facts[name]["ledgers"][index] = story(ledger)
            (folder / f"{name}-{index}.agent").write_bytes(kept)
            if index == 2:
                dying("draw", partial(send_again, policy, path, kept))
    return facts


def send_again(policy: Any, path: Path, kept: bytes) -> None:
    agent = Agent(policy, 2, Ledger.open(path, simulated=True), neighbours=policy.guarantee().neighbours)
    agent.load(kept)
    agent.send(SeededNoise(6))


def nodes(folder: Path) -> Facts:
    """Three nodes, two iterations done and saved; node 1 has drawn the third, node 2 died while it drew."""
    facts: Facts = {}
    setting = Setting(make_graph("ring", 3), (40, 40, 40), 2, 2, 5)
    made = {
        "private-admm": PrivateAdmm(epsilon=1.0, rounds=5).complete(setting),
        "private-mr-admm": PrivateMrAdmm(epsilon=2.0, C=0.05).complete(setting),
    }
    for name, algorithm in made.items():
        node = partial(node_of, algorithm, setting, folder / name)
        three = [node(index) for index in range(3)]
        transport = Inline(three)
        running = transport.iterations()
        next(running), next(running)
        weights = plain([one.weights for one in three])
        for index, one in enumerate(three):
            (folder / f"{name}-{index}" / "log").write_bytes(one.save())
        message = three[1].send()
        facts[name] = {
            "weights": weights, "iteration": three[0].iteration,
            "message": {key: plain(value) for key, value in message.payload.items()},
            "ledgers": [story(one.ledger) for one in three],
        }  # fmt: skip
        transport.close()
        dying("draw", partial(third_again, node, folder / name))
    return facts


def node_of(algorithm: Any, setting: Setting, place: Path, index: int) -> Node:
    own = place.with_name(f"{place.name}-{index}")
    own.mkdir(exist_ok=True)
    limit = Limit.covering(algorithm.event(setting, index))
    ledger = Ledger.create(own / "ledger.db", limit=limit, simulated=True)
    noise = partial(SeededNoise, 7, index)
    return Node(algorithm, setting, index, rows_of(index), ledger=ledger, folder=own, noise_of=noise)


def third_again(node: Callable[[int], Node], place: Path) -> None:
    again = [node(index) for index in range(3)]
    for index, one in enumerate(again):
        one.load((place.with_name(f"{place.name}-{index}") / "log").read_bytes())
    Inline(again)
    again[2].send()


def estimators(folder: Path) -> Facts:
    """Fitted estimators as pickles, with their counters and, where planned, an account that is partly used."""
    os.chdir(folder)
    facts: Facts = {}
    X, y, groups = compat_estimators.people()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, made in compat_estimators.made(folder).items():
            fitted = compat_estimators.fitted(made, X, y, groups)
            (folder / f"{name}.pickle").write_bytes(pickle.dumps(fitted))
            facts[name] = compat_estimators.facts(fitted, X, groups)
    with Ledger.open(folder / "ledger.db") as ledger:
        facts["ledger"] = story(ledger)
    return facts


def main() -> None:
    assert fairveil.__version__ == "0.1.0", f"these files are version 0.1.0's, this is {fairveil.__version__}"
    registry.load("policy")
    FILES.mkdir(exist_ok=True)
    facts: Facts = {}
    work = {"states": states, "streams": streams, "release": command, "agents": agents, "nodes": nodes}
    work |= {"estimators": estimators}
    with tempfile.TemporaryDirectory() as place:
        for name, write in work.items():
            (folder := Path(place, name)).mkdir()
            facts[name] = write(folder)
            os.chdir(place)
            packed(name, folder)
            print(name, flush=True)
        (folder := Path(place, "ledgers")).mkdir()
        facts["ledgers"] = ledgers(lambda name: folder / f"{name}.db", folder / "mark.anchor")
        packed("ledgers", folder)
        (folder := Path(place, "loops")).mkdir()
        facts["loops"] = loops(f"sqlite:///{folder}/store.db", folder / "anchors")
        packed("loops", folder)
    facts["postgres"] = on_a_server()
    text = json.dumps(facts, separators=(",", ":"), default=plain)
    (FILES / "facts.json.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print({path.name: path.stat().st_size for path in sorted(FILES.iterdir())})


if __name__ == "__main__":
    main()
