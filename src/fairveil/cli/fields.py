"""Types, ranges and defaults of public configuration in words."""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal, NamedTuple

import typer
from pydantic import BaseModel

from fairveil.configuration import key_of

WORDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below", "min_length": "length at least"}
HUGE, TINY = 1e12, 1e-300
"""Limits this far away only keep nonsense out: not worth a word, or as good as zero."""


NAMES: dict[Any, str] = {
    int: "integer",
    float: "number",
    str: "text",
    bool: "true or false",
    type(None): "none",
    Any: "name or table",
}


class Parameter(NamedTuple):
    """One field as a person reads it."""

    name: str
    kind: str
    default: str
    words: str


def parameters(target: Any) -> list[Parameter]:
    """Each field of a public configuration or of a task's spec: type with its range, default, description."""
    if isinstance(target, type) and issubclass(target, BaseModel):
        return [
            Parameter(
                name,
                _kind(field.annotation, field.metadata),
                _default(field.is_required(), field.get_default(call_default_factory=True)),
                field.description or "",
            )
            for name, field in target.model_fields.items()
        ]
    if not dataclasses.is_dataclass(target):
        return []
    described = []
    for field in dataclasses.fields(target):
        if not field.init:
            continue
        known = getattr(target, "__pydantic_fields__", {}).get(field.name)
        kind = _kind(known.annotation, known.metadata) if known else str(field.type)
        make: Any = field.default_factory
        value = make() if make is not dataclasses.MISSING else field.default
        default = _default(value is dataclasses.MISSING, value)
        described.append(Parameter(key_of(field), kind, default, field.metadata.get("description", "")))
    return described


def _default(required: bool, value: Any) -> str:
    return "required" if required else "default none" if value is None else f"default {value}"


def _kind(annotation: Any, limits: Iterable[Any] = ()) -> str:
    """A type in words: ``float | None`` with limits becomes 'number above 0, or none'."""
    origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return _kind(inside[0], [*_flat(inside[1:]), *limits])
    if origin is Literal:
        text = " or ".join(str(choice) for choice in inside)
    elif origin in (typing.Union, types.UnionType):
        text = ", or ".join(_kind(part) for part in inside)
    elif origin in (tuple, list):
        parts = [_kind(part) for part in inside if part is not Ellipsis]
        text = f"list of {parts[0]}" if len(set(parts)) == 1 else f"list: {', '.join(parts)}"
    elif origin is dict:
        text = "table" if inside[1] is Any else f"table of {_kind(inside[1])}"
    else:
        text = NAMES.get(annotation, "table")
    words = " and ".join(word for item in limits if (word := _limit(item)))
    return f"{text} {words}" if words else text


def _flat(metadata: Iterable[Any]) -> list[Any]:
    """Limits inside pydantic's Field() are one level down."""
    return [item for part in metadata for item in getattr(part, "metadata", None) or [part]]


def _limit(item: Any) -> str:
    """One limit of a parameter in words."""
    found = [(word, getattr(item, key, None)) for key, word in WORDS.items()]
    near = [(word, limit) for word, limit in found if limit is not None and abs(limit) < HUGE]
    return " and ".join(f"{word} {0 if 0 < limit <= TINY else limit:g}" for word, limit in near)


def field_options(target: Any, names: Iterable[str]) -> list[Any]:
    """Fields of a public configuration as options of a command, none unless given; lists are written with commas."""

    def reads() -> None: ...

    made: Any = reads
    made.__signature__ = inspect.Signature([_option(target.__pydantic_fields__[name], name) for name in names])
    app = typer.Typer(add_completion=False)
    app.command()(made)
    return list(typer.main.get_command(app).params)


def _option(field: Any, name: str) -> inspect.Parameter:
    kind = field.annotation
    while typing.get_origin(kind) in (Annotated, typing.Union, types.UnionType):  # without limits; the first of several
        kind = typing.get_args(kind)[0]
    inside, origin = typing.get_args(kind), typing.get_origin(kind)
    words = field.description[0].upper() + field.description[1:]
    if origin is Literal:
        words = " or ".join([", ".join(inside[:-1]), inside[-1]])
    default = str(field.default) if field.default and kind is not bool else False
    read = _list_of(inside[0]) if origin is tuple else None
    given = typer.Option(f"--{name.replace('_', '-')}", help=f"{words}.", parser=read, show_default=default)
    plain: Any = kind if kind in (int, float, bool) else str
    hint: Any = Annotated[plain | None, given]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hint)


def _list_of(each: type) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        try:
            return [each(part) for part in text.split(",")]
        except ValueError:
            return text  # a word, or nonsense: the configuration says what is allowed

    return read
