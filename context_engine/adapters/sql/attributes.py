"""`user.attr`: what rows that name the user say of them. One statement, however many lookups."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation

from pydantic import JsonValue
from pydantic_core import from_json

from context_engine import emails
from context_engine.adapters.sql.cells import address_of
from context_engine.adapters.sql.driver import Reader
from context_engine.facts import UserFacts
from context_engine.policy import AttrLookup

MOST = 10_000
"""Most values of one lookup. With more it is left out, and what asks for it denies."""
DIGITS = 1_000
"""Longest whole number, in digits."""
LONGEST = 2_000
"""Longest value as JSON, in characters. Ids and choices are far less; all values of a lookup are
held in memory, in every decision that asks for it."""


async def attributes(
    reader: Reader, workspace_id: str, user: UserFacts, lookups: Iterable[AttrLookup]
) -> Mapping[AttrLookup, tuple[JsonValue, ...]]:
    """The distinct values of each lookup's `value_field`, in the live rows whose `key_field` is,
    or as a list contains, the id of `user` or an address that is the user's own.

    No policy of those tables is asked. A lookup is left out where its table or a field is not in
    the workspace, and where it has too many values, or one that is too long or that JSON here
    cannot hold exactly.
    """
    wanted = list(dict.fromkeys(lookups))
    named: list[JsonValue] = [
        [n, lookup.table, lookup.key_field, lookup.value_field] for n, lookup in enumerate(wanted)
    ]
    # Nobody is told apart by an address of no characters.
    email = emails.normal(user.email_norm or "") or None
    written = json.dumps(email or "", ensure_ascii=False)[1:-1]
    values = (json.dumps(named), workspace_id, user.id, email, written)
    row = await reader.fetchrow(STATEMENT, *values)
    found = {wanted[n]: _values(texts) for n, texts in json.loads(row[0])}
    return {lookup: values for lookup, values in found.items() if values is not None}


def _values(texts: list[str]) -> tuple[JsonValue, ...] | None:
    """The values that `texts` spell as JSON, in one order whatever the server's plan: who sees
    what is told apart by them. None where they are too many, too long or not exact."""
    if len(texts) > MOST or any(len(text) > LONGEST for text in texts):
        return None
    try:
        return tuple(map(_value, sorted(texts)))
    except ValueError:
        return None


def _value(text: str) -> JsonValue:
    """Raises `ValueError` for what is not exact here, or nested deeper than is handed on."""
    if text.startswith(("[", "{")):
        from_json(text)  # takes some 200 levels, where `json` takes the whole stack
    value: JsonValue = _DECODER.decode(text)
    return value


def _exact(text: str) -> float:
    """The number, where a float holds it exactly as it is written."""
    number = float(text)
    try:
        if Decimal(str(number)) == Decimal(text):
            return number
    except InvalidOperation:
        pass
    raise ValueError(f"not exact as a float: {text[:40]}")


def _whole(text: str) -> int:
    if len(text) > DIGITS:
        raise ValueError(f"a number of {len(text)} digits")
    return int(text)


_DECODER = json.JSONDecoder(parse_float=_exact, parse_int=_whole)
"""Made once: `json.loads` makes one for each call that asks for other than its defaults."""


# -- the statement -----------------------------------------------------------------------------


def _items(cell: str) -> str:
    """The items of a list, or the one value, each as a row."""
    return (
        f"jsonb_array_elements(CASE jsonb_typeof({cell}) WHEN 'array' THEN {cell}"
        f" ELSE jsonb_build_array({cell}) END)"
    )


_ROWS = "records.table_id = l.table_id AND records.deleted_at IS NULL"
_VALUES = f"{_items('records.cells -> l.value_field')} AS value(v)"
_TEXT = f"left(value.v::text, {LONGEST + 1})"
"""One more than the longest: that tells."""
_FULL = "jsonb_typeof(value.v) <> 'null'"
_BY_ID = f"""
        SELECT {_TEXT} AS value FROM records, {_VALUES}
        WHERE {_ROWS} AND {_FULL} AND records.cells @> ANY(ARRAY[
            jsonb_build_object(l.key_field, CAST($3 AS text)),
            jsonb_build_object(l.key_field, jsonb_build_array(CAST($3 AS text)))])"""  # noqa: S608
_HOLDS = 'strpos(lower((records.cells -> l.key_field)::text COLLATE "C"), CAST($5 AS text)) > 0'
"""Cheap, and true of every cell that has the address: it is in the JSON as JSON writes it."""
_BY_ADDRESS = f"""
        SELECT {_TEXT}
        FROM records, {_items("records.cells -> l.key_field")} AS key(v), {_VALUES}
        WHERE CAST($4 AS text) IS NOT NULL AND {_ROWS} AND {_HOLDS} AND {_FULL}
            AND jsonb_typeof(key.v) = 'string'
            AND {address_of("key.v #>> '{}'")} = CAST($4 AS text)"""  # noqa: S608

_A_FIELD = "(SELECT true FROM fields WHERE id = l.{} AND table_id = l.table_id)"
"""A subquery of its own, as in `lookups`: there is no order for the planner to think about."""

STATEMENT = f"""
SELECT CAST(coalesce(json_agg(json_build_array(l.n, found.said)), '[]') AS text)
FROM (
    SELECT (e ->> 0)::int AS n, e ->> 1 AS table_id, e ->> 2 AS key_field, e ->> 3 AS value_field
    FROM jsonb_array_elements(CAST($1 AS jsonb)) AS e
) AS l
CROSS JOIN LATERAL (
    SELECT coalesce(json_agg(one.value), '[]') AS said
    FROM ({_BY_ID}
        UNION {_BY_ADDRESS}
        LIMIT {MOST + 1}
    ) AS one
) AS found
WHERE (SELECT true FROM tables
    WHERE id = l.table_id AND workspace_id = CAST($2 AS text) AND NOT trashed)
AND {_A_FIELD.format("key_field")} AND {_A_FIELD.format("value_field")}"""  # noqa: S608 - the parts are constants of this module
