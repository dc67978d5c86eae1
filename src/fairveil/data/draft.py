"""A first draft of a spec from a table of one's own, to be edited.

A draft saves typing and promises nothing: ranges and names in it were read off people's rows. Whoever edits it replaces
them by what is known without looking (a questionnaire, a law, a protocol) and declares the spec public.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairveil.arrays import Floats
from fairveil.data.frames import Frame, as_number, as_text
from fairveil.errors import SpecError

ARMS = ("arm", "treatment", "drug", "action", "item", "variant", "offer", "item_id", "therapy", "ad")
OUTCOMES = ("outcome", "reward", "result", "recovered", "click", "success", "rating", "performance", "score", "label")
PROPENSITIES = ("propensity", "propensity_score", "pscore", "p", "probability")
GROUPS = ("group", "sex", "gender", "race", "ethnicity", "age_group", "region", "site")
FEW = 20
"""A column of text with more values than this is left out: names of people, free text."""
MISSING = "missing"
"""The value that stands for empty cells in a draft."""
WIDE = 36
"""Where comments begin."""
WARNING = (
    "A draft, read off the rows of {source}. Edit it before anybody relies on it:",
    "  RANGES, NAMES AND NUMBERS READ OFF THE DATA ARE NOT PUBLIC, and the privacy promise does not cover them.",
    "  Replace each by what is known without looking at the rows (a protocol, a questionnaire, the law),",
    '  then set declared = "public". Until then runs with noise = "secure" are refused.',
)


@dataclass(frozen=True)
class Roles:
    """Which column is what; None or nothing where it is left to be guessed from the names."""

    outcome: str | None = None
    arm: str | None = None
    propensity: str | None = None
    groups: tuple[str, ...] = ()


def draft(frame: Frame, file: str, roles: Roles) -> str:
    """A runnable spec in TOML: ``logged`` where a column names arms, ``people`` otherwise, ``table`` for plain numbers.

    >>> frame = Frame({"drug": np.array(["a", "b"]), "recovered": np.array([0, 1])}, "trial.csv")
    >>> 'name = "logged"' in draft(frame, "trial.csv", Roles())
    True
    """
    for name in (roles.outcome, roles.arm, roles.propensity, *roles.groups):
        if name is not None:
            frame.raw(name)
    arm = roles.arm or (None if roles.groups else _named(frame, ARMS))
    outcome = roles.outcome or _named(frame, OUTCOMES)
    if outcome is not None:
        _refuse_words(frame, outcome)
    if arm is not None:
        if outcome is None:
            raise _unnamed(frame, "outcome", "--outcome")
        lines = _logged(frame, file, arm, outcome, roles.propensity or _named(frame, PROPENSITIES))
    elif outcome is None and not roles.groups and all(_is_number(frame, name) for name in frame.names):
        lines = iter(_table(file))
    else:
        groups = roles.groups or tuple(name for name in [_named(frame, GROUPS)] if name is not None)
        if outcome is None or not groups:
            raise _unnamed(frame, "outcome" if outcome is None else "group", "--outcome and --group")
        lines = _people(frame, file, outcome, groups)
    return "\n".join([*(f"# {line.format(source=frame.source)}" for line in WARNING), "", *lines]) + "\n"


def _head(rounds: int, policy: Sequence[str]) -> list[str]:
    chance = _line("runs", 1, "more of them show what is chance, with seeded noise")
    noise = _line("noise", "seeded", '"secure" for a report to hand over, once the spec is public')
    return [_line("task", "bandit"), _line("rounds", rounds), chance, "seed = 1", noise, "", "[policy]", *policy, ""]


def _logged(frame: Frame, file: str, arm: str, outcome: str, propensity: str | None) -> Iterator[str]:
    names = sorted(set(frame.texts(arm)))
    answered = ~frame.empty(outcome)
    low, high = _range(frame.outcomes(outcome, silent=True)[answered])
    share = 1.0 / len(names) if propensity is None else float(frame.numbers(propensity).min())
    rounds = math.floor(len(frame) * share - 4 * math.sqrt(len(frame) * share * (1 - share)))
    endless = rounds < 100
    yield from _head(1000 if endless else rounds, ['name = "private-nash"', "epsilon = 1.0"])
    yield "[environment]"
    yield 'name = "logged"'
    yield _line("declared", "drafted", '"public" once every line below is')
    yield _line("order", "resampled" if endless else "shuffled")
    yield _line("better", "high", '"low" where a small outcome is good (deaths, costs)')
    if not answered.all():
        yield _line("missing", "never", "an empty outcome never came, in public; to hide that: feedback.treat")
    yield ""
    yield "[environment.log]"
    yield _line("file", file, "a relative path starts in the folder of this file")
    yield _line("arm", arm)
    yield _line("arms", names, "read off the data")
    yield _line("outcome", outcome)
    yield _line("low", low, "read off the data: the smallest outcome there can be")
    yield _line("high", high, "read off the data: the largest outcome there can be")
    if propensity is None:
        yield "# propensity = ...".ljust(WIDE) + "# without it every arm must have been equally likely in the log"
    else:
        yield _line("propensity", propensity)


def _people(frame: Frame, file: str, outcome: str, groups: tuple[str, ...]) -> Iterator[str]:
    low, high = _range(frame.outcomes(outcome))
    yield from _head(
        2000,
        [
            'name = "batched-private-fair-greedy"',
            "epsilon = 1.0",
            "delta = 1e-5                        # below 1 / people",
        ],
    )
    yield "[environment]"
    yield 'name = "people"'
    yield _line("declared", "drafted", '"public" once every line below is')
    yield _line("file", file, "a relative path starts in the folder of this file")
    yield _line("outcome", outcome)
    yield _line("low", low, "read off the data: the smallest outcome there can be")
    yield _line("high", high, "read off the data: the largest outcome there can be")
    yield _line("better", "high", '"low" where a small outcome is good')
    yield _line("groups_by", list(groups), "several columns: groups are the combinations of their values")
    yield _line("order", "drawn", '"file" with per_round: everybody once, for a promise to people')
    for name in frame.names:
        if name != outcome:
            yield from _column(frame, name, name in groups)


def _column(frame: Frame, name: str, group: bool) -> Iterator[str]:
    yield ""
    key = name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _value(name)
    if _is_number(frame, name) and not group:
        gaps = frame.empty(name)
        values = frame.filled({name: 0.0}).numbers(name)[~gaps]
        if len(np.unique(values)) == len(values) and name.lower().endswith("id"):
            yield f"# {key} looks like an identifier: left out"
            return
        low, high = _range(values)
        yield f"[environment.columns.{key}]"
        yield _line("low", low, "read off the data")
        yield _line("high", high, "read off the data")
        if gaps.any():
            yield _line("missing", (low + high) / 2, "what an empty cell counts as: any public number of the range")
        return
    gaps = frame.empty(name)
    known = sorted(set(frame.filled({name: MISSING}).texts(name)))
    if len(known) > FEW and not group:
        yield f"# {key} has {len(known)} different values: left out (names and free text are not columns)"
    elif len(known) < 2:
        yield f"# {key} has one value only: left out"
    else:
        yield f"[environment.columns.{key}]"
        yield _line("values", known, "read off the data")
        if gaps.any():
            yield _line("missing", MISSING, "what an empty cell counts as: one of the values")


def _table(file: str) -> list[str]:
    world = [
        "[environment]",
        'name = "table"',
        _line("file", file, "one row a person, one column an arm; rewards outside [0, 1] are clipped"),
        _line("order", "resampled", 'or "recorded": one row a round, as they stand'),
    ]
    return [*_head(1000, ['name = "private-nash"', "epsilon = 1.0"]), *world]


def _named(frame: Frame, usual: Sequence[str]) -> str | None:
    """The first column that is called what such columns are usually called."""
    lower = {name.lower(): name for name in frame.names}
    return next((lower[name] for name in usual if name in lower), None)


def _unnamed(frame: Frame, role: str, option: str) -> SpecError:
    return SpecError(
        f"no column is called like a column of {role}s",
        path=role,
        given=list(frame.names),
        allowed="the name of one of these columns",
        fix=f"say which it is: {option} COLUMN",
    )


def _refuse_words(frame: Frame, outcome: str) -> None:
    """An outcome of two words is a label: say so, and not that every row is wrong."""
    known = sorted({as_text(value) for value in frame.raw(outcome)} - {""})
    if len(known) != 2 or any(math.isfinite(as_number(word)) for word in known):
        return
    first, second = known
    raise SpecError(
        f"the outcome has the two values {first!r} and {second!r}, not numbers", path=outcome, allowed="numbers (0, 1)",
        fix="write 0 for one and 1 for the other in a copy of the table; a classifier takes the words as they are: "
        f"classes=({first!r}, {second!r}), the positive one second",
    )  # fmt: skip


def _is_number(frame: Frame, name: str) -> bool:
    """Cells that are filled hold numbers; an empty one is refused where the column is read."""
    filled = [value for value in frame.raw(name) if as_text(value)]
    return bool(filled) and all(math.isfinite(as_number(value)) for value in filled)


def _range(values: Floats) -> tuple[float, float]:
    """A range of round numbers around what is there.

    >>> _range(np.array([17.0, 63.0]))
    (10.0, 70.0)
    """
    if not values.size:
        raise SpecError("no cell of the outcome is filled", path="outcome", allowed="a column with numbers")
    low, high = float(values.min()), float(values.max())
    unit = 10.0 ** math.floor(math.log10(max(abs(low), abs(high), 1e-12)))
    low, high = math.floor(low / unit) * unit, math.ceil(high / unit) * unit
    return (low, high) if low < high else (low, low + unit)


def _line(key: str, value: Any, words: str = "") -> str:
    made = f"{key} = {_value(value)}"
    return f"{made:<{WIDE - 2}}  # {words}" if words else made


def _value(value: Any) -> str:
    """A TOML value: JSON is one for texts, numbers and lists of them."""
    return json.dumps(value, ensure_ascii=False)
