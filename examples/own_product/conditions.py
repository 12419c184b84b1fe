"""The engine's predicates as SQLite conditions: as much of the language as this product uses.

What `access` makes is built from the facts that the product told: its one policy, its one
filter. Anything else fails closed: a condition that is not understood holds for no row.
"""

from __future__ import annotations

from context_engine.policy import All, Any_, Cmp, Comparison, Literal_, Pred
from examples.own_product.database import Value

COLUMNS = {
    "sys:created_by": "opened_by",
    "field:subject": "subject",
    "field:state": "state",
    "field:assignee": "assignee_id",
}


class NotUnderstood(Exception):
    """A predicate beyond this product's part of the language."""


def condition(pred: Pred, values: list[Value]) -> str:
    """A condition over `tickets`; what it binds is added to `values`, in order."""
    bound: list[Value] = []
    try:
        text = _condition(pred, bound)
    except NotUnderstood:
        return "0"
    values.extend(bound)
    return text


def _condition(pred: Pred, values: list[Value]) -> str:
    match pred:
        case bool():
            return str(int(pred))
        case All(all=parts):
            return "(" + " AND ".join(["1", *(_condition(part, values) for part in parts)]) + ")"
        case Any_(any=parts):
            return "(" + " OR ".join(["0", *(_condition(part, values) for part in parts)]) + ")"
        case Cmp(cmp=Comparison(ref=ref, op="eq", operand=Literal_(literal=str(value)))):
            if ref not in COLUMNS:
                raise NotUnderstood(ref)
            values.append(value)
            return f"{COLUMNS[ref]} = ?"
        case _:
            raise NotUnderstood(type(pred).__name__)
