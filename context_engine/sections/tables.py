"""Tables and their relations: samples and counts, never records."""

from __future__ import annotations

from context_engine.access import VisibleLink, VisibleScope, VisibleTable, VisibleView
from context_engine.facts import FieldFacts
from context_engine.models.sections import (
    SAMPLED_FIELDS,
    SAMPLED_VIEWS,
    FieldSample,
    Relation,
    TableSection,
    ViewSample,
)
from context_engine.ports import Counts
from context_engine.sections.base import (
    NOT_ASKED,
    NOT_FOUND,
    Section,
    counted,
    included,
    unavailable,
)

TOLD = 3
"""Tables whose trimmings the trace tells one by one."""


def build_tables(scope: VisibleScope, counts: Counts) -> Section[tuple[TableSection, ...]]:
    """Every effective table, in the order asked for."""
    tables = tuple(build_table(table, scope.view, counts) for table in scope.tables)
    if not tables:
        asked = any(one.coordinate == "tableIds" for one in scope.absent)
        return Section(tables, "absent", NOT_FOUND if asked else NOT_ASKED)
    missing = [t.record_count.unavailable for t in tables if t.record_count.unavailable]
    if missing:
        return Section(tables, "unavailable", f"records: {missing[0]}")
    cut = [t for t in tables if len(t.fields) < t.field_count or len(t.views) < t.view_count]
    return Section(tables, "trimmed", _trimmings(cut)) if cut else included(tables)


def _trimmings(cut: list[TableSection]) -> str:
    """What was left out of the first few of these tables, and how many more were cut."""
    told = [
        f"{t.id}: {len(t.fields)} of {t.field_count} fields, {len(t.views)} of {t.view_count} views"
        for t in cut[:TOLD]
    ]
    return "; ".join(told) + (f"; {len(cut) - TOLD} more tables" if len(cut) > TOLD else "")


def build_table(table: VisibleTable, view: VisibleView | None, counts: Counts) -> TableSection:
    """One table: at most 12 fields and 6 views, and the number of records in sight."""
    current = view if view is not None and view.table_id == table.id else None
    fields = sampled_fields(table.fields, current)
    views = sampled_views(table.views, current)
    return TableSection(
        id=table.id,
        name=table.name,
        permission=table.permission,
        field_count=len(table.fields),
        fields=tuple(
            FieldSample(id=f.id, name=f.name, type=f.type, primary=f.primary) for f in fields
        ),
        view_count=len(table.views),
        views=tuple(ViewSample(id=v.facts.id, name=v.facts.name, type=v.facts.type) for v in views),
        record_count=counted(counts.tables.get(table.id), table.uncountable),
    )


def sampled_fields(
    fields: tuple[FieldFacts, ...], view: VisibleView | None
) -> tuple[FieldFacts, ...]:
    """The primary field first, then the current view's in its order, then table order."""
    by_id = {field.id: field for field in fields}
    primary = (field.id for field in fields if field.primary)
    shown = view.field_ids if view is not None else ()
    order = dict.fromkeys((*primary, *shown, *by_id))
    return tuple(by_id[id] for id in order if id in by_id)[:SAMPLED_FIELDS]


def sampled_views(
    views: tuple[VisibleView, ...], current: VisibleView | None
) -> tuple[VisibleView, ...]:
    """The current view first, then table order."""
    first = [view for view in views if current is not None and view.facts.id == current.facts.id]
    rest = [view for view in views if view not in first]
    return tuple(first + rest)[:SAMPLED_VIEWS]


def build_relations(scope: VisibleScope, counts: Counts) -> Section[tuple[Relation, ...]]:
    """The links of the context's tables, and those that lead into them: one step out."""
    found = tuple(_relation(link, counts) for link in scope.links)
    if not found:
        return Section(found, "absent", "no links" if scope.tables else NOT_ASKED)
    missing = [why for r in found if r.link_count and (why := r.link_count.unavailable)]
    return unavailable(found, f"links: {missing[0]}") if missing else included(found)


def _relation(link: VisibleLink, counts: Counts) -> Relation:
    """One to a table out of sight has no name and no count; neither has one to what is gone."""
    made = Relation(
        table_id=link.table.id,
        table_name=link.table.name,
        field_id=link.field.id,
        field_name=link.field.name,
        cardinality=link.field.cardinality,
    )
    if link.target is None:
        return made
    return made.model_copy(
        update={
            "linked_table_id": link.target.id,
            "linked_table_name": link.target.name,
            "linked_field_id": link.back.id if link.back is not None else None,
            "link_count": counted(counts.links.get(link.key), link.uncountable),
        }
    )
