"""Values, predicates and filters as they may be stored: well made, badly fitting, and garbage."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from itertools import count
from typing import Any

from hypothesis import strategies as st

from context_engine import policy
from tests.support.oracle.model import Field

NOW = datetime(2024, 3, 10, 4, 30, tzinfo=UTC)
"""Before midnight in New York and in the night its clocks change; noon in Kiritimati's 10th."""

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Pacific/Kiritimati")
OPS = policy.Op.__args__  # type: ignore[attr-defined]
STORED = (
    "text", "long_text", "email", "number", "rating", "boolean", "date", "datetime", "select",
    "multi_select", "user",
)  # fmt: skip
COMPUTED = ("formula", "lookup", "count")

DAYS = [(NOW + timedelta(days=n)).date().isoformat() for n in (-8, -2, -1, 0, 1, 7)]
TIMES = [
    (NOW + timedelta(minutes=m)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    for m in (-1500, -271, -270, -1, 0, 1, 1170)
]
NUMBERS: list[Any] = [0, 1, -2, 1.5, 0.1, 2**53 + 1, 1e21]
ODD: list[Any] = [None, "", [], {}, "1", 1, True, [None], ["1", 1], {"a": 1}, "Z", "2024-02-30"]
"""What may stand anywhere, whatever the field's type says."""

GARBAGE: list[Any] = [
    None, 1, "true", [], {}, {"all": True}, {"cmp": {"ref": "field:f", "op": "like"}},
    {"cmp": {"ref": "sys:id", "op": "eq"}}, {"any": [{"not": {}}]}, {"where": {"every": 1}},
    {"cmp": {"ref": "sys:created_at", "op": "eq", "operand": {"now": {"unit": "today",
     "tz": "Mars/Base"}}}},
]  # fmt: skip
"""Stored predicates that cannot be read, or not be resolved."""


class Canaries:
    """Names, each with a canary of its own; the same names for the same draws."""

    def __init__(self, seed: int) -> None:
        self._seed, self._numbers = seed, count()

    def named(self, name: str) -> str:
        """`name`, and a canary after it."""
        key = f"{self._seed}:{next(self._numbers)}".encode()
        return f"{name} cny{blake2b(key, digest_size=6).hexdigest()}"


def some(draw: st.DrawFn, items: Any, most: int = 2) -> list[Any]:
    """A few distinct items, in their own order."""
    items = list(items)
    if not items:
        return []
    chosen = draw(st.sets(st.integers(0, len(items) - 1), max_size=most))
    return [items[place] for place in sorted(chosen)]


def pool(field: Field, users: list[str], emails: list[str], texts: list[str]) -> list[Any]:
    """Values that fit a field's type."""
    kinds: dict[str, list[Any]] = {
        "number": NUMBERS,
        "rating": [0, 1, 3, 5],
        "boolean": [True, False],
        "date": DAYS,
        "datetime": TIMES,
        "email": [*emails, *(f" {one.upper()}\t" for one in emails), *texts],
        "multi_select": [[], texts[:1], texts[:2], texts],
    }
    if field.type == "user":
        return [users[:1], users[:2], [], users] if (field.options or {}).get("multiple") else users
    return kinds.get(field.type, texts)


@st.composite
def operands(draw: st.DrawFn, values: list[Any], tables: list[Any], at: bool = False) -> Any:
    """A literal as often as all others together; `at`: for a time that the product keeps."""
    shapes = ["literal"] * 4 + ["list", "user", "now", "now", "attr"]
    shape = draw(st.sampled_from(["literal", "list", "now", "now"] if at else shapes))
    if shape == "literal":
        return {"literal": draw(st.sampled_from([*values, *ODD]))}
    if shape == "list":
        return {"literal": draw(st.lists(st.sampled_from([*values, *ODD[:6]]), max_size=3))}
    if shape == "user":
        return {"user": draw(st.sampled_from(["id", "email_norm", "team_ids"]))}
    if shape == "now":
        unit = draw(st.sampled_from(["today", "week"]))
        zone = draw(st.sampled_from([None, *ZONES]))
        return {"now": {"unit": unit, "tz": zone} if zone else {"unit": unit}}
    table = draw(st.sampled_from(tables))
    ids = [field.id for field in table.fields] or ["nowhere"]
    key, value = draw(st.sampled_from(ids)), draw(st.sampled_from(ids))
    return {"attr": {"table": table.id, "keyField": key, "valueField": value}}


@st.composite
def predicates(
    draw: st.DrawFn, table: Any, tables: list[Any], values: dict[str, list[Any]], depth: int = 0
) -> Any:
    """A predicate over the rows of `table`, in stored form; now and then garbage."""
    shapes = ["cmp"] * 5 + ["constant", "garbage"]
    if depth < 3:
        shapes += ["all", "any", "not", "linked"]
    match draw(st.sampled_from(shapes)):
        case "constant":
            return draw(st.booleans())
        case "garbage":
            return draw(st.sampled_from(GARBAGE))
        case "not":
            return {"not": draw(predicates(table, tables, values, depth + 1))}
        case "all" | "any" as group:
            inner = predicates(table, tables, values, depth + 1)
            return {group: draw(st.lists(inner, max_size=3))}
        case "linked":
            links = [field for field in table.fields if field.type == "link"]
            if links:
                link = draw(st.sampled_from(links))
                there = next((t for t in tables if t.id == link.linked_table_id), table)
                inner = draw(predicates(there, tables, values, depth + 1))
                return {"linkedAny": {"field": link.id, "pred": inner}}
    refs = [f"field:{field.id}" for field in table.fields]
    system = ["sys:created_by", "sys:updated_by", "sys:created_at", "field:nowhere"]
    ref = draw(st.sampled_from([*refs, *system]))
    fitting = values.get(ref.partition(":")[2], [])
    timed = [f"field:{one.id}" for one in table.fields if one.type == "datetime"]
    fitting = [*fitting, *DAYS] if ref in ("sys:created_at", *timed) else fitting
    op = draw(st.sampled_from(OPS))
    operand = draw(operands(fitting, tables, ref == "sys:created_at"))
    if "now" in operand:
        op = draw(st.sampled_from(["eq", "ne", "lt", "lte", "gt", "gte", op]))
    if op in ("empty", "not_empty"):
        return {"cmp": {"ref": ref, "op": op}}
    return {
        "cmp": {
            "ref": ref,
            "op": op,
            "operand": draw(operands(fitting, tables, ref == "sys:created_at")),
        }
    }


KINDS = {
    "number": "number", "rating": "number", "boolean": "boolean", "date": "date",
    "datetime": "time",
}  # fmt: skip


@st.composite
def view_filters(
    draw: st.DrawFn, table: Any, tables: list[Any], values: dict[str, list[Any]]
) -> Any:
    """A filter in the language of views, over cells and over links; or one not computed."""
    if draw(st.integers(0, 9)) == 0:
        return {"where": {"unavailable": "the filter needs a formula"}}
    parts = st.lists(_conditions(table, tables, values), max_size=2)
    return {"where": {draw(st.sampled_from(["every", "some"])): draw(parts)}}


@st.composite
def _conditions(
    draw: st.DrawFn, table: Any, tables: list[Any], values: dict[str, list[Any]]
) -> Any:
    stored = [f for f in table.fields if f.type in STORED and f.type != "user"]
    links = [f for f in table.fields if f.type == "link"]
    if not stored and not links:
        return {"field": "any", "value": {"cell": "nowhere", "kind": "text"},
                "test": {"op": "empty"}}  # fmt: skip
    if links and (not stored or draw(st.booleans())):
        return draw(_over_link(draw(st.sampled_from(links)), tables))
    field = draw(st.sampled_from(stored))
    kind = KINDS.get(field.type, "text")
    test: dict[str, Any] = {"op": draw(st.sampled_from(["empty", "not_empty"]))}
    fitting = [one for one in values[field.id] if not isinstance(one, list)]
    if fitting and draw(st.booleans()):
        if kind == "boolean":
            test = {"op": "is", "to": draw(st.booleans())}
        elif kind in ("date", "time"):
            days = {"tz": draw(st.sampled_from(ZONES)), "shift": draw(st.integers(-2, 2))}
            test = {"op": draw(st.sampled_from(["date_is", "date_is_before"])), "days": days}
        else:
            op = draw(st.sampled_from(["equal", "not_equal"]))
            test = {"op": op, "to": draw(st.sampled_from(fitting))}
    return {"field": field.id, "value": {"cell": field.id, "kind": kind}, "test": test}


@st.composite
def _over_link(draw: st.DrawFn, link: Field, tables: list[Any]) -> Any:
    """How many records a link leads to, or what of them is empty."""
    step = {"field": link.id, "table": link.linked_table_id}
    there = next(one for one in tables if one.id == link.linked_table_id)
    numbers = [f for f in there.fields if f.type in ("number", "rating")]
    if numbers and draw(st.booleans()):
        inner = {"cell": draw(st.sampled_from(numbers)).id, "kind": "number"}
        rolled = {"step": step, "value": inner, "function": draw(st.sampled_from(["sum", "max"]))}
        value: Any = {"rollup": rolled}
    else:
        value = {"count": step}
    op = draw(st.sampled_from(["higher_than", "lower_than", "equal"]))
    return {"field": link.id, "value": value, "test": {"op": op, "to": draw(st.integers(0, 2))}}
