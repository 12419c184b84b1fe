"""What a predicate says of one user at one time: operands become literals and days."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import assert_never
from zoneinfo import ZoneInfo

from pydantic import JsonValue

from context_engine.policy.days import day_of, next_day_of, zone_of
from context_engine.policy.grammar import (
    All,
    Any_,
    AttrLookup,
    Cmp,
    Comparison,
    Linked,
    LinkedAny,
    Literal_,
    Not,
    Now,
    OfAttr,
    OfNow,
    OfUser,
    OnDay,
    Operand,
    Pred,
    comparisons,
    links,
)

ALONE = frozenset({"empty", "not_empty"})
"""Operators that compare with nothing."""
DATED = frozenset({"eq", "ne", "lt", "lte", "gt", "gte"})
"""Operators that a day can stand beside."""


class Unresolvable(Exception):
    """The predicate says something that cannot be decided; whoever asks denies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserOperands:
    """What a predicate may ask of the user and of the time.

    `attributes`: the values of every lookup that was found, in any order. One that is not among
    them could not be made: its table or a field is not there, or it has too many values.
    """

    id: str
    email_norm: str | None = None
    team_ids: tuple[str, ...] = ()
    timezone: str | None = None
    now: datetime
    attributes: Mapping[AttrLookup, tuple[JsonValue, ...]] = field(
        default_factory=lambda: MappingProxyType({})
    )


def resolve(pred: Pred, operands: UserOperands) -> Pred:
    """`pred` with every operand replaced by the literal or the day that it means.

    Raises `Unresolvable`: a lookup without values known, no address, no zone or one that does not
    exist, a day where none can be compared, a `linkedAny` inside of another.
    """
    return _resolved(pred, operands, inside=False)


def _resolved(pred: Pred, operands: UserOperands, *, inside: bool) -> Pred:
    match pred:
        case bool():
            return pred
        case All(all=parts):
            return All(all=tuple(_resolved(p, operands, inside=inside) for p in parts))
        case Any_(any=parts):
            return Any_(any=tuple(_resolved(p, operands, inside=inside) for p in parts))
        case Not(not_=inner):
            return Not(not_=_resolved(inner, operands, inside=inside))
        case Cmp(cmp=c):
            return Cmp(cmp=c.model_copy(update={"operand": _operand(c, operands)}))
        case LinkedAny(linked_any=linked):
            if inside:
                raise Unresolvable("a linkedAny inside of a linkedAny")
            within = _resolved(linked.pred, operands, inside=True)
            return LinkedAny(linked_any=Linked(field=linked.field, pred=within))
        case _:
            assert_never(pred)


def _operand(comparison: Comparison, operands: UserOperands) -> Literal_ | OnDay:
    if comparison.op in ALONE:
        return Literal_(literal=None)
    match comparison.operand:
        case Literal_() as literal:
            return literal
        case OfUser(user="id"):
            return _known(operands.id)
        case OfUser(user="email_norm"):
            # As a null it would be false, and its `not` true. Nobody has an address of no letters.
            if not operands.email_norm:
                raise Unresolvable("user.email_norm of a user without an address")
            return _known(operands.email_norm)
        case OfUser():
            return _known(list(operands.team_ids))
        case OfAttr(attr=lookup):
            if lookup not in operands.attributes:
                raise Unresolvable(f"user.attr of table {lookup.table!r}")
            return _known(list(operands.attributes[lookup]))
        case OfNow(now=now):
            return _dated(comparison, day_of(now, _zone(now, operands), operands.now))
        case OnDay() as day:
            return _dated(comparison, day)
        case _:
            assert_never(comparison.operand)


def _known(value: JsonValue) -> Literal_:
    """Our own value: looked at as it was stored, and there may be ten thousand."""
    return Literal_.model_construct(literal=value)


def _dated(comparison: Comparison, day: OnDay) -> OnDay:
    if comparison.op not in DATED:
        raise Unresolvable(f"{comparison.op} with a day")
    return day


def _zone(now: Now, operands: UserOperands) -> ZoneInfo:
    """The operand's own zone, else the user's."""
    name = now.tz if now.tz is not None else operands.timezone
    zone = None if name is None else zone_of(name)
    if zone is None:
        raise Unresolvable("a time zone that does not exist")
    return zone


def until(pred: Pred, operands: UserOperands) -> datetime | None:
    """When a `now` of `pred` next means another day, in UTC: what was made of it ends there.

    None without a `now`. Raises `Unresolvable` for no zone, or one that does not exist.
    """
    turns = (
        next_day_of(operand.now, _zone(operand.now, operands), operands.now)
        for operand in _operands(pred)
        if isinstance(operand, OfNow)
    )
    return min(turns, default=None)


def attributes(pred: Pred) -> frozenset[AttrLookup]:
    """The lookups that have to be made before `pred` can be resolved."""
    return frozenset(one.attr for one in _operands(pred) if isinstance(one, OfAttr))


def _operands(pred: Pred) -> Iterator[Operand]:
    """Every operand, those of linked rows too, however deep."""
    todo = [pred]
    while todo:
        one = todo.pop()
        yield from (c.operand for c in comparisons(one) if c.op not in ALONE)
        todo.extend(linked.pred for linked in links(one))
