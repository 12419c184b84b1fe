"""`user.attr`: what rows that name the user say of them. One statement, however many lookups."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation

from pydantic import JsonValue

from context_engine import emails
from context_engine.adapters.sql.driver import Reader
from context_engine.adapters.sql.faults import database_faults
from context_engine.facts import UserFacts
from context_engine.policy import AttrLookup

MOST = 10_000
"""Most values of one lookup. With more it is left out, and what asks for it denies."""
CANDIDATES = 2 * MOST
"""Most rows of one lookup that are fetched, with those whose address Python has to compare."""
DIGITS = 1_000
"""Longest whole number, in digits."""


async def attributes(
    reader: Reader, workspace_id: str, user: UserFacts, lookups: Iterable[AttrLookup]
) -> Mapping[AttrLookup, tuple[JsonValue, ...]]:
    """The distinct values of each lookup's `value_field`, in the live rows whose `key_field` is,
    or as a list contains, the id of `user` or an address that is the user's own.

    No policy of those tables is asked. A lookup is left out where its table or a field is not in
    the workspace, and where it has too many values or one that JSON here cannot hold exactly.
    """
    wanted = list(dict.fromkeys(lookups))
    if not wanted:
        return {}
    named: list[JsonValue] = [
        [n, lookup.table, lookup.key_field, lookup.value_field] for n, lookup in enumerate(wanted)
    ]
    email = user.email_norm or None  # nobody is told apart by an address of no characters
    async with database_faults():
        row = await reader.fetchrow(STATEMENT, json.dumps(named), workspace_id, user.id, email)
    found = {wanted[n]: _values(pairs, email) for n, pairs in json.loads(row[0])}
    return {lookup: values for lookup, values in found.items() if values is not None}


def _values(pairs: list[tuple[str | None, str]], email: str | None) -> tuple[JsonValue, ...] | None:
    """The values of rows that name the user; None where they are too many or not exact.

    Each of `pairs` is a value as JSON, and before it the address that it hangs on: None where that
    the row names the user is told already. Case folding is no matter of SQL.
    """
    own = [value for address, value in pairs if address is None or emails.normal(address) == email]
    if len(own) > MOST or len(pairs) > CANDIDATES:
        return None
    try:
        return tuple(
            json.loads(v, parse_float=_exact, parse_int=_whole) for v in dict.fromkeys(own)
        )
    except ValueError:
        return None


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


# -- the statement -----------------------------------------------------------------------------


def _items(cell: str) -> str:
    """The items of a list, or the one value, each as a row."""
    return (
        f"jsonb_array_elements(CASE jsonb_typeof({cell}) WHEN 'array' THEN {cell}"
        f" ELSE jsonb_build_array({cell}) END)"
    )


_BLANK = r"E' \t\n\x0b\x0c\r\x1c\x1d\x1e\x1f'"
"""ASCII that `str.strip` takes away."""
_ROWS = "records.table_id = l.table_id AND records.deleted_at IS NULL"
_VALUES = f"{_items('records.cells -> l.value_field')} AS value(v)"
_FULL = "jsonb_typeof(value.v) <> 'null'"
_BY_ID = f"""
        SELECT NULL AS address, value.v::text AS value FROM records, {_VALUES}
        WHERE {_ROWS} AND {_FULL} AND records.cells @> jsonb_build_object(l.key_field, """  # noqa: S608

# A text of ASCII alone is lowered as Python folds it. Of the others those are fetched that may be
# the address: with an @ where it has one.
_BY_ADDRESS = f"""
        SELECT CASE WHEN key.ascii THEN NULL ELSE key.address END, value.v::text
        FROM records, {_items("records.cells -> l.key_field")} AS item(v), {_VALUES},
            LATERAL (SELECT item.v #>> '{{}}' AS address, octet_length(item.v #>> '{{}}')
                = char_length(item.v #>> '{{}}') AS ascii) AS key
        WHERE CAST($4 AS text) IS NOT NULL AND {_ROWS} AND {_FULL}
            AND jsonb_typeof(item.v) = 'string' AND char_length(key.address) <= {emails.CHARS}
            AND CASE WHEN key.ascii
                THEN lower(btrim(key.address, {_BLANK}) COLLATE "C") = CAST($4 AS text)
                ELSE strpos(key.address, '@') > 0 OR strpos(CAST($4 AS text), '@') = 0 END"""  # noqa: S608

STATEMENT = f"""
SELECT coalesce(json_agg(json_build_array(l.n, found.pairs)), '[]')::text
FROM (
    SELECT (e ->> 0)::int AS n, e ->> 1 AS table_id, e ->> 2 AS key_field, e ->> 3 AS value_field
    FROM jsonb_array_elements(CAST($1 AS jsonb)) AS e
) AS l
JOIN tables ON tables.id = l.table_id AND NOT tables.trashed
    AND tables.workspace_id = CAST($2 AS text)
JOIN fields AS named ON named.id = l.key_field AND named.table_id = tables.id
JOIN fields AS worth ON worth.id = l.value_field AND worth.table_id = tables.id
CROSS JOIN LATERAL (
    SELECT coalesce(json_agg(json_build_array(pair.address, pair.value)), '[]') AS pairs
    FROM ({_BY_ID}CAST($3 AS text))
        UNION {_BY_ID}jsonb_build_array(CAST($3 AS text)))
        UNION {_BY_ADDRESS}
        LIMIT {CANDIDATES + 1}
    ) AS pair
) AS found"""  # noqa: S608 - the parts are constants of this module
