"""What the Tab key offers after a command: registered names, without loading what they name."""

from __future__ import annotations

from fairveil import contents, registry


def kinds(start: str) -> list[str]:
    """Kinds of names."""
    return [kind for kind in (*contents.HOMES, registry.AUDIT, "artefact") if kind.startswith(start)]


def names(start: str) -> list[str]:
    """Built-in names, and ``kind:name`` once a kind is typed."""
    known = [(kind, name) for kind, homes in contents.HOMES.items() for name in homes if "/" not in name]
    typed = [f"{kind}:{name}" for kind, name in known] if ":" in start else [name for _, name in known]
    return sorted({name for name in typed if name.startswith(start)})


def artefacts(start: str) -> list[str]:
    """Papers, and their figures and tables."""
    from fairveil.lab import papers
    from fairveil.lab.costs import MEASURED

    return [name for name in ("all", *papers.NAMES, *MEASURED) if name.startswith(start)]


def data_sets(start: str) -> list[str]:
    """Data sets."""
    return [name for name in contents.HOMES["dataset"] if name.startswith(start)]
