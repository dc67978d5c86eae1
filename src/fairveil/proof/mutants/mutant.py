"""Mutant: one privacy mistake, which mutants a registered thing has, how served code and noise are broken by them."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fairveil import registry
from fairveil.arrays import Ints
from fairveil.errors import SpecError
from fairveil.privacy.noise import Noise, ZeroNoise
from fairveil.proof.pairs import AuditPair

KIND = "mutant"
Plant = Callable[[Any], AbstractContextManager[None]]
"""``plant(thing)``: the served code of a thing is broken inside the block and whole again after it."""
Copy = Callable[[float], AuditPair]
BUDGETS = (0.5, 1.0, 3.0)
"""Budgets at which broken copies are shown."""


@dataclass(frozen=True)
class Mutant:
    """One privacy mistake planted in served code.

    ``harmless`` argues why it changes nothing where it cannot be caught; everything else must be caught. ``by_law``:
    the laws of its kind are asked before the audits, which take longer. ``breaks``: the law of an adapter, by its name,
    that is asked before the others. ``copy``: a mistake that is planted in a copy beside the served code, because no
    line of that could become it: ``copy(epsilon)`` is a pair of worlds that claims epsilon and protects less, and must
    be caught at every budget of `BUDGETS`.
    """

    name: str
    words: str
    plant: Plant = nullcontext
    harmless: str = ""
    by_law: bool = False
    breaks: str = ""
    copy: Copy | None = None


Rule = Callable[[str, Any], list[Mutant]]
"""``rule(kind, thing)``: the mutants of this rule that apply to a thing."""

_RULES: list[Rule] = []
COPIES: dict[str, Copy] = {}
"""Broken copies by ``<kind>:<name>/<mutant>``, of the modules that are loaded."""


def rule(made: Rule) -> Rule:
    """Decorator: a table of mutants that applies to every registered thing of some kinds."""
    _RULES.append(made)
    return made


def broken_copy(name: str) -> Callable[[Copy], Copy]:
    """Decorator: ``epsilon -> AuditPair`` of a broken copy is the mutant ``<kind>:<name>/<mutant>``, in its words."""

    def add(made: Copy) -> Copy:
        words = (made.__doc__ or name).split("\n")[0].rstrip(".")
        COPIES[name] = made
        planted(name, Mutant(name.partition("/")[2], words, copy=made), made.__doc__)
        return made

    return add


def planted(name: str, mutant: Mutant, doc: str | None = None) -> None:
    """Register a mutant ``<kind>:<name>/<mutant>`` that is the same whatever thing of this name is asked."""

    def registered(thing: Any) -> Mutant:
        return mutant

    thing = name.partition(":")[2].partition("/")[0]
    registered.__qualname__, registered.__doc__ = f"mutant[{name}]", doc or f"{mutant.words.capitalize()}, in {thing}."
    registry.register(KIND, name)(registered)


def mutants_of(kind: str, thing: Any, registered: Iterable[registry.Entry] | None = None) -> list[Mutant]:
    """All mutants of a thing: what the rules make of its served methods, and what its own package registers.

    ``registered``: where to look for own mutants; everywhere when left out, which loads all modules of audits. Own
    mutants are registered as ``<kind>:<name>/<mutant>``; a mutant of the same name replaces that of a rule.
    """
    own = list(registry.entries(KIND) if registered is None else registered)  # loads the modules that hold rules, too
    found = {mutant.name: mutant for made in _RULES for mutant in made(kind, thing)}
    prefix = f"{kind}:{thing.name}/"
    for entry in own:
        if entry.name.startswith(prefix):
            made = entry.target(thing)
            if made is None:
                continue
            if not isinstance(made, Mutant):
                raise SpecError("this is not a mutant", path=entry.name, given=type(made).__name__, allowed="Mutant")
            found[made.name] = made
    return list(found.values())


Method = Callable[..., Any]
"""A served function or method."""
Change = Callable[[Method], Method]
"""From a function to its broken twin."""


def _as_called(original: Callable[..., Any], twin: Callable[..., Any]) -> Callable[..., Any]:
    """The twin, which must take whatever its original does: it would fail at its call, and be caught for that alone."""
    asked = inspect.signature(original).parameters.values()
    placed = [one for one in asked if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    inspect.signature(twin).bind(*placed, **{one.name: one for one in asked if one.kind is one.KEYWORD_ONLY})
    return twin


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Put something else in the place of an attribute of a class or a module."""
    own = vars(owner).get(name, owner)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if own is owner:  # it was inherited
            delattr(owner, name)
        else:
            setattr(owner, name, own)


@contextmanager
def method(owner: type, name: str, change: Change) -> Iterator[None]:
    """Replace a method of a class (its own or inherited) by its broken twin."""
    original = getattr(owner, name)
    with replaced(owner, name, functools.wraps(original)(_as_called(original, change(original)))):
        yield


@contextmanager
def function(original: Callable[..., Any], twin: Callable[..., Any]) -> Iterator[None]:
    """Replace a function in every module of the package that holds it under its own or another name."""
    changed = []
    _as_called(original, twin)
    for module_name, module in list(sys.modules.items()):
        if not module_name.startswith("fairveil") or module is None:
            continue
        for name, value in list(vars(module).items()):
            if value is original:
                setattr(module, name, twin)
                changed.append((module, name))
    try:
        yield
    finally:
        for module, name in changed:
            setattr(module, name, original)


def in_method(owner: type, name: str, change: Change) -> Plant:
    """Plant the broken twin of a method, whatever thing is asked."""
    return lambda _: method(owner, name, change)


def in_its(name: str, change: Change) -> Plant:
    """Plant the broken twin of a method in the class of the thing that is asked."""
    return lambda thing: method(type(thing), name, change)


def in_function(original: Callable[..., Any], twin: Callable[..., Any]) -> Plant:
    """Plant the broken twin of a function."""
    return lambda _: function(original, twin)


@contextmanager
def together(*plants: Any) -> Iterator[None]:
    """Several breaks at once."""
    with ExitStack() as stack:
        for plant in plants:
            stack.enter_context(plant)
        yield


def twin(broken: Method) -> Change:
    """Decorator: a broken twin that is handed the sound function first, before what that was given."""

    def change(original: Method) -> Method:
        asked = functools.partial(broken, original)

        @functools.wraps(asked, assigned=(), updated=())
        def called(*given: Any, **named: Any) -> Any:
            return asked(*given, **named)  # a partial would not be bound to whose method it is

        return called

    return change


def with_noise(swap: Callable[[Noise], Noise]) -> Change:
    """A method that hands another source on wherever it was given one."""

    @twin
    def broken(original: Method, *args: Any, **kwargs: Any) -> Any:
        swapped = [swap(part) if isinstance(part, Noise) else part for part in args]
        named = {key: swap(part) if isinstance(part, Noise) else part for key, part in kwargs.items()}
        return original(*swapped, **named)

    return broken


#: Below this a uniform integer picks one of a few things and is no coin.
SMALL_RANGE = 2**16


class Weakened(Noise):
    """A source whose laws are ``factor`` times as wide as what was asked for; coins are as much surer.

    It keeps the kind of the source it weakens, so that a ledger takes it for that one.
    """

    __slots__ = ("factor", "inner")

    def __init__(self, inner: Noise, factor: float) -> None:
        self.inner, self.factor = inner, factor

    @property
    def simulated(self) -> bool:  # type: ignore[override]
        return self.inner.simulated

    @property
    def protects(self) -> bool:  # type: ignore[override]
        return self.inner.protects

    def laplace(self, scale: float, size: int = 1) -> Ints:
        return self.inner.laplace(max(scale * self.factor, 2.0**-20), size)

    def gaussian(self, sigma: float, size: int = 1) -> Ints:
        return self.inner.gaussian(max(sigma * self.factor, 2.0**-20), size)

    def gaussians(self, sigmas: ArrayLike) -> Ints:
        return self.inner.gaussians(np.maximum(np.asarray(sigmas, np.float64) * self.factor, 2.0**-20))

    def uniform_integers(self, high: int, size: int = 1) -> Ints:
        """Drawn towards the middle: a coin of odds o becomes one of odds o^(1/factor), as with a larger budget."""
        if high < SMALL_RANGE:
            return self.inner.uniform_integers(high, size)
        share = (self.inner.uniform_integers(2**52, size) + 0.5) / 2**52
        up, down = share**self.factor, (1 - share) ** self.factor
        return np.minimum((up / (up + down) * high).astype(np.int64), high - 1)

    def exponential_coins(self, numerators: ArrayLike, denominator: int) -> Ints:
        return self.inner.exponential_coins(numerators, max(1, round(denominator * self.factor)))

    def select(self, gaps: ArrayLike, denominator: int, size: int = 1) -> Ints:
        return self.inner.select(gaps, max(1, round(denominator * self.factor)), size)

    def binomial(self, trials: int, size: int = 1) -> Ints:
        kept = max(1, round(trials * self.factor**2))
        return self.inner.binomial(kept, size) + (trials - kept) // 2


class Reused(Noise):
    """A source that answers every question with one and the same draw, as a constant in a module would.

    The draw is a twentieth of the scale below zero; a coin shows its likelier side.
    """

    __slots__ = ()

    def __init__(self, inner: Noise) -> None:
        """``inner`` is what should have been drawn from."""

    def laplace(self, scale: float, size: int = 1) -> Ints:
        return np.full(size, -round(scale / 20), np.int64)

    def gaussian(self, sigma: float, size: int = 1) -> Ints:
        return np.full(size, -round(sigma / 20), np.int64)

    def uniform_integers(self, high: int, size: int = 1) -> Ints:
        return np.full(size, high // 2, np.int64)

    def exponential_coins(self, numerators: ArrayLike, denominator: int) -> Ints:
        return (np.asarray(numerators, np.float64) / denominator < np.log(2.0)).astype(np.int64)

    def select(self, gaps: ArrayLike, denominator: int, size: int = 1) -> Ints:
        return np.full(size, np.argmin(np.asarray(gaps, np.int64)), np.int64)

    def binomial(self, trials: int, size: int = 1) -> Ints:
        return np.full(size, trials // 2 - round(np.sqrt(trials) / 40), np.int64)


def quiet(inner: Noise) -> Noise:
    """No noise, whatever was asked for."""
    return ZeroNoise()


def halved(inner: Noise) -> Noise:
    """Half of the noise."""
    return Weakened(inner, 0.5)
