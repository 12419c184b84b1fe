"""The view that the user looks at: its count is apart from the table's."""

from __future__ import annotations

from context_engine.access import VisibleScope
from context_engine.models.sections import ViewSection
from context_engine.ports import Counts
from context_engine.sections.base import Section, absent, counted, included, unavailable


def build_view(
    scope: VisibleScope, counts: Counts, asked: str | None
) -> Section[ViewSection] | Section[None]:
    """The current view; where its filter cannot be computed it has no count, and says why."""
    view = scope.view
    if view is None:
        return absent(asked)
    section = ViewSection(
        id=view.facts.id,
        name=view.facts.name,
        type=view.facts.type,
        table_id=view.table_id,
        filtered=view.facts.filter is not None,
        field_count=len(view.field_ids),
        record_count=counted(counts.view, view.uncountable),
    )
    reason = section.record_count.unavailable
    return unavailable(section, f"records: {reason}") if reason else included(section)
