"""What a predicate says of one user at one time: operands become literals and days."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import assert_never
from zoneinfo import ZoneInfo

from pydantic import JsonValue

from context_engine import emails
from context_engine.facts import FieldFacts
from context_engine.frozen import frozen
from context_engine.policy.days import day_of, day_of_text, next_day_of
from context_engine.policy.grammar import (
    Address,
    All,
    Any_,
    AttrLookup,
    Cmp,
    Comparison,
    Linked,
    LinkedAny,
    LinkedIn,
    Literal_,
    Not,
    Now,
    OfAttr,
    OfNow,
    OfUser,
    OnDay,
    Operand,
    Pred,
    column_of,
    comparisons,
    links,
)
from context_engine.zones import zone_of

ALONE = frozenset({"empty", "not_empty"})
"""Operators that compare with nothing."""
DATED = frozenset({"eq", "ne", "lt", "lte", "gt", "gte"})
"""Operators that a day can stand beside."""


FieldsOf = Callable[[str], Mapping[str, FieldFacts] | None]
"""The fields of a table by id; None for a table that is not there."""


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


def resolve(pred: Pred, operands: UserOperands, fields_of: FieldsOf, table_id: str) -> Pred:
    """`pred` over rows of `table_id`, each operand replaced by the literal, day or address that it
    means.

    `fields_of` tells which fields hold times: with these a literal day is one of the user's zone.
    Raises `Unresolvable`: a lookup without values known, no address, no zone or one that does not
    exist, a day where none can be compared, a `linkedAny` inside of another.
    """
    return _Resolver(operands, fields_of, fields_of(table_id) or {}).predicate(pred)


@dataclass(frozen=True, slots=True)
class _Resolver:
    operands: UserOperands
    fields_of: FieldsOf
    fields: Mapping[str, FieldFacts]
    """Of the rows at hand."""
    linked: bool = False
    """Whether these are rows that a link leads to."""

    def predicate(self, pred: Pred) -> Pred:
        match pred:
            case bool():
                return pred
            case All(all=parts):
                return All(all=tuple(map(self.predicate, parts)))
            case Any_(any=parts):
                return Any_(any=tuple(map(self.predicate, parts)))
            case Not(not_=inner):
                return Not(not_=self.predicate(inner))
            case Cmp(cmp=c):
                return Cmp(cmp=c.model_copy(update={"operand": self._operand(c)}))
            case LinkedAny(linked_any=linked):
                return LinkedAny(linked_any=self._linked(linked))
            case _:
                assert_never(pred)

    def _linked(self, linked: Linked) -> Linked:
        if self.linked:
            raise Unresolvable("a linkedAny inside of a linkedAny")
        field = self.fields.get(linked.field)
        led_to = None if field is None else field.linked_table_id
        there = None if led_to is None else self.fields_of(led_to)
        within = _Resolver(self.operands, self.fields_of, there or {}, linked=True)
        pred = within.predicate(linked.pred)
        if led_to is None or there is None:
            return Linked(field=linked.field, pred=pred)
        return LinkedIn(field=linked.field, pred=pred, table=led_to)

    def _operand(self, comparison: Comparison) -> Literal_ | OnDay | Address:
        operands = self.operands
        if comparison.op in ALONE:
            return Literal_(literal=None)
        match comparison.operand:
            case Literal_() as literal:
                return self._literal(comparison, literal)
            case OfUser(user="id"):
                return _known(operands.id)
            case OfUser(user="email_norm"):
                return _address(operands.email_norm)
            case OfUser():
                return _known(list(operands.team_ids))
            case OfAttr(attr=lookup):
                if lookup not in operands.attributes:
                    raise Unresolvable(f"user.attr of table {lookup.table!r}")
                return _known(list(operands.attributes[lookup]))
            case OfNow(now=now):
                return _dated(comparison, day_of(now, _zone_of_now(now, operands), operands.now))
            case OnDay() as day:
                return _dated(comparison, day)
            case Address() as address:
                return address
            case _:
                assert_never(comparison.operand)

    def _literal(self, comparison: Comparison, literal: Literal_) -> Literal_ | OnDay:
        """Beside a time, a day counts by the local date; beside a date it is a text as any."""
        spelled = literal.literal
        if spelled is None:  # false, and its `not` true: nobody is let in by nothing
            raise Unresolvable("a comparison with null")
        if comparison.op not in DATED or not isinstance(spelled, str):
            return literal
        if not self._holds_times(comparison.ref) or (day := day_of_text(spelled)) is None:
            return literal
        zone = self.operands.timezone
        return OnDay(day=day, tz=_zone("UTC" if zone is None else zone).key)

    def _holds_times(self, ref: str) -> bool:
        if ref == "sys:created_at":
            return True
        field = self.fields.get(column_of(ref)) if ref.startswith("field:") else None
        return field is not None and field.type == "datetime"


def _address(known: str | None) -> Address:
    """As a null it would be false, and its `not` true. Nobody has an address of no letters."""
    address = emails.normal(known or "")
    if not address:
        raise Unresolvable("user.email_norm of a user without an address")
    return Address(address=address)


def _known(value: JsonValue) -> Literal_:
    """Our own value: looked at as it was stored, and there may be ten thousand."""
    return Literal_.model_construct(literal=frozen(value))


def _dated(comparison: Comparison, day: OnDay) -> OnDay:
    if comparison.op not in DATED:
        raise Unresolvable(f"{comparison.op} with a day")
    return day


def _zone_of_now(now: Now, operands: UserOperands) -> ZoneInfo:
    """The operand's own zone, else the user's."""
    return _zone(now.tz if now.tz is not None else operands.timezone)


def _zone(name: str | None) -> ZoneInfo:
    zone = None if name is None else zone_of(name)
    if zone is None:
        raise Unresolvable("a time zone that does not exist")
    return zone


def until(pred: Pred, operands: UserOperands) -> datetime | None:
    """When a `now` of `pred` next means another day, in UTC: what was made of it ends there.

    None without a `now`. Raises `Unresolvable` for no zone, or one that does not exist.
    """
    turns = (
        next_day_of(operand.now, _zone_of_now(operand.now, operands), operands.now)
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
