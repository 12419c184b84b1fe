"""The view that the user looks at: its filter, for presentation of rows that are in sight."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from context_engine import policy, view_filters
from context_engine.access.rows import tell_unreadable
from context_engine.access.run import Run
from context_engine.access.visible import VisibleView
from context_engine.errors import InvalidRequest
from context_engine.facts import FieldFacts
from context_engine.view_filters import NOT_COMPUTED, RowSet, Sight

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
        return replace(view, filter=_presented(run, view, policy.parse(raw), sight))
    except (InvalidRequest, policy.Unresolvable):
        tell_unreadable(run, view.facts)
        return replace(view, filter=False, uncountable=NOT_COMPUTED)


def _presented(run: Run, view: VisibleView, pred: policy.Pred, sight: SightOf) -> policy.Pred:
    table = run.tables[view.table_id]
    links = {field.id: field.linked_table_id for field in table.fields}
    pred = _leading_somewhere(pred, links, sight)
    if (lacking := policy.lacking(pred, run.fields_of, table.id)) is not None:
        raise policy.Unresolvable(f"there is no {lacking}")
    run.read_by(pred, table)
    run.turns(policy.until(pred, run.operands))
    fields = {field.id: field for field in table.fields}
    return _within_sight(policy.resolve(pred, run.operands, run.fields_of, table.id), fields, sight)


def _leading_somewhere(
    pred: policy.Pred, links: Mapping[str, str | None], sight: SightOf
) -> policy.Pred:
    """`pred`, in which a link to a table out of sight finds nothing, whether it is hidden or gone:
    the count tells the same of both."""

    def blind(linked: policy.Linked) -> bool:
        target = links.get(linked.field)
        return target is not None and sight(target) is None

    match pred:
        case policy.All(all=parts):
            return policy.All(all=tuple(_leading_somewhere(p, links, sight) for p in parts))
        case policy.Any_(any=parts):
            return policy.Any_(any=tuple(_leading_somewhere(p, links, sight) for p in parts))
        case policy.Not(not_=inner):
            return policy.Not(not_=_leading_somewhere(inner, links, sight))
        case policy.LinkedAny(linked_any=linked) if blind(linked):
            return False
        case _:
            return pred


def _within_sight(pred: policy.Pred, fields: dict[str, FieldFacts], sight: SightOf) -> policy.Pred:
    """`pred`, in which a linked row counts only where the user sees it."""
    match pred:
        case policy.All(all=parts):
            return policy.All(all=tuple(_within_sight(part, fields, sight) for part in parts))
        case policy.Any_(any=parts):
            return policy.Any_(any=tuple(_within_sight(part, fields, sight) for part in parts))
        case policy.Not(not_=inner):
            return policy.Not(not_=_within_sight(inner, fields, sight))
        case policy.LinkedAny(linked_any=linked):
            field = fields.get(linked.field)
            there = sight(field.linked_table_id) if field and field.linked_table_id else None
            if there is None:
                return False
            seen = policy.Any_(any=tuple(_as_pred(rows) for rows in there.rows))
            both = policy.All(all=(linked.pred, seen))
            return policy.LinkedAny(linked_any=linked.model_copy(update={"pred": both}))
        case _:
            return pred


def _as_pred(rows: RowSet) -> policy.Pred:
    """Raises `policy.Unresolvable` for a boundary that no predicate can say."""
    if rows.where is not None:
        raise policy.Unresolvable("a boundary in the language of views")
    return rows.pred
