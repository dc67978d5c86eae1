"""Everything that can be named in a spec: policies, environments, tasks, mechanisms, data sets, learners, metrics.

A public configuration is a frozen dataclass whose fields are checked on construction, whether it is built from a
spec or by hand. ``@register(kind, name)`` names it; `build` turns ``{"name": ..., **parameters}`` into an object.
"""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Annotated, Any, TypeVar, dataclass_transform

import pydantic
from pydantic import ConfigDict, Field, Strict

from fairveil.errors import ContractError, FairveilError, SpecError

C = TypeVar("C", bound=type)
T = TypeVar("T")

# Number types shared by all public configurations. Budgets below one micro-unit or above a million are refused:
# zero, subnormal, negative, NaN, infinite and string budgets therefore fail closed in one place.
Epsilon = Annotated[float, Strict(), Field(ge=1e-6, le=1e6, allow_inf_nan=False)]
Delta = Annotated[float, Strict(), Field(gt=1e-300, lt=1.0, allow_inf_nan=False)]
Positive = Annotated[float, Strict(), Field(gt=0.0, le=1e300, allow_inf_nan=False)]
NonNegative = Annotated[float, Strict(), Field(ge=0.0, le=1e300, allow_inf_nan=False)]
Probability = Annotated[float, Strict(), Field(ge=0.0, le=1.0, allow_inf_nan=False)]
OpenUnit = Annotated[float, Strict(), Field(gt=0.0, lt=1.0, allow_inf_nan=False)]
Count = Annotated[int, Strict(), Field(ge=1, le=10**12)]
Natural = Annotated[int, Strict(), Field(ge=0, le=2**63 - 1)]
Vector = Annotated[tuple[float, ...], Strict(False)]
Matrix = Annotated[tuple[Vector, ...], Strict(False)]

_CONFIG = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, arbitrary_types_allowed=True)

#: Packages that register names when imported. A new family or paper adds one line.
BUILT_IN = [
    "fairveil.privacy.mechanisms",
    "fairveil.privacy.sums",
    "fairveil.privacy.histograms",
    "fairveil.privacy.audit",
    "fairveil.fairness",
    "fairveil.data",
    "fairveil.bandits",
    "fairveil.bandits.nash",
    "fairveil.bandits.meritocratic",
    "fairveil.bandits.exposure",
    "fairveil.classify",
    "fairveil.dynamics",
]


@dataclass(frozen=True)
class Entry:
    """One registered name: what kind it is, what it builds, and facts for `fairveil list`."""

    kind: str
    name: str
    target: Any
    family: str = ""

    @property
    def summary(self) -> str:
        doc = inspect.getdoc(self.target) or ""
        return doc.strip().split("\n")[0] if doc else ""


_entries: dict[tuple[str, str], Entry] = {}
_loaded = False
_plugins: list[str] = []


@dataclass_transform(frozen_default=True, kw_only_default=False)
def configuration(cls: C) -> C:
    """Make a class a frozen, validated public configuration; a wrong field raises SpecError naming it."""
    made = pydantic.dataclasses.dataclass(frozen=True, config=_CONFIG)(cls)
    checked = made.__init__
    order = tuple(field.name for field in dataclasses.fields(made) if field.init and not field.kw_only)

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            checked(self, *args, **kwargs)
        except pydantic.ValidationError as problem:
            raise spec_error(problem, "", _field_names(made), order) from None

    __init__.__wrapped__ = checked  # type: ignore[attr-defined]
    __init__.__signature__ = inspect.signature(made)  # type: ignore[attr-defined]
    made.__init__ = __init__  # type: ignore[assignment]
    return made  # type: ignore[return-value]


def register(kind: str, name: str, *, family: str = "") -> Callable[[T], T]:
    """Class or function decorator: make ``target`` known as ``name`` among the things of this kind."""

    def add(target: T) -> T:
        known = _entries.get((kind, name))
        if known is not None and _origin(known.target) != _origin(target):
            raise SpecError(f"the {kind} name is already taken", given=name, fix="choose another name")
        missing = [key for key in dir(target) if getattr(getattr(target, key, None), "__isabstractmethod__", False)]
        if inspect.isclass(target) and missing:
            raise ContractError(f"a {kind} is not complete", path=f"{kind}:{name}", fix=f"define {', '.join(missing)}")
        _entries[kind, name] = Entry(kind, name, target, family)
        if inspect.isclass(target):
            target.name = name  # type: ignore[attr-defined]
        return target

    return add


def _origin(target: Any) -> tuple[str, str]:
    return getattr(target, "__module__", ""), getattr(target, "__qualname__", repr(target))


def load() -> None:
    """Import every built-in package and every installed plug-in once, so that their names are registered."""
    global _loaded
    if _loaded:
        return
    _loaded = True  # first: a plug-in may ask for names while it is imported
    try:
        _import_all()
    except BaseException:
        _loaded = False  # half a registry must not pass for a whole one at the next call
        raise


def _import_all() -> None:
    for module in BUILT_IN:
        importlib.import_module(module)
    from importlib.metadata import entry_points

    for point in entry_points(group="fairveil.plugins"):
        try:
            point.load()
        except Exception as problem:  # somebody else's package: say whose, not only what
            raise SpecError(
                f"an installed plug-in cannot be loaded: {type(problem).__name__}: {problem}",
                path=f"{point.group}:{point.name}",
                given=point.value,
                fix="mend or uninstall the package it comes from",
            ) from problem


class _FreshSource(SourceFileLoader):
    """Compiles the file every time: Python's cache misses an edit of the same length within the same second."""

    def get_code(self, fullname: str) -> Any:
        return self.source_to_code(self.get_data(self.path), self.path)


def load_plugin(file: str | Path) -> None:
    """Import one Python file that registers names of its own (``--plugin file.py``)."""
    path = Path(file)
    if str(path.resolve()) in _plugins:
        return
    if not path.is_file():
        state = "is a folder" if path.is_dir() else "does not exist"
        raise SpecError(
            f"the plug-in file {state}", path="plugin", given=str(file), allowed="a .py file", fix="check the path"
        )
    load()
    place = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]  # two files of one name are two plug-ins
    name = f"fairveil_plugin_{path.stem}_{place}"
    spec = importlib.util.spec_from_file_location(name, path, loader=_FreshSource(name, str(path)))
    if path.suffix != ".py" or spec is None or spec.loader is None:
        raise SpecError("the plug-in is not a Python file", path="plugin", given=str(file), allowed="a .py file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except FairveilError:
        raise
    except (Exception, SystemExit) as problem:  # any mistake in a user's file: name the file and pass the cause on
        raise SpecError(
            f"the plug-in raised {type(problem).__name__}: {problem}",
            path="plugin",
            given=str(file),
            fix=f"mend the file; python {path.name} shows the whole error",
        ) from problem
    _plugins.append(str(path.resolve()))


def plugins() -> tuple[str, ...]:
    """Plug-in files loaded so far: workers in other processes load them too."""
    return tuple(_plugins)


def entries(kind: str | None = None) -> list[Entry]:
    """All registered entries, sorted by kind and name."""
    load()
    found = [entry for entry in _entries.values() if kind is None or entry.kind == kind]
    return sorted(found, key=lambda entry: (entry.kind, entry.name))


def names(kind: str) -> list[str]:
    return [entry.name for entry in entries(kind)]


def get(kind: str, name: str, path: str = "") -> Any:
    """What is registered under this name; an unknown name suggests the nearest ones."""
    load()
    entry = _entries.get((kind, name)) if isinstance(name, str) else None
    if entry is None:
        known = names(kind)
        raise SpecError(
            f"there is no {kind} of this name" if name else f"the {kind} has no name",
            path=path,
            given=name or None,
            allowed=choices(known, f"fairveil list {kind}") or f"no {kind} is registered",
            fix=did_you_mean(name, known) or ("a name of your own needs its file: --plugin FILE" if name else ""),
        )
    return entry.target


def did_you_mean(given: Any, known: Iterable[str]) -> str:
    """A question that names what the user probably meant; empty when nothing is near."""
    near = difflib.get_close_matches(str(given), sorted(known), n=3, cutoff=0.5)
    return f"did you mean {' or '.join(near)}?" if near else ""


def choices(known: Sequence[str], command: str) -> str:
    """All names when a person can read them at a glance, else how many there are and the command that lists them."""
    return ", ".join(known) if len(known) <= 25 else f"one of {len(known)} names, see {command}"


def build(kind: str, table: Mapping[str, Any], path: str) -> Any:
    """Build the object that ``{"name": ..., **parameters}`` describes; errors carry the path in the spec."""
    if not isinstance(table, Mapping):
        raise SpecError(f"a {kind} is a table", path=path, given=table, allowed='{"name": ..., parameters}')
    parameters = dict(table)
    if "name" not in parameters:
        raise SpecError(f"the {kind} has no name", path=f"{path}.name", allowed=", ".join(names(kind)))
    target = get(kind, parameters.pop("name"), f"{path}.name")
    try:
        return target(**parameters)
    except SpecError as problem:
        raise at(problem, path) from None
    except TypeError:
        allowed = sorted(_field_names(target)) if dataclasses.is_dataclass(target) else []
        unknown = [key for key in parameters if allowed and key not in allowed]
        raise SpecError(
            f"these parameters do not fit the {kind}",
            path=f"{path}.{unknown[0]}" if unknown else path,
            given=sorted(parameters),
            allowed=", ".join(allowed),
        ) from None


def describe(thing: Any) -> dict[str, Any]:
    """The complete table of a public configuration, defaults filled: the inverse of `build`."""
    table: dict[str, Any] = {"name": thing.name} if hasattr(type(thing), "name") else {}
    for field in dataclasses.fields(thing):
        if field.init:
            table[field.name] = _plain(getattr(thing, field.name))
    return table


_SAMPLE: dict[str, Any] = {
    "arms": 3,
    "epsilon": 1.0,
    "delta": 1e-5,
    "rounds": 1000,
    "horizon": 1000,
    "bound": 2.0,
    "sensitivity": 1.0,
    "inner": {"name": "gdp-ncb", "epsilon": 1.0},
    "releases": 8,
    "weights": (1.0, 0.5),
    "means": ((0.0, 0.0), (1.0, 0.0)),
    "values": (0.1, 0.5, 1.0),
    "lipschitz": 1.0,
    "lower_bound": 0.1,
}
_ONE_OF: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5, "rewards": ((0.0, 1.0), (1.0, 1.0))}
"""Values for keys that may be left out when another is given instead: a budget, a table of rewards."""


def sample(target: Any) -> dict[str, Any]:
    """Values for the required parameters of a configuration that have well-known names."""
    if not dataclasses.is_dataclass(target):
        return {}
    absent = dataclasses.MISSING
    required = [
        f.name for f in dataclasses.fields(target) if f.init and f.default is absent and f.default_factory is absent
    ]
    return {name: _SAMPLE[name] for name in required if name in _SAMPLE}


def example(target: Any) -> Any | None:
    """An instance for listings: ``target.example()`` where there is one, else sample parameters, else None."""
    if hasattr(target, "example"):
        return target.example()
    if not dataclasses.is_dataclass(target):
        return None
    given = sample(target)
    known = _field_names(target)
    for more in ({}, {key: value for key, value in _ONE_OF.items() if key in known}):
        try:
            return target(**{**more, **given})  # type: ignore[operator]
        except SpecError:
            continue  # its parameters depend on each other
    return None


def at(problem: SpecError, path: str) -> SpecError:
    """The same error, one level further down in the spec."""
    where = ".".join(part for part in (path, problem.path) if part)
    return type(problem)(problem.problem, path=where, given=problem.given, allowed=problem.allowed, fix=problem.fix)


def spec_error(
    problem: pydantic.ValidationError, path: str = "", known: frozenset[str] = frozenset(), order: tuple[str, ...] = ()
) -> SpecError:
    """Turn pydantic's most telling complaint into our error shape: an unknown key first, it explains a missing one.

    ``order`` names arguments that were given by position.
    """
    first = min(problem.errors(), key=lambda complaint: complaint["type"] not in _UNKNOWN)
    place: list[int | str] = list(first["loc"])
    if place and isinstance(place[0], int) and place[0] < len(order):
        place[0] = order[place[0]]
    where = ".".join([part for part in [path, *map(str, place)] if part])
    kind, context = first["type"], first.get("ctx", {})
    if kind in _UNKNOWN:
        fix = did_you_mean(first["loc"][-1], known)
        return SpecError("this key is not known", path=where, allowed=", ".join(sorted(known)), fix=fix)
    if kind in ("missing", "missing_argument"):
        return SpecError("this key is required", path=where, fix="add it")
    given = first.get("input")
    limits = [f"{word} {context[key]}" for key, word in _WORDS.items() if key in context]
    if limits:
        return SpecError("the value is out of range", path=where, given=given, allowed=", ".join(limits))
    if "expected" in context:
        return SpecError("this is not one of the choices", path=where, given=given, allowed=str(context["expected"]))
    if kind in _KINDS:
        return SpecError("the value is of the wrong kind", path=where, given=given, allowed=_KINDS[kind])
    return SpecError("the value does not fit", path=where, given=given, allowed=first["msg"])


_UNKNOWN = ("unexpected_keyword_argument", "extra_forbidden")
_KINDS = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "text",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
}
_WORDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below", "min_length": "length at least"}


def _field_names(target: Any) -> frozenset[str]:
    if dataclasses.is_dataclass(target):
        return frozenset(field.name for field in dataclasses.fields(target) if field.init)
    return frozenset()


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return describe(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        return value.item()
    if hasattr(value, "tolist"):
        return value.tolist()
    return value
