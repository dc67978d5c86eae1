"""Public configurations: frozen dataclasses whose fields are checked on construction, from a spec or by hand."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any, TypeVar, dataclass_transform

import pydantic
from pydantic import ConfigDict

from fairveil.errors import SpecError, spec_error
from fairveil.fields import described

C = TypeVar("C", bound=type)
_RULES = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, arbitrary_types_allowed=True)


@dataclass_transform(frozen_default=True, kw_only_default=False, field_specifiers=(described, dataclasses.field))
def configuration(cls: C) -> C:
    """Make a class a frozen, validated public configuration; a wrong field raises SpecError naming it.

    It has an ``example()`` of itself: defaults, and the examples that its fields give.
    """
    made = pydantic.dataclasses.dataclass(frozen=True, config=_RULES)(cls)
    checked = made.__init__
    order = tuple(field.name for field in dataclasses.fields(made) if field.init and not field.kw_only)
    called = {key_of(field): field.name for field in dataclasses.fields(made) if key_of(field) != field.name}

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            checked(self, *args, **{called.get(key, key): value for key, value in kwargs.items()})
        except pydantic.ValidationError as problem:
            more = str(getattr(made, "name", ""))  # registered by now
            raise _named(spec_error(problem, "", field_names(made), order, more), called) from None

    __init__.__wrapped__ = checked  # type: ignore[attr-defined]
    __init__.__signature__ = inspect.signature(made)  # type: ignore[attr-defined]
    if not hasattr(made, "example"):
        made.example = classmethod(_example)  # type: ignore[attr-defined]
    made.__init__ = __init__  # type: ignore[method-assign]
    return made  # type: ignore[return-value]


def key_of(field: dataclasses.Field[Any]) -> str:
    """The name of a field in tables and calls."""
    return str(field.metadata.get("key", field.name))


def _named(problem: SpecError, called: Mapping[str, str]) -> SpecError:
    """A complaint about a field under the name that it has in tables."""
    for key, name in called.items():
        if problem.path == name:
            return SpecError(problem.problem, path=key, given=problem.given, allowed=problem.allowed, fix=problem.fix)
    return problem


def _example(target: Any) -> Any:
    """A small instance of a configuration: for listings, for tests of every registered name, for readers."""
    given = {
        field.name: field.metadata["example"] for field in dataclasses.fields(target) if "example" in field.metadata
    }
    return target(**given)


def describe(thing: Any) -> dict[str, Any]:
    """The complete table of a public configuration, defaults filled: the inverse of `fairveil.registry.build`."""
    table: dict[str, Any] = {"name": thing.name} if hasattr(type(thing), "name") else {}
    for field in dataclasses.fields(thing):
        if field.init:
            table[key_of(field)] = _plain(getattr(thing, field.name))
    return table


def lasting(thing: Any) -> dict[str, Any]:
    """The complete table without fields that came later and have their default: what an earlier version would say."""
    later = {
        key_of(field) for field in dataclasses.fields(thing)
        if field.metadata.get("later") and getattr(thing, field.name) == field.default
    }  # fmt: skip
    return {key: value for key, value in describe(thing).items() if key not in later}


def field_names(target: Any) -> frozenset[str]:
    """The keys of a configuration's table; none when it is not a configuration."""
    if dataclasses.is_dataclass(target):
        return frozenset(key_of(field) for field in dataclasses.fields(target) if field.init)
    return frozenset()


def required(target: Any) -> tuple[str, ...]:
    """The fields of a configuration that have no default."""
    absent = dataclasses.MISSING
    fields = dataclasses.fields(target) if dataclasses.is_dataclass(target) else ()
    return tuple(f.name for f in fields if f.init and f.default is absent and f.default_factory is absent)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return lasting(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        return value.item()
    if hasattr(value, "tolist"):
        return value.tolist()
    return value


class _Unless:
    """The value of a field on things that do not have it. Their class has no such attribute: it is no default."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __get__(self, thing: object | None, kind: type) -> Any:
        if thing is None:
            raise AttributeError(kind.__name__)
        return self.value


def unless(value: Any) -> Any:
    """What a base class says of a field that only some of its subclasses have."""
    return _Unless(value)
