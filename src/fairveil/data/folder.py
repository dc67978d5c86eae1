"""Where data files lie: the folder named by ``FAIRVEIL_DATA`` first, then the user's cache."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from fairveil.errors import DataError

VARIABLE = "FAIRVEIL_DATA"


def cache_folder() -> Path:
    """The user's cache for downloaded data (``XDG_CACHE_HOME`` is honoured); it need not exist yet."""
    if os.environ.get("XDG_CACHE_HOME"):
        base = Path(os.environ["XDG_CACHE_HOME"])
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path.home() / ".cache"
    return base / "fairveil" / "data"


def folder() -> Path:
    """The folder that is looked at first: ``FAIRVEIL_DATA`` if set, else the cache."""
    named = os.environ.get(VARIABLE)
    if not named:
        return cache_folder()
    path = Path(named).expanduser()
    if not path.is_dir():
        raise DataError(
            f"the folder named by {VARIABLE} does not exist",
            path=VARIABLE,
            given=named,
            fix=f"correct or unset {VARIABLE}; without it data are kept in {cache_folder()}",
        )
    return path


def find(relative: str) -> Path | None:
    """The file at this place, plain or gzipped, in the data folder or the cache; None when neither has it."""
    for root in dict.fromkeys((folder(), cache_folder())):
        for candidate in (root / relative, root / f"{relative}.gz"):
            if candidate.is_file():
                return candidate
    return None
