"""Where the files that others made are, for tests that read them; they skip where they are not."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).parents[3] / "shared" / "data"

WORKSPACES = (
    "lightweight-crm",
    "ooo-management",
    "product-roadmap",
    "project-management",
    "supply-chain-procurement-management",
    "task-management",
)


def workspace_file(name: str) -> Path:
    return _there(SHARED / "baserow" / f"{name}.json")


def dialogues_file() -> Path:
    return _there(SHARED / "conversations" / "airline-tool-dialogues.json")


def _there(path: Path) -> Path:
    if not path.exists():
        pytest.skip(f"there is no ../shared/data/{path.parent.name}/{path.name} beside the project")
    return path
