"""Breaking served code for the length of a block: methods of a class, functions wherever they were imported."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from fairveil.privacy.noise import Noise

Change = Callable[[Callable[..., Any]], Callable[..., Any]]
"""From a function to its broken twin."""


@contextmanager
def method(owner: type, name: str, change: Change) -> Iterator[None]:
    """Replace a method of a class (its own or inherited) by its broken twin."""
    own = owner.__dict__.get(name)
    original = getattr(owner, name)
    setattr(owner, name, functools.wraps(original)(change(original)))
    try:
        yield
    finally:
        if own is None:
            delattr(owner, name)
        else:
            setattr(owner, name, own)


@contextmanager
def function(original: Callable[..., Any], twin: Callable[..., Any]) -> Iterator[None]:
    """Replace a function in every module of the package that holds it under its own or another name."""
    changed = []
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


@contextmanager
def together(*plants: Any) -> Iterator[None]:
    """Several breaks at once."""
    with ExitStack() as stack:
        for plant in plants:
            stack.enter_context(plant)
        yield


def with_noise(swap: Callable[[Noise], Noise]) -> Change:
    """A method that hands another source on wherever it was given one."""

    def change(original: Callable[..., Any]) -> Callable[..., Any]:
        def broken(*args: Any, **kwargs: Any) -> Any:
            swapped = [swap(part) if isinstance(part, Noise) else part for part in args]
            named = {key: swap(part) if isinstance(part, Noise) else part for key, part in kwargs.items()}
            return original(*swapped, **named)

        return broken

    return change
