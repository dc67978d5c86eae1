"""Shared fixtures: the data folder, and skips that CI turns into failures (FAIRVEIL_REQUIRE=browser,ray)."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BESIDE = ROOT.parent / "shared" / "data"

if "FAIRVEIL_DATA" not in os.environ and BESIDE.is_dir():
    os.environ["FAIRVEIL_DATA"] = str(BESIDE)

PARTS = {
    "browser": lambda: (
        (shutil.which("chromium") or shutil.which("google-chrome")) and importlib.util.find_spec("playwright"),
        "Chromium or playwright is not installed",
    ),
    "ray": lambda: (importlib.util.find_spec("ray"), "Ray is not installed"),
}
REQUIRED = {part for part in os.environ.get("FAIRVEIL_REQUIRE", "").split(",") if part}


def pytest_configure(config: pytest.Config) -> None:
    unknown = REQUIRED - set(PARTS)
    if unknown:
        raise pytest.UsageError(f"FAIRVEIL_REQUIRE: unknown {sorted(unknown)}; allowed: {sorted(PARTS)}")


def pytest_runtest_setup(item: pytest.Item) -> None:
    for part, check in PARTS.items():
        if item.get_closest_marker(part) is None:
            continue
        present, reason = check()
        if not present and part in REQUIRED:
            pytest.fail(f"{part} is required by FAIRVEIL_REQUIRE: {reason}")
        if not present:
            pytest.skip(f"{part}: {reason}")


@pytest.fixture(scope="session")
def repository() -> Path:
    return ROOT


@pytest.fixture(autouse=True)
def _own_names():
    """Names and plug-ins that a test registers do not outlive it."""
    from fairveil import registry
    from fairveil.lab import papers

    registry.load()
    papers.load()
    with registry.isolated():
        yield
