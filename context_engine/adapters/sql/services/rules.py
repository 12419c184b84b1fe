"""What a rule that is written may name: the fields that its writer sees, wherever it looks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from context_engine import policy
from context_engine.access import VisibleTable
from context_engine.adapters.sql.services import fields, rights
from context_engine.adapters.sql.services.cells import FieldSpec
from context_engine.adapters.sql.services.writing import Transaction
from context_engine.facts import FieldFacts


async def seen_fields(
    tx: Transaction, workspace_id: str, table: VisibleTable, preds: Iterable[policy.Pred]
) -> Mapping[str, Mapping[str, FieldFacts]]:
    """By table, the fields that the actor sees: of `table`, and of those that links and lookups
    of the predicates lead to."""
    leads = {field.id: field.linked_table_id for field in table.fields}
    named: set[str | None] = set()
    for pred in preds:
        named |= {leads.get(linked.field) for linked in policy.links(pred)}
        named |= {lookup.table for lookup in policy.attributes(pred)}
    others = sorted(id for id in named if id is not None and id != table.id)
    seen = [table, *await rights.tables_of(tx, workspace_id, others)]
    return {one.id: await _fields_of(tx, one) for one in seen}


async def _fields_of(tx: Transaction, table: VisibleTable) -> Mapping[str, FieldFacts]:
    """The fields in sight, with what `policy.check` asks of them."""
    specs = await fields.specs(tx, table.id)
    return {field.id: _to_check(field, specs[field.id]) for field in table.fields}


def _to_check(field: FieldFacts, spec: FieldSpec) -> FieldFacts:
    """Of a user field, `cardinality` says whether it holds one or many; of one with choices,
    which they are."""
    choices = spec.options.get("choices")
    if field.type in ("select", "multi_select") and isinstance(choices, list):
        return policy.ChoiceField(**dict(field), choices=tuple(map(str, choices)))
    if field.type == "user":
        many = spec.options.get("multiple") is True
        return field.model_copy(update={"cardinality": "many" if many else "one"})
    return field
