"""What was run, as frozen versioned data: the accountant reads events, mechanisms write them.

An event says what one unit pays, before any data is seen. `ParallelEvent` is charged once however many releases are
made under it, because each unit enters exactly one of its blocks; every release under it carries its own block id.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, ClassVar

from fairveil.errors import PrivacyError
from fairveil.privacy.conversions import GRID_CONSTANT

VERSION = 1


@dataclass(frozen=True)
class Event:
    """Base of all events."""

    kind: ClassVar[str] = ""

    def inside(self) -> tuple[tuple[Event, int], ...]:
        """The events it is made of, with how often a unit pays each; empty for a plain event."""
        return ()

    def to_dict(self) -> dict[str, Any]:
        table: dict[str, Any] = {"version": VERSION, "kind": self.kind}
        for name in (field.name for field in fields(self)):
            value = getattr(self, name)
            if isinstance(value, Event):
                value = value.to_dict()
            elif isinstance(value, tuple):
                value = [item.to_dict() for item in value]
            table[name] = value
        return table


def _check(name: str, value: float, *, below: float = math.inf) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise PrivacyError("an event needs finite numbers", path=name, given=value, allowed="a finite number")
    if not 2.3e-308 <= value < below:
        raise PrivacyError("an event number is out of range", path=name, given=value, allowed=f"in (0.0, {below})")


def _check_count(name: str, value: int, *, at_least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < at_least:
        raise PrivacyError(
            "an event counts in integers", path=name, given=value, allowed=f"an integer, at least {at_least}"
        )


def _check_event(name: str, value: Event) -> None:
    if not isinstance(value, Event):
        raise PrivacyError("an event can only be made of events", path=name, allowed="an event")


@dataclass(frozen=True)
class NothingEvent(Event):
    """No private data is read, or the privacy was already spent on the user's side (local reports)."""

    kind = "nothing"


@dataclass(frozen=True)
class PureEvent(Event):
    """An epsilon-DP release."""

    kind = "pure"
    epsilon: float

    def __post_init__(self) -> None:
        _check("epsilon", self.epsilon)


@dataclass(frozen=True)
class BoundedRangeEvent(Event):
    """An exponential-mechanism selection: epsilon-DP and epsilon^2/8-zCDP (Cesar and Rogers 2021)."""

    kind = "bounded-range"
    epsilon: float

    def __post_init__(self) -> None:
        _check("epsilon", self.epsilon)


@dataclass(frozen=True)
class ApproximateEvent(Event):
    """An (epsilon, delta)-DP release without a finer description."""

    kind = "approximate"
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        _check("epsilon", self.epsilon)
        _check("delta", self.delta, below=1.0)


@dataclass(frozen=True)
class ZcdpEvent(Event):
    """A rho-zCDP release: every discrete Gaussian is accounted here."""

    kind = "zcdp"
    rho: float

    def __post_init__(self) -> None:
        _check("rho", self.rho)


FINE_GRID = 2.0**20
"""A discrete Gaussian may be accounted as mu-GDP only if its sigma is at least this many grid units."""


@dataclass(frozen=True)
class GaussianEvent(Event):
    """A mu-GDP release. ``draws`` values with sigma ``grid_sigma`` grid units each (0 draws: an ideal Gaussian).

    Discrete Gaussian noise is not mu-GDP; on a grid with sigma >= 2^20 units it is so up to
    delta + (1 + e^eps) * `distance`. A coarser grid is refused: account it as `ZcdpEvent`.
    """

    kind = "gaussian"
    mu: float
    draws: int = 0
    grid_sigma: float = 0.0

    def __post_init__(self) -> None:
        _check("mu", self.mu)
        _check_count("draws", self.draws, at_least=0)
        if self.draws == 0 and self.grid_sigma != 0:
            raise PrivacyError("a grid needs the number of draws on it", path="draws", given=0, allowed="at least 1")
        if self.draws > 0 and not FINE_GRID <= self.grid_sigma < math.inf:
            raise PrivacyError(
                "a discrete Gaussian on this grid is not Gaussian DP",
                path="grid_sigma",
                given=self.grid_sigma,
                allowed=f"at least {FINE_GRID:.0f} grid units",
                fix="use a finer grid or account it as zCDP",
            )

    @property
    def distance(self) -> float:
        """Total-variation distance of all its draws to Gaussians."""
        return GRID_CONSTANT * self.draws / self.grid_sigma**2 if self.draws else 0.0


@dataclass(frozen=True)
class SharedGaussianEvent(GaussianEvent):
    """A mu-GDP release whose noise is a sum of ``honest`` shares that parties draw, discrete Gaussians of std
    ``share_sigma`` grid units each: what is left of the noise where all others pool what they know.

    The sum of shares is not one discrete Gaussian of their common variance, but its masses differ by a factor of at
    most e^(+-tau) a number, tau = 10 sum_{k<honest} exp(-2 pi^2 share_sigma^2 k/(k+1)); the proof is in
    docs/guarantees/secure-sums.md. That is charged as a chance ``apart`` of anything at all. Shares below 2^20 grid
    units are refused. Computational: it holds against who cannot break X25519, ChaCha20 and Ed25519.
    """

    kind = "shared-gaussian"
    share_sigma: float = 0.0
    honest: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_count("draws", self.draws, at_least=1)
        _check_count("honest", self.honest, at_least=1)
        _check("share_sigma", self.share_sigma)
        if self.share_sigma < FINE_GRID or self.honest * self.share_sigma**2 < self.grid_sigma**2 * (1 - 1e-9):
            raise PrivacyError(
                "the shares of the noise are too small",
                path="share_sigma",
                given=self.share_sigma,
                allowed=f"at least {FINE_GRID:.0f} grid units, and together the variance of the whole noise",
                fix="use a finer grid, or sums = own",
            )

    @property
    def apart(self) -> Fraction:
        """A bound of tau times the numbers: exp(-2 pi^2 s^2 k/(k+1)) <= exp(-pi^2 2^40) < 10^-300."""
        return Fraction(10 * (self.honest - 1) * self.draws, 10**300)


@dataclass(frozen=True)
class RepeatedEvent(Event):
    """The same event ``count`` times on the same data (adaptive composition)."""

    kind = "repeated"
    event: Event
    count: int

    def __post_init__(self) -> None:
        _check_event("event", self.event)
        _check_count("count", self.count, at_least=1)

    def inside(self) -> tuple[tuple[Event, int], ...]:
        return ((self.event, self.count),)


@dataclass(frozen=True)
class ComposedEvent(Event):
    """Several events on the same data (adaptive composition)."""

    kind = "composed"
    events: tuple[Event, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.events, tuple):
            raise PrivacyError("composed events are a tuple", path="events", allowed="a tuple of events")
        for item in self.events:
            _check_event("events", item)

    def inside(self) -> tuple[tuple[Event, int], ...]:
        return tuple((item, 1) for item in self.events)


@dataclass(frozen=True)
class ParallelEvent(Event):
    """One event per block, each unit in exactly one block: charged once, released under distinct block ids."""

    kind = "parallel"
    event: Event

    def __post_init__(self) -> None:
        _check_event("event", self.event)

    def inside(self) -> tuple[tuple[Event, int], ...]:
        return ((self.event, 1),)


KINDS: dict[str, type[Event]] = {
    cls.kind: cls
    for cls in (
        NothingEvent,
        PureEvent,
        BoundedRangeEvent,
        ApproximateEvent,
        ZcdpEvent,
        GaussianEvent,
        SharedGaussianEvent,
        RepeatedEvent,
        ComposedEvent,
        ParallelEvent,
    )
}


def leaves(event: Event, times: int = 1) -> dict[Event, int]:
    """The plain events inside, in order, with how often a unit pays each. What reads no data is left out.

    Fails closed: a kind of event that is not one of ours is refused, whatever it says of itself.

    >>> leaves(ComposedEvent((PureEvent(0.5), RepeatedEvent(PureEvent(0.5), 3))))
    {PureEvent(epsilon=0.5): 4}
    """
    if type(event) not in KINDS.values():
        raise PrivacyError("the accountant does not know this event", path="event", given=type(event).__name__)
    parts = event.inside()
    if not parts:
        return {} if isinstance(event, NothingEvent | ComposedEvent) else {event: times}
    found: dict[Event, int] = {}
    for part, count in parts:
        for leaf, paid in leaves(part, times * count).items():
            found[leaf] = found.get(leaf, 0) + paid
    return found


def only_leaf(event: Event) -> Event | None:
    """The plain event that a unit pays exactly once, if that is all there is inside."""
    found = list(leaves(event).items())
    return found[0][0] if len(found) == 1 and found[0][1] == 1 else None


MAX_DEPTH = 32
"""Events nest (composed, repeated, parallel) at most this deep when they are read back."""


def event_from_dict(table: dict[str, Any]) -> Event:
    """Read an event back; an unknown version, kind or field is refused, never guessed.

    >>> event_from_dict(ParallelEvent(PureEvent(0.5)).to_dict())
    ParallelEvent(event=PureEvent(epsilon=0.5))
    """
    return _read(table, MAX_DEPTH)


def _read(table: Any, depth: int) -> Event:
    if not isinstance(table, dict) or depth == 0:
        raise PrivacyError("this is not an event", path="event", allowed=f"a table, nested at most {MAX_DEPTH} deep")
    facts = dict(table)
    version, kind = facts.pop("version", None), facts.pop("kind", None)
    known = KINDS.get(kind) if version == VERSION and isinstance(kind, str) else None
    if known is None or set(facts) != {field.name for field in fields(known)}:
        raise PrivacyError(
            "this event is not known",
            path="event",
            given={"version": version, "kind": kind, "fields": sorted(facts)},
            allowed=f"version {VERSION}, kinds {', '.join(KINDS)}, with exactly their own fields",
            fix="read it with the release of fairveil that wrote it",
        )
    if "event" in facts:
        facts["event"] = _read(facts["event"], depth - 1)
    if "events" in facts:
        if not isinstance(facts["events"], list):
            raise PrivacyError("composed events are a list", path="events", allowed="a list of events")
        facts["events"] = tuple(_read(item, depth - 1) for item in facts["events"])
    return known(**facts)
