"""A federation of consensus nodes: what its plan means, and a party with its rows.

Where rows come from (``source``): a CSV or parquet file with the columns of the plan's public schema, or
``environment``: this party's share of the plan's own data set, dealt with its seed, to try a plan out. With secure sums
a party is a `SecureNode`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fairveil import registry
from fairveil.arrays import Ints
from fairveil.configuration import describe
from fairveil.consensus.algorithm import Algorithm, Setting
from fairveil.consensus.graphs import make_graph
from fairveil.consensus.node import Node
from fairveil.consensus.private_admm import GradientLocal, PrivateAdmm
from fairveil.consensus.rows import Rows
from fairveil.consensus.tables import data_table, deal, encode, encoded
from fairveil.data.schema import Column, Dataset
from fairveil.data.tables import read_frame
from fairveil.errors import InputError, SpecError
from fairveil.federated import Form, Kind, Plan, Worker
from fairveil.federated.party import MaskedNumbers, Union
from fairveil.federated.secure_sum import release_masked
from fairveil.ledger import Ledger, ReleaseLost
from fairveil.privacy.events import Event
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.noise import Noise
from fairveil.randomness import generator
from fairveil.registry import register

OWN = ("columns", "target", "encoding", "out_of_range")


@register("federation", "consensus")
class ConsensusKind(Kind):
    """Nodes of private-admm: one linear classifier from everybody's noisy sums."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        if plan.algorithm is None or plan.data is None or plan.policy is not None or plan.environment is not None:
            raise SpecError("a federation of nodes has an algorithm and data, and no policy", path="algorithm")
        sizes = tuple(member.rows or 0 for member in plan.party)
        if 0 in sizes:
            raise SpecError(
                "a party does not say how many rows it has", path=f"party.{sizes.index(0)}.rows",
                allowed="a number; it is public",
            )  # fmt: skip
        if plan.algorithm.get("sums", plan.sums) != plan.sums or "colluding" in plan.algorithm:
            raise SpecError("sums and colluding belong to the plan", path="algorithm.sums", fix="write them at the top")
        wanted = {"sums": plan.sums, "colluding": plan.colluding} if plan.sums == "secure" else {}
        algorithm = registry.build("algorithm", {**plan.algorithm, **wanted}, "algorithm")
        if not isinstance(algorithm, PrivateAdmm) or algorithm.exchange != "flood":
            raise SpecError(
                "this algorithm does not run in a federation", path="algorithm.name",
                given=plan.algorithm.get("name"), allowed="private-admm with exchange = flood",
            )  # fmt: skip
        width, nonzeros = self._shape()
        self.setting = Setting(make_graph("complete", len(sizes)), sizes, width, nonzeros, 1)
        self.algorithm: Algorithm = algorithm.complete(self.setting)
        self._model = Node(self.algorithm, self.setting, 0, _no_rows(sizes[0], width), run=plan.run)

    def _shape(self) -> tuple[int, int]:
        """Width of an encoded row and its most nonzero entries, from the schema alone."""
        if self.columns is not None:
            empty = {c.name: np.array([], float if c.kind == "continuous" else object) for c in self.columns}
            made = encode(Dataset("schema", empty, self.columns, self._target), self._encoding)
            return made.width, made.nonzeros
        found = self._dealt
        return found.nodes[0].width, found.nonzeros

    @cached_property
    def columns(self) -> tuple[Column, ...] | None:
        """The public schema of the rows; None where the plan names a data set of ours."""
        assert self.plan.data is not None
        given = self.plan.data.get("columns")
        if given is None:
            return None
        unknown = sorted(set(self.plan.data) - set(OWN))
        if unknown or not self._target:
            raise SpecError("a schema has columns and a target", path="data", given=unknown, allowed=", ".join(OWN))
        try:
            made = [Column(**{**column, "categories": tuple(column.get("categories", ()))}) for column in given]
        except (TypeError, AttributeError):
            raise SpecError(
                "a column of the schema is wrong", path="data.columns",
                allowed="name, kind (continuous with low and high, or category with categories)",
            ) from None  # fmt: skip
        return tuple(made)

    @property
    def _target(self) -> str:
        return str((self.plan.data or {}).get("target", ""))

    @property
    def _encoding(self) -> str:
        return str((self.plan.data or {}).get("encoding", "thesis"))

    @cached_property
    def _dealt(self) -> Any:
        """The plan's own data set in shares of the announced sizes."""
        facts = dict(self.plan.data or {})
        seed, sizes = int(facts.pop("seed", 0)), [member.rows for member in self.plan.party]
        full = data_table({**facts, "train": facts.get("train", sum(size or 0 for size in sizes))})
        full["split"] = {"sizes": sizes}
        return deal(encoded(full, seed, 0), full, len(sizes), generator(seed, "federation", "split"))

    @property
    def syncs(self) -> int:
        return self.algorithm.iterations(self.setting)

    def table(self) -> dict[str, Any]:
        return {"algorithm": describe(self.algorithm), "setting": self.setting.facts()}

    def form(self, sync: int) -> Form:
        return self._model.form(sync + 1)

    def time(self, sync: int) -> int:
        return sync + 1

    def numbers(self, sync: int) -> int:
        return self.setting.width * (2 if sync == 0 else 1)

    def event(self) -> Event:
        return self.algorithm.event(self.setting)

    def guarantee(self) -> Guarantee:
        promise = self.algorithm.guarantee(self.setting)
        assert promise is not None
        return promise

    def facts(self) -> dict[str, Any]:
        return {"synchronisations": self.syncs, "numbers in a message": self.setting.width, "rows": self.setting.sizes}

    def worker(
        self, index: int, source: str, ledger: Ledger, folder: Path, noise_of: Callable[[int], Noise] | None
    ) -> NodeWorker:
        node = (Node if self.plan.sums == "own" else SecureNode)(
            self.algorithm, self.setting, index, self._rows(index, source), run=self.plan.run, ledger=ledger,
            folder=folder,
        )  # fmt: skip
        # the plan is what everybody agreed on; statements are signed under its fingerprint
        sizes = enumerate(self.setting.sizes)
        node.meet({"node": other, "plan": node.fingerprint, "rows": rows} for other, rows in sizes)
        return NodeWorker(node)

    def _rows(self, index: int, source: str) -> Rows:
        if source == "environment":
            if self.columns is not None:
                raise SpecError("this plan has no data set of its own", path="data", fix="name a CSV or parquet file")
            dealt: Rows = self._dealt.nodes[index]
            return dealt
        columns = self.columns
        if columns is None:
            raise SpecError("this plan has no schema for files", path="data.columns", fix="write one into the plan")
        frame = read_frame(source)
        missing = [column.name for column in columns if column.name not in frame.columns]
        if missing:
            raise InputError("the file lacks columns of the schema", path="data", given=missing)
        data = {column.name: _typed(column, frame.columns[column.name]) for column in columns}
        self._check_range(columns, data)
        made = encode(Dataset("rows", data, columns, self._target), self._encoding)
        return made.rows(np.arange(len(made.signs)))

    def _check_range(self, columns: tuple[Column, ...], data: dict[str, Any]) -> None:
        rule = (self.plan.data or {}).get("out_of_range", "clip")
        if rule not in ("clip", "refuse"):
            raise SpecError("this rule is not known", path="data.out_of_range", given=rule, allowed="clip, refuse")
        for column in columns if rule == "refuse" else ():
            values = data[column.name]
            if column.kind == "continuous" and ((values < column.low) | (values > column.high)).any():
                raise InputError(
                    "a column has numbers out of its public range", path=column.name,
                    allowed=f"{column.low:g} to {column.high:g}", fix="mend the file, or out_of_range = clip",
                )  # fmt: skip


def _typed(column: Column, values: Any) -> Any:
    if column.kind != "continuous":
        return values
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise InputError("a column has a value that is no number", path=column.name) from None


def _no_rows(count: int, width: int) -> Rows:
    """Rows that are never read: what a plan knows of messages does not depend on them. They take no memory."""
    zeros, columns = np.zeros((1, 1)), np.zeros((1, 1), np.int32)
    shape = (count, 1)
    return Rows(np.broadcast_to(zeros, shape), np.broadcast_to(columns, shape), np.broadcast_to(1.0, count), width)


class SecureNode(Node):
    """A node whose numbers nobody sees: they leave with a share of the noise, behind masks that cancel in the sum.

    Guarantee: the algorithm's, against everybody but more than ``colluding`` nodes who pool what they know. The ledger
    holds the masked numbers and the digest of their union; noise is drawn once the union is fixed, for its size. The
    digest covers every party's view of the sums so far, so a stored answer belongs to one public point.
    """

    local: GradientLocal

    def contribute(self, union: Union, noise: Noise | None = None) -> MaskedNumbers | None:
        local, account, iteration = self.local, self._account(), self.iteration
        assert account is not None
        union.check_part(self.index, local.colluding, "node")

        def units(source: Noise) -> Ints:
            return local.share(iteration, self.rows, source, len(union.parties))

        found = release_masked(account, f"iteration-{iteration}", union, units, noise)
        if isinstance(found.value, ReleaseLost):
            return None
        return MaskedNumbers(found.value["masked"], len(self.rows))

    def take_sum(self, parties: Sequence[int], total: Ints, rows: int) -> None:
        self._hear_sum(total, parties)

    def void(self, parties: Sequence[int]) -> None:
        self._hear_sum(None, parties)

    def _hear_sum(self, total: Ints | None, parties: Sequence[int]) -> None:
        self._note("summed", [sorted(parties), total])
        self._sync += 1
        self.local.hear_sum(self.iteration, total, parties)

    def _replay(self, item: Any) -> None:
        if isinstance(item, dict) and "summed" in item:
            parties, total = item["summed"]
            self._hear_sum(total, [int(node) for node in parties])
        else:
            super()._replay(item)


class NodeWorker(Worker):
    """A node: all it does happens in its messages."""

    party: Node

    def __init__(self, node: Node) -> None:
        self.party = node

    def work(self) -> None:
        return None

    def progress(self) -> dict[str, Any]:
        return {"round": self.party.syncs, "of": self.party.total}

    def result(self) -> dict[str, Any]:
        return {"iterations": self.party.syncs, "weights": self.party.weights.tolist()}
