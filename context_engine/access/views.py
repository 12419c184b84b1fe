"""The view that the user looks at: its filter, for presentation of rows that are in sight."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from context_engine import policy, view_filters
from context_engine.access.rows import tell_unreadable
from context_engine.access.run import Run
from context_engine.access.visible import VisibleView
from context_engine.errors import InvalidRequest
from context_engine.view_filters import NOT_COMPUTED, Prepared, Sight

SightOf = Callable[[str], Sight | None]
"""The rows that the user sees of a table, and all of its fields; None for one out of sight."""


def looked_at(run: Run, view: VisibleView, sight: SightOf) -> VisibleView:
    """The view with its filter ready to be counted, or with the reason why it cannot be.

    It applies to hidden fields of its own table too, but sees linked rows only in the user's
    sight.
    """
    raw = view.facts.filter
    if raw is None or view.uncountable is not None:
        return view
    if view_filters.is_stored(raw):
        made = view_filters.prepare(raw, view.table_id, run.now, sight)
        if isinstance(made, str):
            tell_unreadable(run, view.facts)
            return replace(view, filter=False, uncountable=made)
        run.reads_cells(made.reads)
        run.reads_cells((id, None) for id in made.sights)
        run.turns(made.until)
        return replace(view, where=made)
    try:
        return _presented(run, view, policy.parse(raw), sight)
    except (InvalidRequest, policy.Unresolvable):
        tell_unreadable(run, view.facts)
        return replace(view, filter=False, uncountable=NOT_COMPUTED)


def _presented(run: Run, view: VisibleView, pred: policy.Pred, sight: SightOf) -> VisibleView:
    """Raises `policy.Unresolvable` for what cannot be decided."""
    table = run.tables[view.table_id]
    links = {field.id: field.linked_table_id for field in table.fields}
    led_to = {id for one in policy.links(pred) if (id := links.get(one.field)) is not None}
    seen = {id: there.rows for id in led_to if (there := sight(id)) is not None}
    pred = _without(pred, {field for field, id in links.items() if id in led_to - seen.keys()})
    if (lacking := policy.lacking(pred, run.fields_of, table.id)) is not None:
        raise policy.Unresolvable(f"there is no {lacking}")
    run.read_by(pred, table)
    until = policy.until(pred, run.operands)
    run.turns(until)
    resolved = policy.resolve(pred, run.operands, run.fields_of, table.id)
    if not seen:
        return replace(view, filter=resolved)
    reads = policy.reads(pred, table.id, links.get)
    return replace(view, where=Prepared(resolved, run.now, seen, reads, until))


def _without(pred: policy.Pred, blind: Collection[str]) -> policy.Pred:
    """`pred`, in which these link fields find nothing: they lead out of sight, and whether a table
    is hidden or gone the count tells the same."""
    match pred:
        case policy.All(all=parts):
            return policy.All(all=tuple(_without(part, blind) for part in parts))
        case policy.Any_(any=parts):
            return policy.Any_(any=tuple(_without(part, blind) for part in parts))
        case policy.Not(not_=inner):
            return policy.Not(not_=_without(inner, blind))
        case policy.LinkedAny(linked_any=linked) if linked.field in blind:
            return False
        case _:
            return pred
