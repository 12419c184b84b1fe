"""Which attributes of the user the rules of a request ask for, before any of them is decided."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pydantic import JsonValue
from pydantic_core import to_json

from context_engine import policy
from context_engine.errors import InvalidRequest
from context_engine.facts import Facts, ReadTables
from context_engine.keys import Coordinates


def lookups(facts: Facts, at: Coordinates) -> frozenset[policy.AttrLookup]:
    """Every `user.attr` in the policies and boundaries of the tables, and in the current view."""
    tables, key = facts.tables, (lookups, at.view_id)
    found = tables.made.get(key) if isinstance(tables, ReadTables) else None
    if not isinstance(found, frozenset):
        found = asked_by(_rules(facts, at))
        # Of views that there are: whoever asks for others must not fill the memory.
        known = at.view_id is None or any(v.id == at.view_id for t in tables for v in t.views)
        if known and isinstance(tables, ReadTables):
            tables.made[key] = found
    return found


def asked_by(rules: Iterable[JsonValue]) -> frozenset[policy.AttrLookup]:
    """Every `user.attr` in these predicates, as they are stored."""
    found: set[policy.AttrLookup] = set()
    for raw in rules:
        if _mentions_attr(raw):
            try:
                found |= policy.attributes(policy.parse_stored(raw))
            except InvalidRequest:
                continue  # garbage denies where it is read
    return frozenset(found)


def _rules(facts: Facts, at: Coordinates) -> Iterator[JsonValue]:
    for table in facts.tables:
        yield from (stored.pred for stored in table.policies)
        for view in table.views:
            if view.ownership == "restricted" or view.id == at.view_id:
                yield view.filter


def _mentions_attr(raw: JsonValue) -> bool:
    """Most rules mention none, and need no parsing to tell."""
    try:
        return b'"attr"' in to_json(raw)
    except ValueError:  # half a character, or nested too deep: garbage too
        return False
