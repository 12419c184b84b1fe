"""What a predicate says of every row alike, whatever they hold and whoever asks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from context_engine.policy.grammar import All, Any_, Cmp, LinkedAny, Literal_, Not, Pred

_OF_NONE = {"in": False, "has_any": False, "has_all": False, "not_in": True, "has_none": True}
"""What an operator says of any cell beside a list of nothing."""


def constant(pred: Pred) -> bool | None:
    """True or False where `pred` as it is written is that of every row; None where it depends."""
    match pred:
        case bool():
            return pred
        case All(all=parts):
            return _decided(parts, by=False)
        case Any_(any=parts):
            return _decided(parts, by=True)
        case Not(not_=inner):
            of = constant(inner)
            return None if of is None else not of
        case Cmp(cmp=comparison):
            none = comparison.operand == Literal_(literal=[])
            return _OF_NONE.get(comparison.op) if none else None
        case LinkedAny(linked_any=linked):
            return False if constant(linked.pred) is False else None
        case _:
            assert_never(pred)


def _decided(parts: Iterable[Pred], *, by: bool) -> bool | None:
    """One part that is `by` decides; the others do if they are all known."""
    said = [constant(part) for part in parts]
    if by in said:
        return by
    return None if None in said else not by
