"""Fixed statements that look up by keys, whatever the database holds.

They run by plans that are made once for each connection, when a table may be empty or nothing
known of it. So they leave the planner no choice of an order: what is looked up for each row is a
subquery of its own, by an index, and never is a table read whole to be joined.
"""

from __future__ import annotations

import re
from typing import Any

from sqlalchemy import Integer, Text, bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.dialects.postgresql.asyncpg import dialect
from sqlalchemy.types import TypeEngine

_TYPES: dict[str, TypeEngine[Any]] = {
    **dict.fromkeys(("table_ids", "team_ids", "agent_stack"), ARRAY(Text)),
    **dict.fromkeys(("tail", "reach", "older", "older_chars"), Integer()),
    **dict.fromkeys(
        (
            "workspace_id",
            "user_id",
            "view_id",
            "task_id",
            "project_id",
            "team_id",
            "organization_id",
            "workflow_id",
            "conversation_id",
            "count_ms",
        ),
        Text(),
    ),
}


class Statement:
    """The SQL with the driver's own places for values, and their names in that order."""

    def __init__(self, sql: str) -> None:
        typed = (
            bindparam(n, type_=kind) for n, kind in _TYPES.items() if re.search(rf":{n}\b", sql)
        )
        compiled = text(sql).bindparams(*typed).compile(dialect=dialect())  # type: ignore[no-untyped-call]
        self.sql = str(compiled)
        self.names: tuple[str, ...] = tuple(compiled.positiontup or ())


def each(rows: str, name: str, lookup: str) -> str:
    """A FROM item: for each of `rows` what `lookup` finds, as `name`.

    `OFFSET 0` keeps the planner from making a join of it.
    """
    return f"{rows} CROSS JOIN LATERAL ({lookup} OFFSET 0) {name}"


def spread(query: str) -> str:
    """A column of what `query` finds, a row for each.

    The planner takes it for ten rows. Left to guess, it multiplies from step to step, and makes
    room for billions, which takes longer than to look up the few that there are.
    """
    return f"unnest(ARRAY({query}))"


_HELD = """
        SELECT * FROM grants WHERE workspace_id = :workspace_id
        AND subject_type = s.subject_type AND subject_id = s.subject_id"""
_VIEW = "SELECT table_id FROM views WHERE g.scope_type = 'view' AND id = g.scope_id"

GRANTS = f"""
    SELECT g.*, v.table_id AS view_of FROM {each("subjects s", "g", _HELD)}
    LEFT JOIN LATERAL ({_VIEW} OFFSET 0) v ON true"""  # noqa: S608 - the parts are constants
"""A query: the grants in the workspace of `subjects`, rows of subject_type and subject_id.

Of theirs alone, however many there are of others; and of all of theirs, not only of those on what
is asked for: to look for a right on a table would take time that tells whether there is one.
"""

GRANT = """json_build_object(
        'subject_type', g.subject_type, 'subject_id', g.subject_id,
        'scope_type', g.scope_type, 'scope_id', g.scope_id, 'role', g.role,
        'table_id', g.view_of)"""
"""A row `g` of `GRANTS` as facts tell it."""
