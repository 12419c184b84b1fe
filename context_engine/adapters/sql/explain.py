"""Why a user sees a table, view, field or record of the reference domain, or does not.

For operators: it reads what lies under the ids, whoever may see it. One snapshot; the record is
asked about by one statement, whatever the number of rules.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from context_engine import access
from context_engine.access import Question, Step, Stored
from context_engine.adapters.sql.driver import InTransaction, Reader
from context_engine.adapters.sql.faults import database_faults
from context_engine.adapters.sql.predicates import Binds
from context_engine.adapters.sql.reads import SqlReads
from context_engine.adapters.sql.view_filters import row_set_sql
from context_engine.facts import Facts
from context_engine.view_filters import RowSet

_STORED = """
SELECT json_build_object(
    'table', (SELECT json_build_object('workspace_id', t.workspace_id, 'gone', t.trashed)
        FROM tables t WHERE t.id = $1),
    'view', (SELECT json_build_object('workspace_id', v.workspace_id, 'table_id', v.table_id)
        FROM views v WHERE v.id = $2),
    'field', (SELECT json_build_object('workspace_id', f.workspace_id, 'table_id', f.table_id)
        FROM fields f WHERE f.id = $3),
    'record', (SELECT json_build_object('workspace_id', r.workspace_id, 'table_id', r.table_id,
        'gone', r.deleted_at IS NOT NULL) FROM records r WHERE r.id = $4)
)::text
"""


async def explain(
    database: AsyncEngine, question: Question, *, now: datetime | None = None
) -> tuple[Step, ...]:
    """The rules that decide on `question`, in order, the verdicts last.

    What is not there is told as such. `now`: the database's time unless given. Raises
    `Unavailable`.
    """
    async with database_faults(), database.connect() as connection:
        await connection.execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        )
        return await _within(connection, question, now)


async def _within(
    connection: AsyncConnection, question: Question, now: datetime | None
) -> tuple[Step, ...]:
    reader = InTransaction(connection)
    stored = await _stored(reader, question)
    facts, attributes = await _read(SqlReads(reader), question)
    found = access.explain(facts, question, stored, attributes=attributes, now=now)
    record = stored.record
    if question.record_id is None or record is None or record.gone:
        return found.steps({})
    if record.table_id != question.table_id:
        return found.steps({})
    return found.steps(await _holds(reader, question.record_id, found.tests))


async def _read(reads: SqlReads, question: Question) -> tuple[Facts, access.Attributes]:
    """As `reading.read`, but with the table, whether a right leads into it or not."""
    at = access.coordinates_of(question)
    facts = await reads.facts(at, tail=0)
    ids = dict.fromkeys((*access.reach(facts, at), question.table_id))
    facts = facts.with_tables(await reads.tables(at, facts, tuple(ids)))
    lookups = access.lookups(facts, at)
    if not lookups or facts.user is None:
        return facts, {}
    return facts, await reads.attributes(at, facts.user, lookups)


async def _stored(reader: Reader, question: Question) -> Stored:
    ids = (question.table_id, question.view_id, question.field_id, question.record_id)
    return Stored.model_validate_json((await reader.fetchrow(_STORED, *ids))[0])


async def _holds(reader: Reader, record_id: str, tests: Mapping[str, RowSet]) -> Mapping[str, bool]:
    """Which of the rows the record is among."""
    if not tests:
        return {}
    binds = Binds()
    conditions = ", ".join(row_set_sql(rows, binds) for rows in tests.values())
    record = binds.text(record_id)
    query = (
        f"SELECT to_json(ARRAY[{conditions}])::text FROM records"  # noqa: S608 - values are bound
        f" WHERE records.id = {record}"
    )
    row = await reader.fetchrow(query, *binds.values)
    return dict(zip(tests, json.loads(row[0]), strict=True)) if row is not None else {}
