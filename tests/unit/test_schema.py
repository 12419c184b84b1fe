"""The committed JSON Schemas are those of the code."""

from __future__ import annotations

from pathlib import Path

from events.schema import CONTRACTS, stale
from tests.support.schemas import SCHEMAS, validator


def test_the_committed_copy_is_the_codes() -> None:
    """`context-engine schema` was run after the last change of a contract."""
    assert stale(SCHEMAS) == []
    assert {path.stem for path in SCHEMAS.glob("*.json")} == set(CONTRACTS)


def test_a_stale_copy_is_named(tmp_path: Path) -> None:
    """The check can fail."""
    assert stale(tmp_path) == list(CONTRACTS)


def test_every_schema_is_a_schema() -> None:
    """Each is valid by its own dialect."""
    for name in CONTRACTS:
        validator(name)
