"""What a consensus algorithm is: public configuration that tells every node what to do with what it hears.

An `Algorithm` makes one `Local` for each node. A `Local` holds public state only, apart from the caches of its solver;
the one method that meets rows and noise is `draw`, and `Node` calls it through the ledger.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fairveil.consensus.rows import Rows
from fairveil.consensus.schedule import Setting
from fairveil.errors import SpecError
from fairveil.privacy.events import Event, NothingEvent
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.noise import Noise

Floats = NDArray[np.float64]
Payload = Mapping[str, Floats]
UNIT = "one row of one node"
MEASURED = (
    "train_loss, objective_gap, data_reads and test_error are the experimenter's measurements on raw data, not releases"
)
PUBLIC = "row counts, graph, schedule and the encoding of the columns are public"


class Local(ABC):
    """One node's part of an algorithm. Everything but `draw` is a function of messages and public numbers."""

    @abstractmethod
    def hear(self, iteration: int, inbox: Mapping[int, Payload], absent: frozenset[int]) -> None:
        """Take the messages of iteration - 1; ``absent`` are the nodes that are left out from now on."""

    @abstractmethod
    def reads(self, iteration: int) -> bool:
        """Whether the message of this iteration needs the rows."""

    @abstractmethod
    def question(self, iteration: int) -> Floats:
        """The public numbers that an iteration's release depends on: asked again, they must be the same."""

    @abstractmethod
    def draw(self, iteration: int, rows: Rows, noise: Noise | None) -> Payload:
        """The message of an iteration that reads rows: the only place where data and noise meet."""

    @abstractmethod
    def recycle(self, iteration: int) -> Payload:
        """The message of an iteration that reads no rows."""

    @abstractmethod
    def keep(self, iteration: int, payload: Payload | None) -> None:
        """Take the own message as it was sent; None: it was lost."""

    @property
    @abstractmethod
    def weights(self) -> Floats:
        """This node's classifier after the last message that was heard and kept."""


class Algorithm(ABC):
    """Public configuration of one algorithm."""

    name: str = ""
    private: ClassVar[bool] = False
    everybody: ClassVar[bool] = False
    """Whether messages travel to all nodes (flooding) instead of to neighbours only."""
    gapless: ClassVar[bool] = False
    """Whether it solves another problem than the regularised one of the thesis: no gap is measured."""

    @property
    def protects(self) -> bool:
        """Whether its draws may serve people; textbook draws are simulation whatever their source."""
        return True

    @abstractmethod
    def complete(self, setting: Setting) -> Algorithm:
        """The same algorithm with every number that depends on public facts filled in; refuses what cannot be run."""

    @abstractmethod
    def local(self, setting: Setting, node: int) -> Local:
        """A node's part, before the first message. ``self`` must be complete."""

    @abstractmethod
    def iterations(self, setting: Setting) -> int:
        """How many messages every node sends."""

    def event(self, setting: Setting | None = None, node: int = 0) -> Event:
        """What one row of a node pays over the whole run."""
        return NothingEvent()

    def guarantee(self, setting: Setting | None = None) -> Guarantee | None:
        """The promise over the whole run, or None."""
        return None

    def notes(self, setting: Setting) -> tuple[str, ...]:
        """What a reader of a result must know about a completed configuration."""
        return ()

    def privacy_loss(self, setting: Setting) -> tuple[list[float | None], list[float | None]]:
        """Running totals after every iteration: the sound bound and the printed one (None where there is none)."""
        nothing: list[float | None] = [None] * self.iterations(setting)
        return nothing, list(nothing)

    def traffic(self, setting: Setting) -> tuple[int, int]:
        """Messages over all edges in a whole run, and their bytes."""
        count = int(setting.graph.degrees.sum()) * self.iterations(setting)
        return count, count * setting.width * 8


def warn_of_delta(promise: Guarantee | None, setting: Setting) -> None:
    """Warn of a delta that allows publishing a whole row of the smallest node."""
    if promise is not None and (promise.delta or 0.0) >= 1 / min(setting.sizes):
        warnings.warn(
            f"delta {promise.delta:g} is not below one over the rows of the smallest node ({min(setting.sizes)}): "
            "it allows publishing a whole row", stacklevel=3,
        )  # fmt: skip


def one_of(given: dict[str, Any], names: tuple[str, str]) -> None:
    """Refuse both or neither of two ways to state a budget."""
    stated = [name for name in names if given[name] is not None]
    if len(stated) != 1:
        raise SpecError(
            "the noise is not determined" if not stated else "the noise is determined twice",
            path=names[0], given=stated, allowed=f"{names[0]} or {names[1]}",
        )  # fmt: skip
