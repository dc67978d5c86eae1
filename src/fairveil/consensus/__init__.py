"""Private distributed learning: nodes that may not pool rows agree on one linear classifier.

Notation: public arguments have full names, formulas single letters.

==============  =======  =====================================================================================
API name        symbol   meaning
==============  =======  =====================================================================================
epsilon         epsilon  budget of one row over the whole run
delta           delta    chance that the budget is exceeded; a rate in theorem 2, of a bad sample in 6 and 7
mu              mu       the budget in Gaussian DP; in theorems 2 and 3 a free number above 1
alpha           alpha    noise e has density exp(-alpha |e|)
C               C        weight of the losses of a node
rho             rho      weight of |f|^2/2
sizes           B        rows of a node, B_i
scale           q        C/B_i: what one row weighs in its node's problem
steepest        s        bound on the slope of the loss; most that one row pulls
loss            z        margin y f.x that the loss L is a function of
penalty         eta      pull toward the neighbours, eta_i(t)
dual_step       theta    step of the dual variables
gamma           gamma    extra penalty of recycled steps
kappa           kappa    strong convexity of a node's problem, rho/N + 2 eta V_i; in public_path.py a factor
iterations      T        number of iterations
iteration       t        an iteration, counted from 1
node            i        a node; a letter with an index belongs to it
neighbours      j        a neighbour; in rows.py a column
rows            n        rows of all nodes; in transport.py their number
width           d        columns of a row
X               X        rows as scikit-learn has them
y               y        labels as scikit-learn has them
-               r        a row in a loop
-               k        an entry of a row in a loop
-               c        a candidate classifier, or a column
-               m        a message; in theorem 2 the smallest strong convexity of the nodes' objectives
-               M        largest smoothness of the nodes' objectives
-               L        a free number of theorem 3
-               W        diag(eta)
curvature_part  a        budget of a curvature release; in theorem 7 and wrong_limit a constant, a slope
gradient_part   g        budget of one gradient
-               w        a constant of theorems 6 and 7 that the thesis does not give; a weight in wrong_limit
targets         b        where a node's own objective is least, in wrong_limit
-               f        a classifier of one number, in wrong_limit
-               x        a matrix, or an argument of wrong_limit
==============  =======  =====================================================================================

Formulas in docstrings also have f and f_i (classifiers), x and D_i (a row of norm at most 1, all rows of a node), N
(nodes), V_i (neighbours of a node), lam_i (dual variables; the ridge of the public path), O_i and J (a node's
objective, and with its neighbours' pull), M_i = V_i f_i + sum_j f_j before a step and G_i (the gradient that it
leaves behind), D and A (degrees and adjacency of the graph), c1 (bound on the loss' curvature), e (noise), a (its
rate in the gradient), G and z_b (blocks of coordinates drawn together); in the public path m, v, w (released sums of
x and x^2, and the spread left of it), F (its floor), g, H, h = H^-1 g (gradient, curvature, step), u (step with
momentum) and p (what nodes agree on).
"""

from typing import TYPE_CHECKING, Any

from fairveil.consensus.admm import Admm
from fairveil.consensus.algorithm import Algorithm, Local, Setting
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
from fairveil.consensus.transport import InlineTransport as Inline
from fairveil.consensus.transport import NodePlan, RayTransport, make_transport
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
