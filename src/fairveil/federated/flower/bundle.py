"""The app bundle that `coordinate` submits: one ServerApp, no code for parties. The same bytes from every machine."""

from __future__ import annotations

import hashlib
from pathlib import Path

from fairveil.errors import DependencyError
from fairveil.federated.flower.programs import HERE

PROJECT = """\
[project]
name = "fairveil-federation"
version = "1.0.0"
description = "Carries bytes between fairveil's coordinator and its parties"
license = "MIT"
dependencies = ["flwr>=1.41"]

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[tool.hatch.build.targets.wheel]
packages = ["."]

[tool.flwr.app]
publisher = "fairveil"

[tool.flwr.app.components]
serverapp = "carrier.serverapp:app"
clientapp = "carrier.serverapp:client"

[tool.flwr.app.config]
"""


def write_bundle(folder: Path) -> Path:
    """Write the app into a folder, for `flwr run`."""
    (folder / "carrier").mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(PROJECT)
    (folder / "carrier" / "__init__.py").write_text("")
    (folder / "carrier" / "serverapp.py").write_text((HERE / "serverapp.py").read_text())
    return folder


def bundle_digest(folder: Path) -> str:
    """The sha256 that Flower gives to the bundle of this app."""
    try:
        from flwr.cli.build import build_fab_from_disk
    except ImportError:
        raise DependencyError("a bundle is built by Flower", fix="make federation") from None
    return hashlib.sha256(build_fab_from_disk(folder)).hexdigest()
