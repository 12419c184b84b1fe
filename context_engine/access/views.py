"""The view that the user looks at: its filter, for presentation of rows that are in sight."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from context_engine import policy, view_filters
from context_engine.access.rows import tell_unreadable
from context_engine.access.run import Run
from context_engine.access.visible import VisibleView
from context_engine.errors import InvalidRequest
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
    seen: dict[str, Sight] = {}
    pred = _leading_somewhere(pred, links, sight, seen)
    if (lacking := policy.lacking(pred, run.fields_of, table.id)) is not None:
        raise policy.Unresolvable(f"there is no {lacking}")
    run.read_by(pred, table)
    run.turns(policy.until(pred, run.operands))
    return _within_sight(policy.resolve(pred, run.operands, run.fields_of, table.id), seen)


def _leading_somewhere(
    pred: policy.Pred, links: Mapping[str, str | None], sight: SightOf, seen: dict[str, Sight]
) -> policy.Pred:
    """`pred`, in which a link to a table out of sight finds nothing, whether it is hidden or gone:
    the count tells the same of both. `seen` is told what is in sight through the others."""

    def blind(linked: policy.Linked) -> bool:
        if (target := links.get(linked.field)) is None:
            return False
        if (there := sight(target)) is not None:
            seen[linked.field] = there
        return there is None

    def led(parts: tuple[policy.Pred, ...]) -> tuple[policy.Pred, ...]:
        return tuple(_leading_somewhere(part, links, sight, seen) for part in parts)

    match pred:
        case policy.All(all=parts):
            return policy.All(all=led(parts))
        case policy.Any_(any=parts):
            return policy.Any_(any=led(parts))
        case policy.Not(not_=inner):
            return policy.Not(not_=led((inner,))[0])
        case policy.LinkedAny(linked_any=linked) if blind(linked):
            return False
        case _:
            return pred


def _within_sight(pred: policy.Pred, seen: Mapping[str, Sight]) -> policy.Pred:
    """`pred`, in which a linked row counts only where the user sees it; `seen` by link field."""
    match pred:
        case policy.All(all=parts):
            return policy.All(all=tuple(_within_sight(part, seen) for part in parts))
        case policy.Any_(any=parts):
            return policy.Any_(any=tuple(_within_sight(part, seen) for part in parts))
        case policy.Not(not_=inner):
            return policy.Not(not_=_within_sight(inner, seen))
        case policy.LinkedAny(linked_any=linked):
            rows = policy.Any_(any=tuple(map(_as_pred, seen[linked.field].rows)))
            both = policy.All(all=(linked.pred, rows))
            return policy.LinkedAny(linked_any=linked.model_copy(update={"pred": both}))
        case _:
            return pred


def _as_pred(rows: RowSet) -> policy.Pred:
    """Raises `policy.Unresolvable` for a boundary that no predicate can say."""
    if rows.where is not None:
        raise policy.Unresolvable("a boundary in the language of views")
    return rows.pred
