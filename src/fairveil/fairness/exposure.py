"""Exposure in proportion to merit: merit functions as objects, the fair law, and the regret of not playing it.

Every action with mean reward mu has merit f(mu) > 0 and deserves to be shown with probability f(mu) / sum f (Wang et
al. 2021). A merit function is public data: a kind, a few numbers and, for functions given by a user, a table. The
compiled kernels of the bandits read exactly that, so one function serves the environment, the policies and the metrics.

In a spec a merit is a list, ``["exp", 10]``, or a list of such lists, one per agent.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fairveil import registry
from fairveil.arrays import Floats, Ints
from fairveil.compiling import njit
from fairveil.configuration import configuration, describe
from fairveil.errors import AssumptionError, InputError, SpecError, at
from fairveil.fields import Positive, Vector, described
from fairveil.registry import register

EXP, AFFINE, POWER, TABLE = 0, 1, 2, 3
CHECKED_POINTS = 4097


class Merit(ABC):
    """Base of all merit functions: positive, Lipschitz on [low, high], bounded below there."""

    name: ClassVar[str] = ""
    low: float = -1.0
    high: float = 1.0
    lipschitz: float
    lower_bound: float

    @abstractmethod
    def code(self) -> tuple[int, Floats, Floats]:
        """Kind, numbers and table, as the compiled kernels read them."""

    def to_list(self) -> tuple[Any, ...]:
        """The short form of a spec: the name and every parameter."""
        facts = describe(self)
        return (facts.pop("name"), *facts.values())

    def __call__(self, means: ArrayLike) -> Floats:
        kind, numbers, table = self.code()
        flat = np.atleast_1d(np.asarray(means, np.float64))
        found = np.exp(_log_merits(flat.ravel(), kind, numbers, table)).reshape(flat.shape)
        return found if np.ndim(means) else found[0]


def _check_finite(merit: Merit, path: str, given: float) -> None:
    """Refuse a merit that is too large for a number, or that vanishes, somewhere on its interval."""
    try:
        finite = merit.lower_bound > 0.0 and merit.lipschitz < math.inf
    except OverflowError:
        finite = False
    if not finite:
        raise AssumptionError(
            "the merit is not finite and positive everywhere",
            path=path,
            given=given,
            allowed=f"a merit that is a finite positive number on [{merit.low:g}, {merit.high:g}]",
        )


@register("merit", "exp")
@configuration
class ExpMerit(Merit):
    """f(mu) = exp(rate mu): steep, the merit of the published experiments at rate 10.

    >>> round(float(ExpMerit(10.0)(0.1)), 3)
    2.718
    """

    rate: Positive = described("merit is exp(rate x value): how steeply it rises", default=10.0)

    def __post_init__(self) -> None:
        _check_finite(self, "rate", self.rate)

    def code(self) -> tuple[int, Floats, Floats]:
        return EXP, np.array([self.rate, 0.0, 0.0]), np.ones(2)

    @property
    def lipschitz(self) -> float:  # type: ignore[override]
        return self.rate * math.exp(self.rate * self.high)

    @property
    def lower_bound(self) -> float:  # type: ignore[override]
        return math.exp(self.rate * self.low)


@register("merit", "affine")
@configuration
class AffineMerit(Merit):
    """f(mu) = max(floor, intercept + slope mu).

    >>> AffineMerit(1.0, 0.5)([0.0, 1.0]).tolist()
    [1.0, 1.5]
    """

    intercept: float = described("merit of an item of value 0", default=1.0)
    slope: float = described("merit gained per unit of value", default=0.5)
    floor: Positive = described("smallest merit", default=0.01)

    def __post_init__(self) -> None:
        if self.intercept + abs(self.slope) <= self.floor:
            raise SpecError(
                "the merit is constant: it never rises above its floor",
                path="intercept",
                given=self.intercept,
                allowed=f"intercept + |slope| above {self.floor}",
            )

    def code(self) -> tuple[int, Floats, Floats]:
        return AFFINE, np.array([self.intercept, self.slope, self.floor]), np.ones(2)

    @property
    def lipschitz(self) -> float:  # type: ignore[override]
        return abs(self.slope)

    @property
    def lower_bound(self) -> float:  # type: ignore[override]
        return max(self.floor, self.intercept - abs(self.slope))


@register("merit", "power")
@configuration
class PowerMerit(Merit):
    """f(mu) = max(floor, (offset + mu)^exponent), the base cut at zero.

    >>> float(PowerMerit(2.0, 1.0)(0.5))
    2.25
    """

    exponent: Positive = described("merit is (value + offset) to this power", default=2.0)
    offset: Positive = described("added to the value first", default=1.0)
    floor: Positive = described("smallest merit", default=0.01)

    def __post_init__(self) -> None:
        _check_finite(self, "exponent", self.exponent)

    def code(self) -> tuple[int, Floats, Floats]:
        return POWER, np.array([self.exponent, self.offset, self.floor]), np.ones(2)

    @property
    def lipschitz(self) -> float:  # type: ignore[override]
        top = self.offset + self.high
        # The slope is largest at one end of the part that lies above the floor.
        bottom = max(self.floor ** (1 / self.exponent), self.offset + self.low)
        return self.exponent * max(top ** (self.exponent - 1), bottom ** (self.exponent - 1))

    @property
    def lower_bound(self) -> float:  # type: ignore[override]
        return max(self.floor, max(0.0, self.offset + self.low) ** self.exponent)


@register("merit", "table")
@configuration
class TableMerit(Merit):
    """A user's merit: values on equally spaced points of [low, high], straight in between, constant outside.

    The declared Lipschitz constant and lower bound are checked against the values; a merit that is negative, not
    finite, steeper or lower than declared is refused.

    >>> round(float(TableMerit((1.0, 2.0, 4.0), lipschitz=2.0, lower_bound=1.0, low=0.0, high=2.0)(1.5)), 6)
    3.0
    """

    values: Vector = described("merit at evenly spaced values; straight lines between", example=(0.1, 0.5, 1.0))
    lipschitz: Positive = described("the steepest slope that the table may have", example=1.0)
    lower_bound: Positive = described("smallest merit that the table may have", example=0.1)
    low: float = described("value of the first entry", default=-1.0)
    high: float = described("value of the last entry", default=1.0)

    def __post_init__(self) -> None:
        if len(self.values) < 2:
            raise SpecError(
                "a merit table needs two points", path="values", given=len(self.values), allowed="at least 2"
            )
        if not self.low < self.high:
            raise SpecError("the interval of a merit is empty", path="high", given=self.high, allowed="above low")
        values = np.asarray(self.values)
        if not np.isfinite(values).all():
            raise AssumptionError("the merit is not finite everywhere", path="values", allowed="finite numbers")
        if values.min() <= 0:
            raise AssumptionError("the merit is not positive everywhere", path="values", allowed="numbers above 0")
        if values.min() < self.lower_bound * (1 - 1e-12):
            raise AssumptionError(
                "the merit falls below its declared lower bound",
                path="lower_bound",
                given=self.lower_bound,
                allowed=f"at most {values.min():.6g}",
            )
        steepest = float(np.abs(np.diff(values)).max()) * (len(values) - 1) / (self.high - self.low)
        if steepest > self.lipschitz * (1 + 1e-9):
            raise AssumptionError(
                "the merit is steeper than its declared Lipschitz constant",
                path="lipschitz",
                given=self.lipschitz,
                allowed=f"at least {steepest:.6g}",
            )

    def code(self) -> tuple[int, Floats, Floats]:
        return TABLE, np.array([self.low, self.high, len(self.values) - 1.0]), np.asarray(self.values, np.float64)


def user_merit(
    function: Callable[[float], float], *, lipschitz: float, lower_bound: float, low: float = -1.0, high: float = 1.0
) -> TableMerit:
    """A merit from a Python function, read and checked on 4,097 points of [low, high]; straight between them.

    >>> float(user_merit(lambda mu: 2 + mu, lipschitz=1.0, lower_bound=1.0)(0.5))
    2.5
    """
    if not -math.inf < low < high < math.inf:
        raise SpecError("the interval of a merit is empty or endless", path="high", given=high, allowed="above low")
    values = []
    for point in np.linspace(low, high, CHECKED_POINTS):
        value = function(float(point))
        if not isinstance(value, int | float | np.floating | np.integer) or not math.isfinite(value):
            raise AssumptionError("the merit is not finite everywhere", path="merit", allowed="finite numbers")
        values.append(float(value))
    return TableMerit(tuple(values), lipschitz=lipschitz, lower_bound=lower_bound, low=low, high=high)


def merit_from(given: Any, path: str = "merit") -> Merit:
    """A merit from an object, a list ``["exp", 10]``, a table ``{"name": "exp", "rate": 10}`` or a name."""
    if isinstance(given, Merit):
        return given
    if isinstance(given, str):
        return registry.build("merit", {"name": given}, path)
    if isinstance(given, dict):
        return registry.build("merit", given, path)
    if isinstance(given, list | tuple) and given and isinstance(given[0], str):
        target = registry.get("merit", given[0], path)
        numbers = [float(item) if isinstance(item, int) and not isinstance(item, bool) else item for item in given[1:]]
        try:
            return target(*numbers)
        except SpecError as problem:
            raise at(problem, path) from None
    raise SpecError("a merit is a list", path=path, given=given, allowed='["exp", 10], ["affine", 1, 0.5], ...')


def merits_from(given: Any, agents: int, path: str = "merit") -> tuple[Merit, ...]:
    """One merit for all agents, or a list with one merit per agent."""
    several = isinstance(given, list | tuple) and bool(given) and not isinstance(given[0], str)
    if not several:
        return (merit_from(given, path),) * agents
    if len(given) != agents:
        raise SpecError("there is not one merit per agent", path=path, given=len(given), allowed=f"1 or {agents}")
    return tuple(merit_from(item, f"{path}.{i}") for i, item in enumerate(given))


def settled_merit(given: Any, agents: int) -> Any:
    """A merit of a spec written in one way: one for all agents where they are the same, else one per agent."""
    merits = merits_from(given, agents)
    same = all(merit == merits[0] for merit in merits)
    return merits[0].to_list() if same else tuple(merit.to_list() for merit in merits)


def merit_codes(merits: tuple[Merit, ...]) -> tuple[Ints, Floats, Floats]:
    """Codes of several merits stacked for a kernel; short tables are filled up (a code knows its own length)."""
    codes = [merit.code() for merit in merits]
    width = max(len(table) for _, _, table in codes)
    tables = [np.pad(table, (0, width - len(table)), mode="edge") for _, _, table in codes]
    return np.array([kind for kind, _, _ in codes]), np.array([numbers for _, numbers, _ in codes]), np.array(tables)


@njit(cache=True, nogil=True)
def log_merit(mean, kind, numbers, table):
    """ln f(mean) and its derivative."""
    if kind == EXP:
        return numbers[0] * mean, numbers[0]
    if kind == AFFINE:
        value, slope = numbers[0] + numbers[1] * mean, numbers[1]
        if value <= numbers[2]:
            value, slope = numbers[2], 0.0
    elif kind == POWER:
        base = max(numbers[1] + mean, 0.0)
        value = base ** numbers[0]
        if value <= numbers[2]:
            value, slope = numbers[2], 0.0
        elif math.isinf(value):  # means far outside the interval
            return numbers[0] * math.log(base), numbers[0] / base
        else:
            slope = numbers[0] * value / base
    else:
        cells = int(numbers[2])
        place = (mean - numbers[0]) / (numbers[1] - numbers[0]) * cells
        if place <= 0.0:
            value, slope = table[0], 0.0
        elif place >= cells:
            value, slope = table[cells], 0.0
        else:
            cell = int(place)
            step = table[cell + 1] - table[cell]
            value = table[cell] + (place - cell) * step
            slope = step * cells / (numbers[1] - numbers[0])
    return math.log(value), slope / value


@njit(cache=True, nogil=True)
def _log_merits(means, kind, numbers, table):
    found = np.empty(len(means))
    for i in range(len(means)):
        found[i] = log_merit(means[i], kind, numbers, table)[0]
    return found


@njit(cache=True, nogil=True)
def fill_law(means, kind, numbers, table, law):
    """Write the law proportional to merit into ``law``; steep merits do not overflow."""
    top = -np.inf
    for a in range(len(means)):
        law[a] = numbers[0] * means[a] if kind == EXP else log_merit(means[a], kind, numbers, table)[0]
        top = max(top, law[a])
    total = 0.0
    for a in range(len(means)):
        law[a] = math.exp(law[a] - top)
        total += law[a]
    for a in range(len(means)):
        law[a] /= total


def fair_law(means: ArrayLike, merit: Merit) -> Floats:
    """The probabilities that give every action exposure in proportion to its merit.

    >>> fair_law([0.0, 1.0], AffineMerit(1.0, 1.0)).round(3).tolist()
    [0.333, 0.667]
    """
    array = np.asarray(means, np.float64)
    if array.ndim != 1 or array.size == 0 or not np.isfinite(array).all():
        raise InputError("means are a list of finite numbers", path="means", allowed="one finite number per action")
    law = np.empty(array.size)
    fill_law(array, *merit.code(), law)
    return law


def fairness_regret(played: ArrayLike, fair: ArrayLike) -> float:
    """L1 distance between the law played and the fair law: twice the probability of treating somebody unfairly."""
    return float(np.abs(np.asarray(played, np.float64) - np.asarray(fair, np.float64)).sum())
