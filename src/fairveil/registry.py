"""Everything that can be named in a spec: policies, environments, tasks, mechanisms, data sets, learners, metrics.

``@register(kind, name)`` names a class; `build` turns ``{"name": ..., **parameters}`` into an object. A variant is a
class of its own: ``@register(kind, name, variant="printed")`` is listed as ``name/printed`` and built from a table with
``variant = "printed"``, which is a field of that class.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from fairveil import plugins
from fairveil.configuration import field_names
from fairveil.contents import AUDITS, HOMES
from fairveil.errors import ContractError, DependencyError, SpecError, at, choices, did_you_mean

T = TypeVar("T")
AUDIT, MUTANT = "audit-pair", "mutant"
PROOF = "fairveil.proof"
"""The package that a deployment may leave out; nothing imports it: whoever needs it asks for names."""


class LeftOut(DependencyError):
    """A name of `fairveil.proof`, where that package was left out."""


@dataclass(frozen=True)
class Entry:
    """One registered name: what kind it is, what it builds, and its summary for `fairveil list`."""

    kind: str
    name: str
    target: Any

    @property
    def summary(self) -> str:
        doc = inspect.getdoc(self.target) or ""
        return doc.strip().split("\n")[0] if doc else ""


_entries: dict[tuple[str, str], Entry] = {}
_loaded: set[str] = set()
_INSTALLED = "installed plug-ins"


def register(kind: str, name: str, *, variant: str = "") -> Callable[[T], T]:
    """Class or function decorator: make ``target`` known as ``name`` (as a variant of it) among things of this kind."""
    key = _variant_key(name, variant)

    def add(target: T) -> T:
        known = _entries.get((kind, key))
        foreign = key in HOMES.get(kind, {}) and not _origin(target)[0].startswith("fairveil.")
        if foreign or (known is not None and _origin(known.target) != _origin(target)):
            raise SpecError(f"the {kind} name is already taken", given=key, fix="choose another name")
        if inspect.isclass(target) and inspect.isabstract(target):
            missing = ", ".join(sorted(getattr(target, "__abstractmethods__", ())))
            raise ContractError(f"a {kind} is not complete", path=f"{kind}:{key}", fix=f"define {missing}")
        _entries[kind, key] = Entry(kind, key, target)
        if inspect.isclass(target):
            target.name = name  # type: ignore[attr-defined]
        return target

    return add


def _variant_key(name: str, variant: str) -> str:
    return f"{name}/{variant}" if variant else name


def _origin(target: Any) -> tuple[str, str]:
    return getattr(target, "__module__", ""), getattr(target, "__qualname__", repr(target))


def load(kind: str | None = None) -> None:
    """Import what registers names of this kind (of every kind), and every installed plug-in, once."""
    for wanted in (*HOMES, AUDIT, MUTANT) if kind is None else (kind,):
        modules = AUDITS if wanted in (AUDIT, MUTANT) else sorted(set(HOMES.get(wanted, {}).values()))
        with suppress(LeftOut) if kind is None else nullcontext():
            _once(wanted, partial(_import_all, modules))
    _once(_INSTALLED, plugins.load_installed)


def _once(part: str, work: Callable[[], Any]) -> None:
    if part in _loaded:
        return
    _loaded.add(part)  # first: what is imported may ask for names meanwhile
    try:
        work()
    except BaseException:
        _loaded.discard(part)  # half a registry must not pass for a whole one at the next call
        raise


def _import(module: str) -> None:
    try:
        importlib.import_module(f"fairveil.{module}")
    except ModuleNotFoundError as problem:
        if problem.name != PROOF:
            raise
        raise LeftOut(
            "this deployment was made without fairveil.proof: no audits, attacks or laws",
            path=PROOF,
            fix="install the whole package to audit, or to serve a policy of your own",
        ) from None


def _import_all(modules: Sequence[str]) -> None:
    """Import what is there; LeftOut where nothing is."""
    missing = list[LeftOut]()
    for module in modules:
        try:
            _import(module)
        except LeftOut as problem:
            missing.append(problem)
    if missing and len(missing) == len(modules):
        raise missing[0]


@contextmanager
def isolated() -> Iterator[None]:
    """Names and plug-ins registered inside do not outlive the block; fairveil's own, loaded meanwhile, stay."""
    entries, files = dict(_entries), plugins.files()
    try:
        yield
    finally:
        own = {key: entry for key, entry in _entries.items() if _origin(entry.target)[0].startswith("fairveil.")}
        _entries.clear()
        _entries.update(own | entries)
        plugins.forget_all_but(files)


def entries(kind: str | None = None) -> list[Entry]:
    """All registered entries, sorted by kind and name."""
    load(kind)
    found = [entry for entry in _entries.values() if kind is None or entry.kind == kind]
    return sorted(found, key=lambda entry: (entry.kind, entry.name))


def names(kind: str) -> list[str]:
    return [entry.name for entry in entries(kind)]


def find(name: str) -> list[Entry]:
    """Everything of this name, or of this ``kind:name``, without loading anything else."""
    known = {(kind, home) for kind, homes in HOMES.items() for home in homes} | set(_entries)
    wanted = sorted(key for key in known if name in (key[1], f"{key[0]}:{key[1]}"))
    return [entry for kind, own in wanted if (entry := _entry(kind, own)) is not None]


def known() -> list[Entry]:
    """What is registered so far; nothing is loaded."""
    return list(_entries.values())


def _entry(kind: str, name: str) -> Entry | None:
    if (kind, name) not in _entries and name in HOMES.get(kind, {}):
        _import(HOMES[kind][name])  # LeftOut where it lives in a package that is not here
    return _entries.get((kind, name))


def get(kind: str, name: str, path: str = "") -> Any:
    """What is registered under this name; an unknown name suggests the nearest ones."""
    if isinstance(name, str) and (kind, name) in _entries:
        return _entries[kind, name].target
    entry = _entry(kind, name) if isinstance(name, str) else None
    if entry is None and isinstance(name, str):
        load(kind)
        entry = _entries.get((kind, name))
    if entry is None:
        raise _unknown(name, path, kind)
    return entry.target


def kind_of(name: Any, path: str, *kinds: str) -> str:
    """The first of these kinds that has the name; an unknown one is told the names of all of them."""
    found = next((kind for kind in kinds if name in names(kind)), None)
    if found is None:
        raise _unknown(name, path, *kinds)
    return found


def _unknown(name: Any, path: str, *kinds: str) -> SpecError:
    words, known = " or ".join(kinds), [one for kind in kinds for one in names(kind)]
    return SpecError(
        f"there is no {words} of this name" if name else f"the {words} has no name",
        path=path,
        given=name or None,
        allowed=choices(known, f"fairveil list {kinds[0]}") or f"no {words} is registered",
        fix=did_you_mean(name, known) or ("a name of your own needs its file: --plugin FILE" if name else ""),
    )


def target_of(kind: str, table: Mapping[str, Any], path: str) -> Any:
    """What a table describes: the class of its name, or of its name and variant where that is a class of its own."""
    name, variant = table.get("name", ""), table.get("variant")
    target = get(kind, name, f"{path}.name")
    if not isinstance(variant, str) or variant == getattr(target, "variant", variant):
        return target
    own = _entry(kind, _variant_key(name, variant))
    keys = {*HOMES.get(kind, {}), *(entry.name for entry in known() if entry.kind == kind)}
    others = sorted(key for key in keys if key.startswith(f"{name}/"))
    if own is None and others:
        choices = [target.variant, *(key.partition("/")[2] for key in others)]
        raise SpecError("there is no such variant", path=f"{path}.variant", given=variant, allowed=", ".join(choices))
    return target if own is None else own.target


def build(kind: str, table: Mapping[str, Any], path: str) -> Any:
    """Build the object that ``{"name": ..., **parameters}`` describes; errors carry the path in the spec."""
    if not isinstance(table, Mapping):
        raise SpecError(f"a {kind} is a table", path=path, given=table, allowed='{"name": ..., parameters}')
    parameters = dict(table)
    if "name" not in parameters:
        raise SpecError(f"the {kind} has no name", path=f"{path}.name", allowed=", ".join(names(kind)))
    target = target_of(kind, parameters, path)
    del parameters["name"]
    try:
        return target(**parameters)
    except SpecError as problem:
        raise at(problem, path) from None
    except TypeError:
        allowed = sorted(field_names(target)) if dataclasses.is_dataclass(target) else []
        unknown = [key for key in parameters if allowed and key not in allowed]
        raise SpecError(
            f"these parameters do not fit the {kind}",
            path=f"{path}.{unknown[0]}" if unknown else path,
            given=sorted(parameters),
            allowed=", ".join(allowed),
        ) from None


def example(target: Any) -> Any | None:
    """An instance of what is registered, for listings; None for what is not a configuration."""
    make: Any = target
    return make.example() if dataclasses.is_dataclass(target) else None
