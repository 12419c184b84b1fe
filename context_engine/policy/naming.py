"""What a predicate names: the cells that it reads, and whether they are there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from context_engine.facts import FieldFacts
from context_engine.policy.grammar import (
    Comparison,
    OfAttr,
    Pred,
    column_of,
    comparisons,
    links,
)
from context_engine.policy.resolving import FieldsOf, Unresolvable


def fields_read(pred: Pred) -> frozenset[str]:
    """Ids of the fields of the predicate's own table that it reads, link fields too."""
    cells = {column_of(c.ref) for c in comparisons(pred) if c.ref.startswith("field:")}
    return frozenset(cells | {linked.field for linked in links(pred)})


def refs_read(pred: Pred) -> frozenset[str]:
    """The references to cells and columns of the predicate's own table."""
    return frozenset(c.ref for c in comparisons(pred))


def reads(
    pred: Pred, table_id: str, target: Callable[[str], str | None]
) -> frozenset[tuple[str, str | None]]:
    """Every (table, field or system column) that `pred` reads over rows of `table_id`; and (table,
    None) for each table whose rows decide: that a linked row is there counts, whatever it says.

    A lookup that is not resolved yet reads its key and its values. `target` tells where a link
    field of `table_id` leads. Raises `Unresolvable` for one that leads nowhere known.
    """
    found = {(table_id, None), *_read(pred, table_id)}
    for linked in links(pred):
        led_to = target(linked.field)
        if led_to is None or any(links(linked.pred)):
            raise Unresolvable(f"linkedAny along field {linked.field!r}")
        found |= {(table_id, linked.field), (led_to, None), *_read(linked.pred, led_to)}
    return frozenset(found)


def _read(pred: Pred, table_id: str) -> Iterator[tuple[str, str | None]]:
    for comparison in comparisons(pred):
        yield table_id, column_of(comparison.ref)
        if isinstance(comparison.operand, OfAttr):
            lookup = comparison.operand.attr
            yield lookup.table, lookup.key_field
            yield lookup.table, lookup.value_field


def lacking(pred: Pred, fields_of: FieldsOf, table_id: str) -> str | None:
    """The first thing that `pred` names and that is not there; None where all of it is.

    A field, a link field that is no link, its table, a field of that table. A lookup's fields only
    where `fields_of` knows its table: whether there are values is told by reading them.
    """
    known = fields_of(table_id)
    if known is None:
        return f"table {table_id!r}"
    for comparison in comparisons(pred):
        if (gone := _gone(comparison, known, fields_of)) is not None:
            return gone
    for linked in links(pred):
        field = known.get(linked.field)
        if field is None or field.type != "link" or field.linked_table_id is None:
            return f"link field {linked.field!r}"
        if (gone := lacking(linked.pred, fields_of, field.linked_table_id)) is not None:
            return gone
    return None


def _gone(
    comparison: Comparison, known: Mapping[str, FieldFacts], fields_of: FieldsOf
) -> str | None:
    if comparison.ref.startswith("field:") and column_of(comparison.ref) not in known:
        return f"field {column_of(comparison.ref)!r}"
    if isinstance(comparison.operand, OfAttr):
        lookup = comparison.operand.attr
        there = fields_of(lookup.table)
        for field_id in (lookup.key_field, lookup.value_field) if there is not None else ():
            if field_id not in (there or {}):
                return f"field {field_id!r}"
    return None
