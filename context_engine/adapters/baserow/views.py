"""Exported views: what they show in which order, and whose they are."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import JsonValue

from context_engine import view_filters
from context_engine.adapters.baserow.filters import map_filter
from context_engine.adapters.baserow.model import Schema, Table
from context_engine.adapters.baserow.source import AGAIN, At, distinct
from context_engine.loading import NewView

OWNERSHIPS = ("collaborative", "personal", "restricted")
SHOWN_UNLESS_HIDDEN = frozenset({"grid"})
"""Types of view that show a field that they say nothing of; the others leave it out."""
_KNOWN = (
    "id", "type", "name", "order", "ownership_type", "owned_by", "filter_type", "filters",
    "filter_groups", "filters_disabled", "sortings", "field_options",
)  # fmt: skip


def read_views(schema: Schema) -> list[NewView]:
    """The views of every table, in table order. Raises `BrokenFile`."""
    seen: set[int] = set()
    made: list[NewView] = []
    for table in schema.tables:
        views = sorted(
            table.at.objects("views"), key=lambda at: (at.number("order"), at.number("id"))
        )
        made += [
            _view(at, n, distinct(seen, at, "view"), table, schema) for n, at in enumerate(views)
        ]
    return made


def _view(at: At, position: int, id: int, table: Table, schema: Schema) -> NewView:
    name, type = at.text("name"), at.text("type")
    filter = map_filter(at, table.id, schema)
    if filter is not None:
        reason = view_filters.unavailable(view_filters.parse(filter))
        if reason is not None:
            schema.gap(table, f"the count of its rows: {reason}", view=name)
    hidden, shown = _options(at, type, table, schema)
    ownership = at.text("ownership_type", default=OWNERSHIPS[0])
    if ownership not in OWNERSHIPS:
        schema.gap(table, f"the ownership {ownership!r}: it is restricted here", view=name)
        ownership = "restricted"
    rest = at.rest(*_KNOWN)
    for what in ("decorations", "group_bys"):
        if rest.get(what):
            schema.gap(table, f"{what.replace('_', ' ')}, kept and not shown", view=name)
    return NewView(
        id=schema.view(id),
        table_id=schema.table(table.id),
        name=name,
        type=type,
        ownership=ownership,
        owner_email=at.optional_text("owned_by") if ownership == "personal" else None,
        position=position,
        filter=filter,
        hidden=hidden,
        field_order=shown,
        sorts=list(_sorts(at, table, schema)),
        options={"baserow": rest} if rest else {},
    )


def _options(
    at: At, type: str, table: Table, schema: Schema
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Fields that the view hides, and all of its fields in its own order."""
    fields = {one.id: one for one in table.fields}
    seen: dict[int, tuple[int, bool]] = {}
    for option in at.objects("field_options"):
        id = option.number("field_id")
        if id not in fields:
            raise option.broken("field_id", f"the table has no field {id}; {AGAIN}")
        hidden = not option.flag("enabled") if type == "form" else option.flag("hidden")
        seen[id] = (option.number("order"), hidden)
    unsaid = type not in SHOWN_UNLESS_HIDDEN
    hidden_ids = [id for id in fields if seen.get(id, (0, unsaid))[1]]
    # Their order is the view's, then the fields' own; the primary field leads a grid.
    places = {id: n for n, id in enumerate(fields)}
    last = max((order for order, _ in seen.values()), default=0) + 1

    def place(id: int) -> tuple[bool, int, int]:
        return not fields[id].primary, seen.get(id, (last, False))[0], places[id]

    order = sorted(fields, key=place)
    return tuple(map(schema.field, hidden_ids)), tuple(map(schema.field, order))


def _sorts(at: At, table: Table, schema: Schema) -> Iterable[JsonValue]:
    fields = {one.id for one in table.fields}
    for sort in at.objects("sortings", default=True):
        id = sort.number("field_id")
        if id not in fields:
            raise sort.broken("field_id", f"the table has no field {id}; {AGAIN}")
        yield {"field": schema.field(id), "descending": sort.text("order") == "DESC"}
