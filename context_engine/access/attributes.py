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
    made = facts.tables.made if isinstance(facts.tables, ReadTables) else {}
    found = made.get((lookups, at.view_id))
    if not isinstance(found, frozenset):
        found = made[lookups, at.view_id] = asked_by(_rules(facts, at))
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
