"""The one compiler of view filters, and of the values they test, to SQL over `records`.

Beside `predicates`, and apart from it: policies are never compiled here. What a filter means, so
that SQL and a plain interpreter agree:

- Text compares by code point, numbers as numeric, days and times by the local date in the filter's
  own zone; a text that spells neither has none.
- A value of another type, and a missing one, is null: it passes `empty`, `not_equal` and nothing
  else. `is` takes a missing boolean for false. `empty` is null, "", false, or a list of nothing.
- A count, lookup or rollup is made of live linked records in the user's sight. A sum of nothing
  is 0, any of nothing false, every of nothing true, any other rollup of nothing null.

Links are followed by the record at hand: inside each subquery `records` is the linked one, so
that the rows in sight of its table are told by the same predicate as everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import assert_never

from context_engine import policy
from context_engine import view_filters as f
from context_engine import view_values as v
from context_engine.adapters.sql import days
from context_engine.adapters.sql.predicates import Binds, answered, predicate_sql


def view_filter_sql(prepared: f.Prepared, binds: Binds) -> str:
    """`prepared` as a condition on `records` that is never NULL."""
    match prepared.filter:
        case f.Every() | f.Some() | f.Condition() | f.Uncomputed() as filter:
            return _Compiler(prepared, binds).condition(filter)
        case pred:

            def seen(table_id: str, *, indexed: bool) -> str:
                sets = prepared.sights.get(table_id, ())
                return any_row_set_sql(sets, binds, indexed=indexed)

            return predicate_sql(pred, binds, seen=seen)


def row_set_sql(rows: f.RowSet, binds: Binds) -> str:
    """`rows` as a condition on `records` that is never NULL."""
    return _row_set(rows, binds, indexed=True)


def _row_set(rows: f.RowSet, binds: Binds, *, indexed: bool) -> str:
    pred = predicate_sql(rows.pred, binds, indexed=indexed)
    return pred if rows.where is None else f"({pred} AND {view_filter_sql(rows.where, binds)})"


def any_row_set_sql(sets: Sequence[f.RowSet], binds: Binds, *, indexed: bool = True) -> str:
    """Whether a row of `records` is in any of `sets`; none of none."""
    indexed = indexed and all(answered(one.pred) for one in sets)
    return _joined(" OR ", "false", [_row_set(one, binds, indexed=indexed) for one in sets])


def value_sql(value: v.Value, sights: Mapping[str, Sequence[f.RowSet]], binds: Binds) -> str:
    """A value of `records` as JSON: a text, number or boolean, a list for a lookup, or null.

    `sights`: the rows in sight of each table that its links lead to. Raises `policy.Unresolvable`
    for what needs a formula.
    """
    compiler = _Values(sights, binds)
    if v.is_list(value):
        return f"(SELECT coalesce(jsonb_agg(e.v), '[]') FROM ({compiler.items(value)}) AS e)"
    return f"to_jsonb({compiler.scalar(value)})"


class _Values:
    """Values as SQL, each made of parts that add their own bind parameters."""

    def __init__(self, sights: Mapping[str, Sequence[f.RowSet]], binds: Binds) -> None:
        self._sights, self._binds = sights, binds

    def scalar(self, value: v.Value) -> str:
        match value:
            case v.Stored(cell=field, kind=kind):
                return self._cell(field, kind)
            case v.System(system=column):
                return (
                    f"to_char(records.{column} AT TIME ZONE 'UTC',"
                    """ 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')"""
                )
            case v.RowId():
                return "records.id"
            case v.Count(count=step):
                return f"(SELECT count(*)::numeric FROM {self._linked(step)})"
            case v.Rollup(rollup=rolled):
                items = self._each(rolled.step, rolled.value)
                return f"(SELECT {_rolled(rolled)} FROM ({items}) AS e)"
            case v.Lookup() | v.Needs():
                raise policy.Unresolvable(type(value).__name__)
            case _:
                assert_never(value)

    def items(self, value: v.Value) -> str:
        """A query of the value's items, in one column `v`: one row for what is no list."""
        match value:
            case v.Lookup(lookup=each):
                return self._each(each.step, each.value)
            case _:
                return f"SELECT {self.scalar(value)} AS v"

    def _each(self, step: v.Step, value: v.Value) -> str:
        if not v.is_list(value):
            return f"SELECT {self.scalar(value)} AS v FROM {self._linked(step)}"
        linked = self._linked(step)
        return f"SELECT n.v FROM {linked} CROSS JOIN LATERAL ({self.items(value)}) AS n"

    def _linked(self, step: v.Step) -> str:
        """The records that the one at hand links to. Its id is asked for where the name still
        means it: one level further in than the records that it leads to."""
        field, table = self._binds.text(step.field), self._binds.text(step.table)
        near = (
            "(SELECT links.to_record_id AS id FROM links"
            f" WHERE links.field_id = {field} AND links.from_record_id = records.id)"
        )
        seen = any_row_set_sql(self._sights.get(step.table, ()), self._binds)
        return (
            f"{near} AS near JOIN records ON records.id = near.id"
            f" AND records.table_id = {table} AND records.deleted_at IS NULL AND {seen}"
        )

    def _cell(self, field: str, kind: v.Kind) -> str:
        cell = f"records.cells -> {self._binds.text(field)}"
        match kind:
            case "number":
                return f"CASE WHEN jsonb_typeof({cell}) = 'number' THEN ({cell})::numeric END"
            case "boolean":
                return f"CASE WHEN jsonb_typeof({cell}) = 'boolean' THEN ({cell})::boolean END"
            case "text" | "date" | "time" | "id":
                text = f"({cell}) #>> '{{}}'"
                return f"""CASE WHEN jsonb_typeof({cell}) = 'string' THEN {text} END COLLATE "C\""""
            case _:
                assert_never(kind)


def _rolled(rolled: v.Rolled) -> str:
    match rolled.function:
        case "min" | "max" | "avg":
            return f"{rolled.function}(e.v)"
        case "sum":
            return "coalesce(sum(e.v), 0)"
        case "any":
            return "coalesce(bool_or(e.v), false)"
        case "every":
            return "coalesce(bool_and(e.v), true)"
        case _:
            assert_never(rolled.function)


_SIGNS: Mapping[f.NumberOp, str] = {
    "higher_than": ">",
    "higher_than_or_equal": ">=",
    "lower_than": "<",
    "lower_than_or_equal": "<=",
}


class _Compiler(_Values):
    """Conditions as SQL. Null is false everywhere: else NOT would drop rows without a value."""

    def __init__(self, prepared: f.Prepared, binds: Binds) -> None:
        super().__init__(prepared.sights, binds)
        self._now = prepared.now

    def condition(self, filter: f.Filter) -> str:
        match filter:
            case f.Every(every=parts):
                return _joined(" AND ", "true", [self.condition(part) for part in parts])
            case f.Some(some=parts):
                return _joined(" OR ", "false", [self.condition(part) for part in parts])
            case f.Condition(value=value, test=test):
                return self._test(value, test)
            case f.Uncomputed(unavailable=reason):
                raise policy.Unresolvable(reason)
            case _:
                assert_never(filter)

    def _test(self, value: v.Value, test: f.Test) -> str:
        match test:
            case f.Emptiness(op="empty"):
                return self._empty(value)
            case f.Emptiness():
                return f"(NOT {self._empty(value)})"
            case f.Is(to=wanted):
                found = f"coalesce({self.scalar(value)}, false)"
                return found if wanted else f"(NOT {found})"
            case f.Compare():
                return self._compared(value, test)
            case f.InDays():
                return self._in_days(value, test)
            case _:
                assert_never(test)

    def _empty(self, value: v.Value) -> str:
        if v.is_list(value):
            return f"(NOT EXISTS ({self.items(value)}))"
        found = self.scalar(value)
        match v.kind_of(value):
            case "text" | "date" | "time" | "id":
                return f"coalesce({found} = '', true)"
            case "boolean":
                return f"(NOT coalesce({found}, false))"
            case "number":
                return f"({found} IS NULL)"
            case kind:
                assert_never(kind)

    def _compared(self, value: v.Value, test: f.Compare) -> str:
        to = test.to
        wanted = self._binds.text(to) if isinstance(to, str) else self._binds.number(to)
        if test.op == "equal":
            return f"coalesce({self.scalar(value)} = {wanted}, false)"
        if test.op == "not_equal":
            return f"(NOT coalesce({self.scalar(value)} = {wanted}, false))"
        return f"coalesce({self.scalar(value)} {_SIGNS[test.op]} {wanted}, false)"

    def _in_days(self, value: v.Value, test: f.InDays) -> str:
        """By the days of policies: a text that spells neither a day nor a time is on none."""
        first, after = f.span(test.days, self._now)

        def on(op: days.DayOp, day: date) -> str:
            return days.spelled("d.v", op, policy.OnDay(day=day, tz=test.days.tz), self._binds)

        match test.op:
            case "date_is":
                holds = f"{on('gte', first)} AND {on('lt', after)}"
            case "date_is_before":
                holds = on("lt", first)
            case "date_is_on_or_before":
                holds = on("lt", after)
            case "date_is_after":
                holds = on("gte", after)
            case "date_is_on_or_after":
                holds = on("gte", first)
            case _:
                assert_never(test.op)
        return f"(SELECT {holds} FROM (SELECT {self.scalar(value)} AS v) AS d)"


def _joined(by: str, of_none: str, conditions: list[str]) -> str:
    return f"({by.join(conditions)})" if conditions else of_none
