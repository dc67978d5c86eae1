"""One class per kind of user mistake; all derive from FairveilError and share one shape.

An error says where (``path``), what was given, what is allowed and what to do. Values that come from
people (rewards, features, labels) never enter a message: callers pass a description instead.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import ValidationError


class FairveilError(Exception):
    """Base of every error this package raises on purpose.

    >>> FairveilError("epsilon is out of range", path="policy.epsilon", given=-1, allowed="a number in [1e-6, 1e6]")
    FairveilError('policy.epsilon: epsilon is out of range; given -1; allowed: a number in [1e-6, 1e6]')
    """

    code = "error"
    exit_code = 1

    def __init__(
        self,
        problem: str,
        *,
        path: str = "",
        given: Any = None,
        allowed: str = "",
        fix: str = "",
    ) -> None:
        self.problem, self.path, self.allowed, self.fix = problem, path, allowed, fix
        self.given = given
        parts = [f"{path}: {problem}" if path else problem]
        if given is not None:
            parts.append(f"given {_short(given)}")
        if allowed:
            parts.append(f"allowed: {allowed}")
        if fix:
            parts.append(fix)
        super().__init__("; ".join(parts))

    def __reduce__(self) -> Any:
        facts = {"path": self.path, "given": self.given, "allowed": self.allowed, "fix": self.fix}
        return (_rebuild, (type(self), self.problem, facts))

    def to_dict(self) -> dict[str, Any]:
        """The one error shape of the CLI (``--json``), the lab and the service."""
        return {
            "error": self.code,
            "message": str(self),
            "path": self.path,
            "given": None if self.given is None else _short(self.given),
            "allowed": self.allowed,
            "fix": self.fix,
        }


def _rebuild(kind: type[FairveilError], problem: str, facts: dict[str, Any]) -> FairveilError:
    return kind(problem, **facts)


def _short(value: Any, limit: int = 120) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."


class SpecError(FairveilError):
    """A spec or a public configuration is wrong: unknown key, unknown name, value out of range."""

    code, exit_code = "spec", 2


class InputError(FairveilError):
    """Data handed to an algorithm is wrong: shape, range, not finite. Never repeats a private value."""

    code, exit_code = "input", 2


class AssumptionError(FairveilError):
    """An assumption that a theorem or a solver needs does not hold for this input."""

    code, exit_code = "assumption", 2


class HorizonError(FairveilError):
    """A policy built for a fixed number of rounds or releases was asked to go on past it."""

    code, exit_code = "horizon", 2


class DataError(FairveilError):
    """A data set is missing, damaged or cannot be downloaded."""

    code, exit_code = "data", 3


class DependencyError(FairveilError):
    """An optional part of fairveil is not installed."""

    code, exit_code = "dependency", 3


class BudgetError(FairveilError):
    """A privacy budget does not allow what was asked. Nothing was charged."""

    code, exit_code = "budget", 4


class PrivacyError(FairveilError):
    """Something would be released without a valid guarantee (test noise, unknown event, printed variant)."""

    code, exit_code = "privacy", 4


class LedgerError(FairveilError):
    """The ledger cannot be opened, read or written; what it says was spent stays spent."""

    code, exit_code = "ledger", 5


class LedgerTampered(LedgerError):
    """The ledger's chain or anchor does not match its content."""

    code, exit_code = "ledger-tampered", 5


class AuditViolation(FairveilError):
    """An audit measured a privacy loss above the claim."""

    code, exit_code = "audit", 6


class StoreError(FairveilError):
    """Results cannot be written or read (full disk, read-only folder, damaged file)."""

    code, exit_code = "store", 7


class EngineError(FairveilError):
    """Workers cannot be started or reached, or kept failing."""

    code, exit_code = "engine", 8


class ContractError(FairveilError):
    """A policy, mechanism or environment breaks a law that all of its kind keep."""

    code, exit_code = "contract", 2


NOT_REPEATED = "its value is not repeated here: it is private, and messages end up in logs"
"""Why an error about somebody's row does not say what stands in it."""


def did_you_mean(given: Any, known: Iterable[str]) -> str:
    """A question that names what the user probably meant; empty when nothing is near."""
    near = difflib.get_close_matches(str(given), sorted(known), n=3, cutoff=0.5)
    return f"did you mean {' or '.join(near)}?" if near else ""


def undetermined_budget(path: str, allowed: str, **numbers: float | None) -> SpecError:
    """A budget of too few or too many numbers, in words."""
    given = ", ".join(f"{name} = {number:g}" for name, number in numbers.items() if number is not None)
    alone = numbers.get("epsilon") is not None and numbers.get("delta") is None
    return SpecError(
        "the budget is not determined" + (": epsilon needs a delta" if alone else ""),
        path=path,
        given=given or "no budget",
        allowed=allowed,
        fix="add delta, well below one in the number of people (1e-7, say)" if alone else "give exactly one of these",
    )


def choices(known: Sequence[str], command: str) -> str:
    """All names when a person can read them at a glance, else how many there are and the command that lists them."""
    return ", ".join(known) if len(known) <= 25 else f"one of {len(known)} names, see {command}"


def at(problem: SpecError, path: str) -> SpecError:
    """The same error, one level further down in the spec."""
    where = ".".join(part for part in (path, problem.path) if part)
    return type(problem)(problem.problem, path=where, given=problem.given, allowed=problem.allowed, fix=problem.fix)


def spec_error(
    problem: ValidationError,
    path: str = "",
    known: frozenset[str] = frozenset(),
    order: tuple[str, ...] = (),
    explained: str = "",
) -> SpecError:
    """Turn pydantic's most telling complaint into our error shape: an unknown key first, it explains a missing one.

    ``order`` names arguments that were given by position, ``explained`` what `fairveil explain` says more about.
    """
    complaints = problem.errors()
    first = min(complaints, key=lambda complaint: complaint["type"] not in _UNKNOWN)
    if any(map(_is_choice, first["loc"])):  # of several kinds that a value may have: the one that it nearly was
        same = [complaint for complaint in complaints if complaint["loc"][:1] == first["loc"][:1]]
        first = max(same, key=lambda complaint: len(_place(complaint["loc"])))
    place = _place(first["loc"])
    if place and isinstance(place[0], int) and place[0] < len(order):
        place[0] = order[place[0]]
    where = ".".join([part for part in [path, *map(str, place)] if part])
    kind, context = first["type"], first.get("ctx", {})
    if kind in _UNKNOWN:
        fix = did_you_mean(first["loc"][-1], known) or "take it out, or use one of these keys"
        return SpecError("this key is not known", path=where, allowed=", ".join(sorted(known)), fix=fix)
    if kind in ("missing", "missing_argument"):
        more = f"; fairveil explain {explained} says what it may be" if explained else ""
        return SpecError("this key is required", path=where, fix=f"add it{more}")
    given, (words, allowed) = first.get("input"), complaint_in_words(first)
    if kind == "unexpected_positional_argument":
        return SpecError("one value too many", path=where, given=given, allowed=", ".join(order), fix="take it out")
    fix = "choose a value in this range"
    if "expected" in context:
        fix = did_you_mean(given, allowed.replace(" or ", ", ").split(", ")) or "choose one of them"
    elif kind in _KINDS:
        quoted = isinstance(given, str) and "number" in allowed and _is_number(given)
        fix = "write it without quotes" if quoted else f"write {allowed}"
    return SpecError(words, path=where, given=given, allowed=allowed, fix=fix)


def complaint_in_words(complaint: Mapping[str, Any]) -> tuple[str, str]:
    """What is wrong with a value that pydantic complains about, and what is allowed; the value is not repeated.

    >>> complaint_in_words({"type": "greater_than", "ctx": {"gt": 0}})
    ('the value is out of range', 'above 0')
    """
    kind, context = complaint["type"], complaint.get("ctx", {})
    limits = [f"{word} {context[key]}" for key, word in _WORDS.items() if key in context]
    if limits:
        return "the value is out of range", ", ".join(limits)
    if "expected" in context:
        return "this is not one of the choices", str(context["expected"]).replace("'", "")
    if kind in _KINDS:
        return "the value is of the wrong kind", _KINDS[kind]
    if "pattern" in context:
        return "the value does not fit", f"text of the form {context['pattern']}"
    return "the value does not fit", str(context.get("error", "another kind of value"))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _place(parts: tuple[int | str, ...]) -> list[int | str]:
    """Where a complaint is, in the spec's own keys."""
    return [part for part in parts if not _is_choice(part)]


def _is_choice(part: int | str) -> bool:
    """Whether a part of a place is pydantic's name for one of several kinds, as ``constrained-float``."""
    return isinstance(part, str) and _CHOICE.fullmatch(part) is not None


_CHOICE = re.compile(r"int|float|str|bool|none|(constrained|lax-or-strict|function|is-instance|json-or)-.*|.*[\[(].*")
_UNKNOWN = ("unexpected_keyword_argument", "extra_forbidden")
_KINDS = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
}
_WORDS = {
    "ge": "at least",
    "gt": "above",
    "le": "at most",
    "lt": "below",
    "min_length": "length at least",
    "max_length": "length at most",
}
