"""The rows of a table that its user sees, as conditions: what counts, and lists."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import ColumnElement

from context_engine.access import VisibleTable, Way
from context_engine.adapters.sql.predicates import Binds, as_condition
from context_engine.adapters.sql.view_filters import any_row_set_sql
from context_engine.view_filters import RowSet


def rows_of(table: VisibleTable, showing: Collection[str] = ()) -> ColumnElement[bool]:
    """Live records of `table` in sight by some way, which shows all the fields of `showing`."""
    return as_condition(lambda binds: live_rows(table.id, table.showing(showing), binds))


def held_by(way: Way) -> ColumnElement[bool]:
    """Records that a way holds, if they are live and of its table: which is not asked here."""
    return as_condition(lambda binds: any_row_set_sql((way.rows,), binds))


def way_rows(table: VisibleTable, way: Way) -> ColumnElement[bool]:
    """The live records of `table` that one of its ways holds."""
    return as_condition(lambda binds: live_rows(table.id, (way.rows,), binds))


def live_rows(table_id: str, sets: Sequence[RowSet], binds: Binds) -> str:
    """The live records of a table that are in any of `sets`, as SQL."""
    return (
        f"records.table_id = {binds.text(table_id)} AND records.deleted_at IS NULL"
        f" AND {any_row_set_sql(sets, binds)}"
    )
