"""The text that predicates compile to: what an index serves, what is bound, what is never NULL.

That it means what a plain interpreter says is tested on PostgreSQL (`properties/test_policies`);
here stands the form, each value in its place as `value::type`.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import column, select

from context_engine import policy
from context_engine.adapters.sql.binds import Binds, as_condition
from context_engine.adapters.sql.predicates import (
    answered,
    cheapest_first,
    compile_predicate,
    predicate_sql,
)
from context_engine.adapters.sql.view_filters import any_row_set_sql
from context_engine.view_filters import RowSet

CELL = "records.cells -> 'f'::text"
TEXT = f"CASE WHEN jsonb_typeof({CELL}) = 'string' THEN records.cells ->> 'f'::text END"
SPELLED = "(records.cells ->> 'f'::text)"
NUMBER = f"CASE WHEN jsonb_typeof({CELL}) = 'number' THEN ({CELL})::numeric END"
MADE = "to_char(records.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD')"
LONG = ["a"] * 64
"""The longest list that an index is asked for; how its texts are bound."""
ALONE, IN_CELL, IN_LIST = ['"a"'] * 64, ['{"f": "a"}'] * 64, ['{"f": ["a"]}'] * 64


def cmp(ref: str, op: str, operand: Any = None) -> policy.Pred:
    resolved = isinstance(operand, policy.OnDay | policy.Address)
    given = operand if resolved else policy.Literal_(literal=operand)
    return policy.Cmp(cmp=policy.Comparison(ref=ref, op=op, operand=given))


def written(pred: policy.Pred, *, by_row: bool = False) -> str:
    """The condition, with every value where it is bound; each is bound somewhere."""
    binds = Binds(by_row=by_row)
    text = predicate_sql(pred, binds)
    placed = {int(n) for n in re.findall(r"\$(\d+)", text)}
    assert placed == set(range(1, len(binds.values) + 1))

    def value(found: re.Match[str]) -> str:
        return f"{binds.values[int(found[1]) - 1]!r}::{found[2]}"

    return re.sub(r"CAST\(\$(\d+) AS ([a-z\[\]]+)\)", value, text)


# -- cells -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "operand", "sql"),
    [
        ("eq", "a", """records.cells @> ANY(['{"f": "a"}']::jsonb[])"""),
        ("ne", 1.5, """(NOT records.cells @> ANY(['{"f": 1.5}']::jsonb[]))"""),
        ("eq", None, "false"),
        ("ne", None, "false"),
        (
            "in",
            ["a", None, 1, True],
            """records.cells @> ANY(['{"f": "a"}', '{"f": 1}', '{"f": true}']::jsonb[])""",
        ),
        ("in", "a", """records.cells @> ANY(['{"f": "a"}']::jsonb[])"""),
        ("in", [], "false"),
        ("not_in", [None], "(NOT false)"),
        ("in", [["a"]], f"""coalesce({CELL} = ANY(['["a"]']::jsonb[]), false)"""),
        (
            "not_in",
            [2, {"k": 1}, []],
            """(NOT (records.cells @> ANY(['{"f": 2}']::jsonb[])"""
            f""" OR coalesce({CELL} = ANY(['{{"k": 1}}', '[]']::jsonb[]), false)))""",
        ),
        ("in", LONG, f"records.cells @> ANY({IN_CELL}::jsonb[])"),
        ("in", [*LONG, 1], f"coalesce({CELL} = ANY({[*ALONE, '1']}::jsonb[]), false)"),
        (
            "has_any",
            ["a", ["x"], 1],
            """records.cells @> ANY(['{"f": ["a"]}', '{"f": [1]}']::jsonb[])""",
        ),
        ("has_any", [["x"]], "false"),
        ("has_none", [], "(NOT false)"),
        ("has_none", "a", """(NOT records.cells @> ANY(['{"f": ["a"]}']::jsonb[]))"""),
        ("has_any", LONG, f"records.cells @> ANY({IN_LIST}::jsonb[])"),
        (
            "has_any",
            [*LONG, 1, ["x"]],
            f"EXISTS (SELECT FROM jsonb_array_elements(CASE WHEN jsonb_typeof({CELL}) = 'array'"
            f" THEN {CELL} ELSE '[]' END) AS item(v)"
            f" WHERE item.v = ANY({[*ALONE, '1']}::jsonb[]))",
        ),
        ("has_all", ["a", None, 1], """records.cells @> '{"f": ["a", 1]}'::jsonb"""),
        ("has_all", [], "false"),
        ("has_all", ["a", ["x"]], "false"),
        ("empty", None, f"""coalesce({CELL} = ANY(['null', '""', '[]']::jsonb[]), true)"""),
        ("not_empty", 1, f"""(NOT coalesce({CELL} = ANY(['null', '""', '[]']::jsonb[]), true))"""),
        ("lt", "a", f"""coalesce(({TEXT}) COLLATE "C" < 'a'::text, false)"""),
        ("lte", "a", f"""coalesce(({TEXT}) COLLATE "C" <= 'a'::text, false)"""),
        ("gt", 2, f"coalesce({NUMBER} > Decimal('2')::numeric, false)"),
        ("gte", 0.1, f"coalesce({NUMBER} >= Decimal('0.1')::numeric, false)"),
        ("gt", True, "false"),
        ("gt", [1], "false"),
        ("text_contains", "x", f"""coalesce(strpos(({TEXT}) COLLATE "C", 'x'::text) > 0, false)"""),
        ("text_contains", 1, "false"),
    ],
    ids=str,
)  # fmt: skip
def test_a_cell_compares(op: str, operand: Any, sql: str) -> None:
    """Equality and membership by `@>`, the rest by guarded types, nothing by NULL."""
    assert written(cmp("field:f", op, operand)) == sql


# -- columns -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ref", "column"),
    [
        ("sys:created_by", "records.created_by"),
        ("sys:updated_by", "records.updated_by"),
        ("sys:created_at", MADE),
    ],
)
@pytest.mark.parametrize(
    ("op", "operand", "sql"),
    [
        ("eq", "a", "(C IS NOT NULL AND C = ANY(['a']::text[]))"),
        ("not_in", ["a", 1, "b"], "(NOT (C IS NOT NULL AND C = ANY(['a', 'b']::text[])))"),
        ("eq", 1, "false"),
        ("has_any", ["a"], "false"),
        ("has_none", ["a"], "(NOT false)"),
        ("has_all", ["a"], "false"),
        ("empty", None, "coalesce(C = '', true)"),
        ("gt", "a", """coalesce((C) COLLATE "C" > 'a'::text, false)"""),
        ("lt", 1, "coalesce(NULL::numeric < Decimal('1')::numeric, false)"),
        ("text_contains", "x", """coalesce(strpos((C) COLLATE "C", 'x'::text) > 0, false)"""),
    ],
    ids=str,
)
def test_a_column_compares(ref: str, column: str, op: str, operand: Any, sql: str) -> None:
    """As a text, or NULL; an index on it serves equality."""
    assert written(cmp(ref, op, operand)) == re.sub(r'(?<!")\bC\b', column, sql)


@pytest.mark.parametrize("ref", ["sys:deleted_at", "f", "sys:field:f"])
def test_what_is_no_reference_is_unresolvable(ref: str) -> None:
    """It is named; a predicate that was parsed holds none."""
    odd = policy.Comparison.model_construct(ref=ref, op="eq", operand=policy.Literal_(literal="a"))
    with pytest.raises(policy.Unresolvable, match=f"^{ref}$"):
        predicate_sql(policy.Cmp.model_construct(cmp=odd), Binds())


# -- days --------------------------------------------------------------------------------------

SPRING = policy.OnDay(day=date(2026, 3, 29), tz="Europe/Berlin")
"""A day of 23 hours."""
TWICE = policy.OnDay(day=date(2006, 10, 29), tz="America/St_Johns")
"""A day that began, went away for an hour, and came again."""


def at(*moment: int) -> str:
    return f"{datetime(*moment, tzinfo=UTC)!r}::timestamptz"  # type: ignore[arg-type,misc]


BEGAN, ENDED = at(2026, 3, 28, 23), at(2026, 3, 29, 22)


@pytest.mark.parametrize(
    ("op", "near", "sign", "sql"),
    [
        ("eq", "SINCE AND BEFORE", "=", "((T >= BEGAN) AND NOT (T >= ENDED))"),
        ("lt", "BEFORE", "<", "(NOT (T >= BEGAN))"),
        ("lte", "BEFORE", "<=", "(NOT (T >= ENDED))"),
        ("gt", "SINCE", ">", "(T >= ENDED)"),
        ("gte", "SINCE", ">=", "(T >= BEGAN)"),
    ],
)
def test_a_day_compares(op: str, near: str, sign: str, sql: str) -> None:
    """By the moments at which it begins and ends: of a column at once; of a cell whose text is
    near enough, and is a day, which compares as text, or a time."""
    moments = sql.replace("BEGAN", BEGAN).replace("ENDED", ENDED)
    column = moments.replace("T >=", "records.created_at >=")
    assert written(cmp("sys:created_at", op, SPRING)) == column
    cell = written(cmp("field:f", op, SPRING))
    close = near.replace("SINCE", f"""{SPELLED} COLLATE "C" >= '2026-03-27'::text""")
    close = close.replace("BEFORE", f"""{SPELLED} COLLATE "C" < '2026-04-01'::text""")
    assert cell.startswith(f"coalesce(CASE WHEN NOT ({close}) THEN false WHEN {SPELLED} ~ ")
    valid = f"AND pg_input_is_valid({SPELLED}, "
    assert f"{valid}'date') THEN {SPELLED} COLLATE \"C\" {sign} '2026-03-29'::text WHEN" in cell
    timed = moments.replace("T >=", f"{SPELLED}::timestamptz >=")
    assert cell.endswith(f"{valid}'timestamptz') THEN {timed} END, false)")


def test_another_day_is_the_complement_of_the_day() -> None:
    """`ne` holds for what is no day at all."""
    for ref in ("sys:created_at", "field:f"):
        same, other = (written(cmp(ref, op, SPRING)) for op in ("eq", "ne"))
        assert other == f"(NOT {same})"


def test_a_day_that_begins_twice_compares() -> None:
    """Reached at the first moment, undone at the second, reached again at the third."""
    made = "records.created_at"
    first, undone, again = at(2006, 10, 29, 2, 30), at(2006, 10, 29, 2, 31), at(2006, 10, 29, 3, 30)
    assert written(cmp("sys:created_at", "gte", TWICE)) == (
        f"({made} >= {first} AND NOT ({made} >= {undone} AND {made} < {again}))"
    )


def test_who_made_a_row_is_on_no_day() -> None:
    """Only the column of a time has days."""
    assert written(cmp("sys:created_by", "eq", SPRING)) == "false"
    assert written(cmp("sys:updated_by", "ne", SPRING)) == "(NOT false)"


@pytest.mark.parametrize(
    ("op", "day", "says"),
    [
        ("in", SPRING, "in with a day"),
        ("text_contains", SPRING, "text_contains with a day"),
    ],
)
def test_days_that_cannot_be_compared_are_unresolvable(
    op: str, day: policy.OnDay, says: str
) -> None:
    """Some operators have no day."""
    for ref in ("field:f", "sys:created_at"):
        with pytest.raises(policy.Unresolvable, match=f"^{says}$"):
            predicate_sql(cmp(ref, op, day), Binds())


@pytest.mark.parametrize(
    ("day", "op", "near", "sql"),
    [
        (date.max, "eq", "since 9999-12-29", "(T >= BEGAN AND NOT false)"),
        (date.max, "gt", "since 9999-12-29", "false"),
        (date.max, "lte", "", "(NOT false)"),
        (date.max, "lt", "", "(NOT (T >= BEGAN))"),
        (date(9999, 12, 30), "gt", "since 9999-12-28", "(T >= ENDED)"),
        (date.min, "eq", "before 0001-01-04", "(true AND NOT (T >= ENDED))"),
        (date.min, "lt", "before 0001-01-04", "(NOT true)"),
        (date.min, "gte", "", "true"),
        (date(1, 1, 2), "gt", "", "(T >= ENDED)"),
    ],
    ids=str,
)
def test_days_compare_to_both_ends_of_time(day: date, op: str, near: str, sql: str) -> None:
    """No day is later than the last, and every time is on the first or later."""
    sql = sql.replace("(T >= BEGAN AND", "((T >= BEGAN) AND")
    began = datetime.combine(day, time(), UTC)
    sql = sql.replace("BEGAN", f"{began!r}::timestamptz")
    if "ENDED" in sql:
        sql = sql.replace("ENDED", f"{began + timedelta(days=1)!r}::timestamptz")
    on = policy.OnDay(day=day, tz="UTC")
    assert written(cmp("sys:created_at", op, on)) == sql.replace("T >=", "records.created_at >=")
    near = near.replace("since ", f"""{SPELLED} COLLATE "C" >= '""")
    near = near.replace("before ", f"""{SPELLED} COLLATE "C" < '""")
    close = f"NOT ({near}'::text)" if near else "NOT (true)"
    assert f"CASE WHEN {close} THEN false" in written(cmp("field:f", op, on))


# -- addresses ---------------------------------------------------------------------------------

BLANK = r"E'\x20\x09\x0a\x0b\x0c\x0d'"


@pytest.mark.parametrize(
    ("op", "sql"),
    [
        ("eq", "coalesce(A = ANY(['a@x']::text[]), false)"),
        ("ne", "(NOT coalesce(A = ANY(['a@x']::text[]), false))"),
        ("in", "coalesce(A = ANY(['a@x']::text[]), false)"),
        ("not_in", "(NOT coalesce(A = ANY(['a@x']::text[]), false))"),
        ("gt", """coalesce((A) COLLATE "C" > 'a@x'::text, false)"""),
        ("text_contains", """coalesce(strpos((A) COLLATE "C", 'a@x'::text) > 0, false)"""),
        ("has_any", "HAS"),
        ("has_all", "HAS"),
        ("has_none", "(NOT HAS)"),
        ("empty", "EMPTY"),
    ],
)
def test_beside_an_address_texts_are_addresses(op: str, sql: str) -> None:
    """Trimmed and lowered as ASCII has it, in a list each of its own; a column is no list."""
    mail = policy.Address(address="a@x")
    has = (
        f"EXISTS (SELECT FROM jsonb_array_elements(CASE WHEN jsonb_typeof({CELL}) = 'array'"
        f" THEN {CELL} ELSE '[]' END) AS item(v) WHERE jsonb_typeof(item.v) = 'string' AND"
        f""" lower(btrim(item.v #>> '{{}}', {BLANK}) COLLATE "C") = ANY(['a@x']::text[]))"""
    )
    author = "records.created_by"
    for ref, text, listed in (("field:f", TEXT, has), ("sys:created_by", author, "false")):
        parts = {
            "A": f'lower(btrim({text}, {BLANK}) COLLATE "C")',
            "HAS": listed,
            "EMPTY": written(cmp(ref, "empty")),
        }
        wanted = re.sub(r"\b(A|HAS|EMPTY)\b", lambda found: parts[found[0]], sql)  # noqa: B023
        assert written(cmp(ref, op, mail)) == wanted


# -- groups, links -----------------------------------------------------------------------------

A, B = cmp("sys:created_by", "empty"), cmp("sys:updated_by", "empty")
MINE, THEIRS = "coalesce(records.created_by = '', true)", "coalesce(records.updated_by = '', true)"

BOUND, ONE = cmp("field:f", "has_all", "a"), """records.cells @> '{"f": ["a"]}'::jsonb"""
ASKED = f"""coalesce({CELL} @> '["a"]'::jsonb, false)"""
"""The same where no index answers."""


@pytest.mark.parametrize(
    ("pred", "sql"),
    [
        (True, "true"),
        (False, "false"),
        (policy.All(all=()), "true"),
        (policy.Any_(any=()), "false"),
        (policy.All(all=(A,)), MINE),
        (policy.All(all=(A, B)), f"({MINE} AND {THEIRS})"),
        (policy.Any_(any=(A, B, False)), f"(false OR {MINE} OR {THEIRS})"),
        (policy.Not(not_=A), f"(NOT {MINE})"),
        (
            policy.All(all=(BOUND, policy.Any_(any=(BOUND, policy.Not(not_=BOUND))))),
            f"({ONE} AND ({ASKED} OR (NOT {ASKED})))",
        ),
    ],
    ids=str,
)
def test_groups(pred: policy.Pred, sql: str) -> None:
    """`all` of nothing holds, `any` of nothing does not."""
    assert written(pred) == sql


def test_a_link_is_followed_to_live_rows_of_its_table() -> None:
    """One hop: inside, the condition is on the linked row."""
    pred = policy.LinkedAny(linked_any=policy.Linked(field="l", pred=A))
    assert written(pred) == (
        "(records.id IN (SELECT links.from_record_id FROM links"
        " JOIN records ON records.id = links.to_record_id AND records.table_id ="
        " (SELECT tables.id FROM fields JOIN tables ON tables.id = fields.linked_table_id"
        " AND NOT tables.trashed WHERE fields.id = 'l'::text)"
        f" AND records.deleted_at IS NULL AND {MINE}"
        " WHERE links.field_id = 'l'::text))"
    )


def test_a_link_in_a_link_is_followed_from_the_linked_row() -> None:
    """Policies follow one; a view's count asks for the sight of what it leads to."""
    inner = policy.LinkedAny(linked_any=policy.Linked(field="m", pred=A))
    text = written(policy.LinkedAny(linked_any=policy.Linked(field="l", pred=inner)))
    assert (
        f" AND records.deleted_at IS NULL AND {written(inner)} WHERE links.field_id = 'l'" in text
    )


@pytest.mark.parametrize("under", ["not", "any", "any within all", "link"])
def test_a_link_is_asked_of_each_row_where_that_is_wanted(under: str) -> None:
    """By keys alone, and so is what the condition asks of the linked row; where an index may find
    the rows, it is not."""
    inner = policy.All(all=(BOUND, A))
    link = policy.LinkedAny(linked_any=policy.LinkedIn(field="l", table="x", pred=inner))
    asked = (
        "EXISTS (SELECT FROM links WHERE links.field_id = 'l'::text"
        " AND links.from_record_id = records.id AND (SELECT records.table_id = 'x'::text"
        f" AND records.deleted_at IS NULL AND ({MINE} AND {ASKED})"
        " FROM records WHERE records.id = links.to_record_id) OFFSET 0)"
    )
    pred, sql = {
        "not": (policy.Not(not_=link), f"(NOT {asked})"),
        "any": (policy.Any_(any=(A, link)), f"({MINE} OR {asked})"),
        "any within all": (
            policy.All(all=(B, policy.Any_(any=(link, A)))),
            f"({THEIRS} AND ({MINE} OR {asked}))",
        ),
        "link": (
            policy.Not(not_=policy.LinkedAny(linked_any=policy.LinkedIn(
                field="m", table="t", pred=link))),
            "(NOT EXISTS (SELECT FROM links WHERE links.field_id = 'm'::text"
            " AND links.from_record_id = records.id AND (SELECT records.table_id = 't'::text"
            f" AND records.deleted_at IS NULL AND {asked}"
            " FROM records WHERE records.id = links.to_record_id) OFFSET 0))",
        ),
    }[under]  # fmt: skip
    assert written(pred, by_row=True) == sql
    assert "EXISTS" not in written(pred)
    assert written(link, by_row=True) == written(link)


def test_an_operand_that_is_not_resolved_is_refused() -> None:
    """Access has resolved them all before."""
    mine = policy.parse({"cmp": {"ref": "field:f", "op": "eq", "operand": {"user": "id"}}})
    with pytest.raises(policy.Unresolvable, match=r"^operand$"):
        predicate_sql(mine, Binds())


# -- bind parameters ---------------------------------------------------------------------------


def test_binds_are_numbered_and_texts_come_once() -> None:
    """A text again is the same parameter; other values, and lists, are new ones."""
    binds = Binds()
    assert binds.text("a") == "CAST($1 AS text)"
    assert binds.number(1) == "CAST($2 AS numeric)"
    assert binds.text("a") == "CAST($1 AS text)"
    assert binds.text("b") == "CAST($3 AS text)"
    assert binds.texts(["a"]) == "CAST($4 AS text[])"
    assert binds.time(datetime(2026, 1, 1, tzinfo=UTC)) == "CAST($5 AS timestamptz)"
    assert binds.json({"a": "é"}) == "CAST($6 AS jsonb)"
    assert binds.jsons([1, "x"]) == "CAST($7 AS jsonb[])"
    assert binds.values == [
        "a", Decimal(1), "b", ["a"], datetime(2026, 1, 1, tzinfo=UTC), '{"a": "\\u00e9"}',
        ["1", '"x"'],
    ]  # fmt: skip


def test_numbers_are_bound_as_they_are_written() -> None:
    """Neither a float's nearest binary number nor a long integer's nearest float."""
    binds = Binds()
    binds.number(0.1)
    binds.number(2**70)
    assert [str(one) for one in binds.values] == ["0.1", str(2**70)]


def test_conditions_of_one_statement_keep_their_parameters_apart() -> None:
    """Each brings its own, however alike they are named."""
    one, other = compile_predicate(cmp("field:f", "eq", "a")), as_condition(lambda b: b.text("b"))
    made = select(column("id")).where(one, other).compile()
    values = list(made.params.values())
    assert values == [['{"f": "a"}'], "b"]
    assert str(one.compile()) == "(records.cells @> ANY(CAST(:b1_1 AS jsonb[])))"


def test_a_resolved_link_is_followed_into_its_table() -> None:
    """Which was there, and live, when it was resolved."""
    linked = policy.LinkedIn(field="l", table="x", pred=cmp("field:f", "eq", "a"))
    assert written(policy.LinkedAny(linked_any=linked)) == (
        "(records.id IN (SELECT links.from_record_id FROM links"
        " JOIN records ON records.id = links.to_record_id AND records.table_id = 'x'::text"
        """ AND records.deleted_at IS NULL AND records.cells @> ANY(['{"f": "a"}']::jsonb[])"""
        " WHERE links.field_id = 'l'::text))"
    )


# -- what an index answers ---------------------------------------------------------------------

EQ, IN, HAS, ALL_OF = (
    cmp("field:f", op, "a") for op in ("eq", "in", "has_any", "has_all")
)  # fmt: skip
BY_INDEX = """records.cells @> ANY(['{"f": "a"}']::jsonb[])"""
BY_HASH = f"""coalesce({CELL} = ANY(['"a"']::jsonb[]), false)"""
LATE = cmp("field:f", "eq", policy.OnDay(day=date(2026, 3, 29), tz="UTC"))
LINKED = policy.LinkedAny(linked_any=policy.LinkedIn(field="l", table="x", pred=True))


@pytest.mark.parametrize(
    "pred",
    [
        EQ,
        IN,
        HAS,
        ALL_OF,
        policy.All(all=(True, EQ)),
        policy.Any_(any=(EQ, policy.All(all=(LATE, IN)))),
    ],
)
def test_an_index_answers(pred: policy.Pred) -> None:
    """Equality, membership and containment; an AND by one part, an OR by all."""
    assert answered(pred)


@pytest.mark.parametrize(
    "pred",
    [True, False, LATE, LINKED, policy.Not(not_=EQ), policy.All(all=()), policy.All(all=(LATE,)),
     policy.Any_(any=(EQ, LATE)), cmp("field:f", "ne", "a"), cmp("field:f", "empty"),
     cmp("field:f", "eq", policy.Address(address="a@x"))],
)  # fmt: skip
def test_no_index_answers(pred: policy.Pred) -> None:
    """An OR of which one part has to be asked row by row needs every row."""
    assert not answered(pred)


def test_an_index_is_asked_only_where_it_answers() -> None:
    """Elsewhere the server would look through its statistics for nothing."""
    assert written(policy.All(all=(EQ, LATE))).startswith(f"({BY_INDEX} AND ")
    assert written(policy.Any_(any=(EQ, policy.All(all=(IN,))))) == f"({BY_INDEX} OR {BY_INDEX})"
    assert written(policy.Any_(any=(EQ, LATE))).startswith(f"({BY_HASH} OR ")
    assert written(policy.Not(not_=EQ)) == f"(NOT {BY_HASH})"
    within = policy.Any_(any=(LATE, policy.All(all=(EQ, policy.Any_(any=(IN,))))))
    assert written(within).count(BY_HASH) == 2
    listed = f"""coalesce({CELL} @> ANY(['["a"]']::jsonb[]), false)"""
    assert written(policy.Not(not_=HAS)) == f"(NOT {listed})"
    assert written(policy.Not(not_=cmp("field:f", "in", []))) == "(NOT false)"
    mixed = cmp("field:f", "in", ["a", ["b"]])
    assert written(policy.Not(not_=mixed)) == (
        f"""(NOT coalesce({CELL} = ANY(['"a"', '["b"]']::jsonb[]), false))"""
    )


def test_of_several_ways_all_must_be_answered() -> None:
    """Ways are joined by OR."""
    binds = Binds()
    both = any_row_set_sql((RowSet(EQ), RowSet(IN)), binds)
    assert both.count("records.cells @> ANY") == 2
    assert "@>" not in any_row_set_sql((RowSet(EQ), RowSet(LATE)), binds)
    assert "@>" in any_row_set_sql((RowSet(EQ),), binds)


def test_what_is_cheap_is_asked_first() -> None:
    """A constant, a column, a cell, a day, a link; groups by all that is in them."""
    made = cmp("sys:created_by", "eq", "a")
    order = [True, made, EQ, LATE, policy.Not(not_=LATE), policy.All(all=(EQ, LATE)), LINKED]
    assert cheapest_first(order[::-1]) == [
        True, made, EQ, policy.Not(not_=LATE), LATE, policy.All(all=(EQ, LATE)), LINKED,
    ]  # fmt: skip
    assert cheapest_first([policy.Any_(any=(EQ, EQ)), LATE])[0] == LATE
    assert written(policy.Any_(any=(LATE, EQ))).startswith(f"({BY_HASH} OR ")
    assert written(policy.All(all=(EQ, made))).endswith(f" AND {BY_INDEX})")


# -- binds -------------------------------------------------------------------------------------


def test_a_value_is_bound_once() -> None:
    """As the type that it is asked for: 1 as a number is not 1 as JSON, and true is neither."""
    binds = Binds()
    noon = datetime(2026, 3, 29, 12, tzinfo=UTC)
    for _ in range(2):
        places = [
            binds.text("1"), binds.texts(["1"]), binds.number(1), binds.time(noon), binds.json(1),
            binds.json("1"), binds.jsons([1]), binds.jsons([True]), binds.jsons([1.0]),
            binds.jsons(["ü\n"]),
        ]  # fmt: skip
    assert places == [
        f"CAST(${n} AS {type})"
        for n, type in enumerate(
            ("text", "text[]", "numeric", "timestamptz", "jsonb", "jsonb", *["jsonb[]"] * 4), 1
        )
    ]
    assert binds.values == [
        "1", ["1"], Decimal(1), noon, "1", '"1"', ["1"], ["true"], ["1.0"], [r'"\u00fc\n"'],
    ]  # fmt: skip
