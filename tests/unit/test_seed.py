"""The demo workspace's content, before anything stores it."""

from __future__ import annotations

import itertools

from workers.seed import dialogue, rows, shape


def test_the_records_are_a_thousand_and_always_the_same() -> None:
    """Equal seeds give equal rows, another seed gives others."""
    first = {table.id: rows.rows(table.id, 1) for table in shape.TABLES}
    again = {table.id: rows.rows(table.id, 1) for table in shape.TABLES}
    assert first == again
    assert sum(map(len, first.values())) == 1_000
    assert rows.rows("tbl-tasks", 2) != first["tbl-tasks"]


def test_rows_write_every_type_of_field_and_link_to_rows_that_exist() -> None:
    """No cell or link leads nowhere; every type that a field can have occurs."""
    ids = {row.id for table in shape.TABLES for row in rows.rows(table.id, 1)}
    types = set()
    for table in shape.TABLES:
        known = {field.id: field.type for field in table.fields}
        links = {link.id for link in shape.LINKS if link.table_id == table.id}
        for row in rows.rows(table.id, 1):
            types |= {known[field_id] for field_id in row.cells}
            assert set(row.links) <= links
            assert {target for targets in row.links.values() for target in targets} <= ids
    assert types == {"text", "number", "boolean", "date", "select", "multi_select", "user"}
    assert len(shape.LINKS) >= len(shape.TABLES)


def test_the_dialogue_answers_every_tool_call() -> None:
    """More than thirty messages; each call is followed at once by its result."""
    said = list(dialogue.said())
    assert len(said) > 30
    calls = 0
    for one, following in itertools.pairwise(said):
        for call in one.tool_calls:
            calls += 1
            assert (following.role, following.tool_call_id) == ("tool", call["id"])
            assert following.table_ids == one.table_ids
    assert calls == sum(one.role == "tool" for one in said) > 2
