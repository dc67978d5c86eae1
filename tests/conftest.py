"""Shared fixtures: the data folder, and skips that CI turns into failures (FAIRVEIL_REQUIRE=browser,postgres,ray)."""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import postgres_server
import pytest
from hypothesis import HealthCheck, settings

collect_ignore_glob = ["support/*", "compat/make_*.py", "golden/record.py"]  # helpers of tests, not tests

ROOT = Path(__file__).resolve().parent.parent
BESIDE = ROOT.parent / "shared" / "data"

if "FAIRVEIL_DATA" not in os.environ and BESIDE.is_dir():
    os.environ["FAIRVEIL_DATA"] = str(BESIDE)

PARTS = {
    "browser": lambda: (
        (shutil.which("chromium") or shutil.which("google-chrome")) and importlib.util.find_spec("playwright"),
        "Chromium or playwright is not installed",
    ),
    "postgres": lambda: (
        (os.environ.get("FAIRVEIL_POSTGRES") or postgres_server.programs()) and importlib.util.find_spec("psycopg"),
        "PostgreSQL or psycopg is not installed",
    ),
    "flower": lambda: (importlib.util.find_spec("flwr"), "Flower is not installed; make federation"),
    "ray": lambda: (importlib.util.find_spec("ray"), "Ray is not installed"),
}
REQUIRED = {part for part in os.environ.get("FAIRVEIL_REQUIRE", "").split(",") if part}


def pytest_configure(config: pytest.Config) -> None:
    unknown = REQUIRED - set(PARTS)
    if unknown:
        raise pytest.UsageError(f"FAIRVEIL_REQUIRE: unknown {sorted(unknown)}; allowed: {sorted(PARTS)}")


LONG = [line for line in (ROOT / "tests" / "long.txt").read_text().splitlines() if line and not line.startswith("#")]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sweeps are marked by the list, so that one page shows what `make test` leaves to `make test-long`.

    Slow tests come first: no worker waits for one at the end, and none that share a fixture are handed to two workers.
    """
    for item in items:
        if item.nodeid.startswith(tuple(LONG)):
            item.add_marker(pytest.mark.long)
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


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

    papers.load()
    with registry.isolated():
        yield


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a server: the one that FAIRVEIL_POSTGRES names, or one of this session's own."""
    given = os.environ.get("FAIRVEIL_POSTGRES")
    if given:
        yield given
        return
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="fairveil-postgres-", dir=base))
    yield postgres_server.start(folder)
    postgres_server.stop(folder)
    shutil.rmtree(folder)


@pytest.fixture
def database(postgres: str) -> Iterator[str]:
    """The URL of a schema that is this test's own."""
    url = postgres_server.own_schema(postgres)
    yield url
    postgres_server.drop_schema(url)


BOTH = [pytest.param("sqlite"), pytest.param("postgres", marks=pytest.mark.postgres)]


@pytest.fixture(params=BOTH)
def ledger_path(request: pytest.FixtureRequest, tmp_path: Path) -> str | Path:
    """Where a test keeps a ledger: in a file, then on a server."""
    if request.param == "sqlite":
        return tmp_path / "ledger.db"
    return f"{request.getfixturevalue('database')}#ledger"


# A loaded machine is slow, not wrong: no test is timed.
settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")
