"""What the reading statements give: a text that is spelled as one before is not read again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from context_engine.adapters.sql import stored
from context_engine.facts import TABLE_CHARS


def text(**more: Any) -> str:
    """One table, as `TABLES` tells of it."""
    bare = {"id": "t", "name": "T", "policy_default": "show_all"}
    lists = ("policies", "fields", "views", "field_permissions", "grants")
    return json.dumps([{**bare, **{name: [] for name in lists}, **more}])


@pytest.fixture(autouse=True)
def nothing_kept() -> None:
    stored.TOLD.forget()


def test_a_text_that_was_told_before_is_not_read_again() -> None:
    """Any other is, and has another digest."""
    first = stored.tables(text())
    assert [one.name for one in first] == ["T"]
    assert stored.tables(text()) is first
    other = stored.tables(text(name="U"))
    assert [one.name for one in other] == ["U"]
    assert other.digest != first.digest
    stored.TOLD.forget()
    again = stored.tables(text())
    assert again is not first
    assert (again, again.digest, again.made) == (first, first.digest, {})


def test_a_literal_that_python_holds_to_be_equal_is_another_text() -> None:
    """A policy that is edited from 1 to true."""

    def policy(literal: str) -> str:
        pred = f'{{"cmp": {{"ref": "field:f", "op": "eq", "operand": {{"literal": {literal}}}}}}}'
        return text(policies=[{"id": "p", "subjects": "[]", "pred": pred, "mode": "restrictive"}])

    found = [stored.tables(policy(one)) for one in ("1", "true", "1.0")]
    assert len({one.digest for one in found}) == 3


def test_as_many_tables_are_kept_as_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the texts used last; more than all are not kept."""
    monkeypatch.setattr(stored, "MOST_TABLES", 4)  # two texts of one table
    one, two = stored.tables(text(id="1")), stored.tables(text(id="2"))
    assert stored.tables(text(id="1")) is one
    stored.tables(text(id="3"))
    assert stored.tables(text(id="1")) is one
    assert stored.tables(text(id="2")) is not two
    monkeypatch.setattr(stored, "MOST_TABLES", 1)
    assert stored.tables(text(id="4")) is not stored.tables(text(id="4"))


def test_a_long_text_takes_the_room_of_many_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept is bounded in memory, whatever a table is said to have."""
    monkeypatch.setattr(stored, "MOST_TABLES", 8)
    one, long = stored.tables(text(id="1")), text(id="2", name="x" * 6 * TABLE_CHARS)
    assert stored.tables(long) is stored.tables(long)
    assert stored.tables(text(id="1")) is not one
    endless = text(id="3", name="x" * 8 * TABLE_CHARS)
    assert stored.tables(endless) is not stored.tables(endless)
    assert stored.tables(text(id="1")) is stored.tables(text(id="1"))
