"""Privacy mistakes planted in the served code of consensus algorithms: each must be caught by an audit or a law."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from fairveil.consensus.clipped_sums import UnitRows
from fairveil.consensus.family import AdmmLocal
from fairveil.consensus.private_admm import GradientLocal
from fairveil.consensus.release_plan import ReleasePlan
from fairveil.federated import Inbox
from fairveil.privacy.audit.mutants import Mutant, Reused, method, no_clip, noises, rule, with_noise
from fairveil.privacy.noise import Noise, ZeroNoise

Method = Callable[..., Any]


def local_of(algorithm: Any) -> type:
    """The class whose `draw` serves people."""
    return GradientLocal if algorithm.everybody else AdmmLocal


def drawing_from(swap: Callable[[Noise], Noise]) -> Callable[[Any], AbstractContextManager[None]]:
    """Messages are drawn from a broken source."""
    return lambda algorithm: method(local_of(algorithm), "draw", with_noise(swap))


def read_again(algorithm: Any) -> AbstractContextManager[None]:
    """The recycled step solves its problem on the rows again, without noise."""

    def change(original: Method) -> Method:
        def broken(self: AdmmLocal, iteration: int) -> Any:
            if self.solver is None:
                return original(self, iteration)
            kept, self.perturbation = self.perturbation, None
            try:
                return self.draw(iteration, self.solver.rows, None)
            finally:
                self.perturbation = kept

        return broken

    return method(AdmmLocal, "recycle", change)


def drawn_on_retry(algorithm: Any) -> AbstractContextManager[None]:
    """A node that is asked again forgets what it sent."""
    return method(Inbox, "own", lambda original: lambda self, sync: None)


def steeper(algorithm: Any) -> AbstractContextManager[None]:
    """A row pulls with its whole slope, whatever the bound that its noise was made for."""

    def change(original: Method) -> Method:
        def broken(self: UnitRows, weights: Any, steepest: int) -> Any:
            return original(self, weights, 2**16)

        return broken

    return method(UnitRows, "pulls", change)


def bare_curvature(algorithm: Any) -> AbstractContextManager[None]:
    """The curvature goes out without noise: only the gradients are thought to be data."""

    def change(original: Method) -> Method:
        def broken(self: ReleasePlan, which: int, units: Any, noise: Noise) -> Any:
            return original(self, which, units, ZeroNoise() if which < 2 else noise)

        return broken

    return method(ReleasePlan, "noisy", change)


@rule
def consensus_mutants(kind: str, thing: Any) -> list[Mutant]:
    """What applies to the private algorithms."""
    if kind != "algorithm" or not getattr(thing, "private", False):
        return []
    found = [
        Mutant("no-noise", "no noise at all", drawing_from(noises.quiet)),
        Mutant("half-noise", "half of the noise", drawing_from(noises.halved)),
        Mutant("reused-noise", "noise drawn once and used for ever", drawing_from(Reused)),
        Mutant("no-clip", "rows enter as they come", no_clip),
        Mutant("drawn-on-retry", "a message that is asked for twice is drawn twice", drawn_on_retry),
    ]
    if thing.everybody:
        found.append(Mutant("steeper", "a pull without its bound", steeper))
        found.append(Mutant("bare-curvature", "curvature without noise", bare_curvature))
    elif getattr(thing, "recycles", False):
        found.append(Mutant("read-again", "a recycled step that reads the rows", read_again))
    return found
