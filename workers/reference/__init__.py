"""The reference part of the documentation, written from the code and checked against it."""

from __future__ import annotations

from pathlib import Path

from events import asyncapi
from workers.reference import changes, commands, errors, metrics, settings, topics


def pages() -> dict[str, str]:
    """Every generated file by its path under docs/."""
    return {
        "asyncapi.json": asyncapi.text(),
        "asyncapi.md": topics.page(),
        "changes.md": changes.page(),
        "commands.md": commands.page(),
        "errors.md": errors.page(),
        "metrics.md": metrics.page(),
        "settings.md": settings.page(),
    }


def write(docs: Path) -> list[Path]:
    """Writes all of them; the paths written."""
    for name, text in pages().items():
        (docs / name).write_text(text)
    return [docs / name for name in pages()]


def stale(docs: Path) -> list[str]:
    """Names of those that are missing or differ from the code."""
    made = ((name, docs / name, text) for name, text in pages().items())
    return [name for name, path, text in made if not path.exists() or path.read_text() != text]
