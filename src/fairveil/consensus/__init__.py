"""Private distributed learning: nodes that may not pool rows agree on one linear classifier."""

from typing import TYPE_CHECKING, Any

from fairveil.consensus.admm import Admm
from fairveil.consensus.algorithm import Algorithm, Local
from fairveil.consensus.dvp import Dvp
from fairveil.consensus.graphs import Graph, make_graph
from fairveil.consensus.losses import ClippedLogistic, HuberHinge, Logistic, Loss, make_loss
from fairveil.consensus.m_admm import MAdmm
from fairveil.consensus.mr_admm import MrAdmm
from fairveil.consensus.node import Node
from fairveil.consensus.private_admm import PrivateAdmm
from fairveil.consensus.private_m_admm import PrivateMAdmm
from fairveil.consensus.private_mr_admm import PrivateMrAdmm
from fairveil.consensus.private_r_admm import PrivateRAdmm
from fairveil.consensus.pvp import Pvp
from fairveil.consensus.r_admm import RAdmm
from fairveil.consensus.rows import Rows
from fairveil.consensus.schedule import Setting
from fairveil.consensus.tables import read_rows
from fairveil.consensus.task import ConsensusTask
from fairveil.consensus.theory import (
    Finding,
    check_theorem_1,
    check_theorem_3,
    rate_theorem_2,
    samples_theorem_6,
    samples_theorem_7,
)
from fairveil.consensus.transport import Inline, NodePlan, RayTransport, make_transport
from fairveil.errors import DependencyError

if TYPE_CHECKING:
    from fairveil.consensus.estimator import ConsensusClassifier

__all__ = [
    "Admm",
    "Algorithm",
    "ClippedLogistic",
    "ConsensusClassifier",
    "ConsensusTask",
    "Dvp",
    "Finding",
    "Graph",
    "HuberHinge",
    "Inline",
    "Local",
    "Logistic",
    "Loss",
    "MAdmm",
    "MrAdmm",
    "Node",
    "NodePlan",
    "PrivateAdmm",
    "PrivateMAdmm",
    "PrivateMrAdmm",
    "PrivateRAdmm",
    "Pvp",
    "RAdmm",
    "RayTransport",
    "Rows",
    "Setting",
    "check_theorem_1",
    "check_theorem_3",
    "make_graph",
    "make_loss",
    "make_transport",
    "rate_theorem_2",
    "read_rows",
    "samples_theorem_6",
    "samples_theorem_7",
]


def __getattr__(name: str) -> Any:
    """`ConsensusClassifier` needs scikit-learn, so it is imported when it is first asked for."""
    if name == "ConsensusClassifier":
        try:
            from fairveil.consensus.estimator import ConsensusClassifier
        except ImportError:
            raise DependencyError("this needs scikit-learn", fix="pip install 'fairveil[lab]'") from None
        return ConsensusClassifier
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
