"""fairveil: decisions that learn, keep people's data private, and treat groups and individuals fairly.

>>> import fairveil
>>> fairveil.run.__name__, fairveil.Guarantee.__name__, fairveil.Ledger.__name__
('run', 'Guarantee', 'Ledger')
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fairveil import moved
from fairveil._version import __version__

if TYPE_CHECKING:
    from fairveil.errors import FairveilError
    from fairveil.ledger import Ledger
    from fairveil.privacy.guarantee import Guarantee
    from fairveil.privacy.noise import SecureNoise, SeededNoise, ZeroNoise
    from fairveil.randomness import Generator, generator
    from fairveil.running.runner import run

moved.install()

_HOMES = {
    "FairveilError": "fairveil.errors",
    "Generator": "fairveil.randomness",
    "generator": "fairveil.randomness",
    "Guarantee": "fairveil.privacy.guarantee",
    "Ledger": "fairveil.ledger",
    "SecureNoise": "fairveil.privacy.noise",
    "SeededNoise": "fairveil.privacy.noise",
    "ZeroNoise": "fairveil.privacy.noise",
    "run": "fairveil.running.runner",
}

__all__ = [
    "FairveilError",
    "Generator",
    "Guarantee",
    "Ledger",
    "SecureNoise",
    "SeededNoise",
    "ZeroNoise",
    "__version__",
    "generator",
    "run",
]


def __getattr__(name: str) -> Any:
    """Public names load on first use, so that `import fairveil` stays light."""
    if name in _HOMES:
        try:
            globals()[name] = found = getattr(import_module(_HOMES[name]), name)
        except ModuleNotFoundError as problem:
            if problem.name is None or not problem.name.startswith("fairveil."):
                raise
            from fairveil.errors import DependencyError

            raise DependencyError("only the client is installed here", given=name, fix="pip install fairveil") from None
        return found
    raise AttributeError(f"module 'fairveil' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
