"""The grammar of row policies, and its parser.

What is stored is not trusted to be of this grammar. `parse` answers garbage with `InvalidRequest`
alone, before anything recurses into it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import date
from typing import Annotated, Literal, assert_never

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    InstanceOf,
    JsonValue,
    StrictBool,
    Tag,
    TypeAdapter,
    ValidationError,
)

from context_engine.errors import InvalidRequest
from context_engine.frozen import frozen
from context_engine.models.base import Contract, Id

Op = Literal[
    "eq", "ne", "in", "not_in", "has_any", "has_all", "has_none", "empty", "not_empty",
    "lt", "lte", "gt", "gte", "text_contains",
]  # fmt: skip

Ref = Annotated[
    str, Field(pattern=r"^(field:[^\x00-\x1f\x7f]{1,200}|sys:(created_by|updated_by|created_at))$")
]

MAX_DEPTH = 16
"""Deepest nesting of a predicate."""
MAX_LINKED = 50
"""Most `linkedAny` in a predicate: each looks through the links of a table."""
MAX_ITEMS = 20_000
"""Most parts of a predicate, those of its lists among them: whoever is looked for is waited for."""
MAX_POLICIES = 50
"""Most policies of a table."""
MAX_COMPARISONS = 500
"""Most comparisons in one predicate: each takes bind parameters, and a statement has so many."""
MAX_NUMBER_BITS = 3_400
"""Longest whole number in a literal, some 1,000 digits."""


class Node(Contract):
    """A part of the grammar: unlike messages, it refuses what it does not know."""

    model_config = ConfigDict(extra="forbid")


def _literal(value: JsonValue) -> JsonValue:
    """A literal that a database takes; its depth is bounded by then."""
    match value:
        case str():
            if "\x00" in value or any("\ud800" <= c <= "\udfff" for c in value):
                raise ValueError("text with a NUL or half a character; remove it")
        case float() if not math.isfinite(value):
            raise ValueError("a number that is not finite; write one that is")
        case int() if value.bit_length() > MAX_NUMBER_BITS:
            raise ValueError("a number of more than 1,000 digits; write a smaller one")
        case list():
            for item in value:
                _literal(item)
        case dict():
            for key, item in value.items():
                _literal(key)
                _literal(item)
        case _:
            pass
    return value


class Literal_(Node):
    literal: Annotated[JsonValue, AfterValidator(_literal), AfterValidator(frozen)]


class OfUser(Node):
    user: Literal["id", "email_norm", "team_ids"]


class AttrLookup(Node):
    """Values of `value_field` in the rows of `table` whose `key_field` names the user."""

    table: Id
    key_field: Id
    value_field: Id


class OfAttr(Node):
    attr: AttrLookup


class Now(Node):
    """Today, or the Monday of this week, in `tz`: without one, in the user's own zone."""

    unit: Literal["today", "week"]
    tz: str | None = None


class OfNow(Node):
    now: Now


class OnDay(Node):
    """What a `now` resolves to, and a day that times are compared with: a local date, and the zone
    in which times fall on it. Never stored."""

    day: date
    tz: str


class Address(Node):
    """What `user.email_norm` resolves to. Texts that are compared with it count as addresses too,
    in the form that `emails.normal` gives. Never stored."""

    address: str


def _operand_shape(raw: object) -> str | None:
    if isinstance(raw, dict):
        return next((f"<{name}>" for name in ("literal", "user", "attr", "now") if name in raw), "")
    kinds: dict[type[object], str] = {
        Literal_: "<literal>", OfUser: "<user>", OfAttr: "<attr>", OfNow: "<now>", OnDay: "<day>",
        Address: "<address>",
    }  # fmt: skip
    return kinds.get(type(raw))


Operand = Annotated[
    Annotated[Literal_, Tag("<literal>")]
    | Annotated[OfUser, Tag("<user>")]
    | Annotated[OfAttr, Tag("<attr>")]
    | Annotated[OfNow, Tag("<now>")]
    | Annotated[InstanceOf[OnDay], Tag("<day>")]
    | Annotated[InstanceOf[Address], Tag("<address>")],
    Discriminator(
        _operand_shape,
        custom_error_type="operand",
        custom_error_message="not an operand; use literal, user, attr or now",
    ),
]


class Comparison(Node):
    ref: Ref
    op: Op
    operand: Operand = Literal_(literal=None)


class Cmp(Node):
    cmp: Comparison


class All(Node):
    all: tuple[Pred, ...]


class Any_(Node):
    any: tuple[Pred, ...]


class Not(Node):
    not_: Annotated[Pred, Field(alias="not")]


class Linked(Node):
    field: Id
    pred: Pred


class LinkedIn(Linked):
    """What a `Linked` resolves to: with the table that its field leads to. Never stored."""

    table: Id


class LinkedAny(Node):
    linked_any: Linked


def _shape(raw: object) -> str | None:
    if isinstance(raw, bool):
        return "<bool>"
    if isinstance(raw, dict):
        return next((_SHAPES[name] for name in raw if name in _SHAPES), "")
    kinds: dict[type[object], str] = {
        All: "<all>", Any_: "<any>", Not: "<not>", Cmp: "<cmp>", LinkedAny: "<linkedAny>",
    }  # fmt: skip
    return kinds.get(type(raw))


_SHAPES = {
    "all": "<all>", "any": "<any>", "not": "<not>", "not_": "<not>", "cmp": "<cmp>",
    "linkedAny": "<linkedAny>", "linked_any": "<linkedAny>",
}  # fmt: skip

Pred = Annotated[
    Annotated[StrictBool, Tag("<bool>")]
    | Annotated[All, Tag("<all>")]
    | Annotated[Any_, Tag("<any>")]
    | Annotated[Not, Tag("<not>")]
    | Annotated[Cmp, Tag("<cmp>")]
    | Annotated[LinkedAny, Tag("<linkedAny>")],
    Discriminator(
        _shape,
        custom_error_type="predicate",
        custom_error_message="not a predicate; use all, any, not, cmp, linkedAny, true or false",
    ),
]

for _model in (All, Any_, Not, Linked, LinkedAny):
    _model.model_rebuild()
_predicate: TypeAdapter[Pred] = TypeAdapter(Pred)


class PolicySubject(Node):
    type: Literal["role", "team", "user"]
    id: Id


def _bounded(raw: object) -> object:
    if (fault := _too_large(raw)) is not None:
        raise ValueError(fault)
    return raw


class RowPolicy(Node):
    """One policy of a table: whom it names, what it demands, and whether it opens or closes."""

    subjects: tuple[PolicySubject, ...] = Field(min_length=1)
    pred: Annotated[Pred, BeforeValidator(_bounded)]
    mode: Literal["permissive", "restrictive"]


class TablePolicies(Node):
    """A table's default and its policies. Default `show_all` with permissive ones is refused."""

    default: Literal["show_all", "deny_all"] = "show_all"
    policies: tuple[RowPolicy, ...] = Field((), max_length=MAX_POLICIES)


def parse(raw: JsonValue, place: str = "pred") -> Pred:
    """The predicate that `raw` spells, which was found at `place`.

    Raises `InvalidRequest` naming the place in it.
    """
    if (fault := _too_large(raw)) is not None:
        raise InvalidRequest(fault, field=place)
    try:
        return _predicate.validate_python(raw)
    except ValidationError as error:
        raise refusal(error, place) from error


def parse_policies(raw: JsonValue) -> TablePolicies:
    """A table's policies out of JSON. Raises `InvalidRequest` naming the place."""
    try:
        return TablePolicies.model_validate(raw)
    except ValidationError as error:
        raise refusal(error) from error


def refusal(error: ValidationError, place: str = "") -> InvalidRequest:
    """The first fault, at its place in the JSON as it was written."""
    fault = error.errors(include_url=False, include_input=False)[0]
    inside = [str(part) for part in fault["loc"] if not str(part).startswith("<")]
    where = ".".join([place, *inside] if place else inside) or "policies"
    message = fault["msg"].removeprefix("Value error, ").replace("valid tuple", "valid list")
    return InvalidRequest(message.partition(" or instance of ")[0], field=where)


def _too_large(raw: object) -> str | None:
    """Why `raw` is not even looked at. Without recursion: whoever wrote it chose its depth."""
    todo: list[tuple[object, int]] = [(raw, 1)]
    compared = linked = items = 0
    while todo:
        item, level = todo.pop()
        if level > MAX_DEPTH * 2:
            return f"nested deeper than {MAX_DEPTH} levels; flatten it"
        if isinstance(item, dict):
            compared += "cmp" in item
            linked += "linkedAny" in item or "linked_any" in item
            inside: list[object] = list(item.values())
        elif isinstance(item, list | tuple):
            inside = list(item)
        else:
            continue
        items += len(inside)
        if items > MAX_ITEMS:
            return f"of more than {MAX_ITEMS:,} parts; write fewer, or shorter lists"
        todo.extend((child, level + 1) for child in inside)
    if compared > MAX_COMPARISONS:
        return f"more than {MAX_COMPARISONS} comparisons; write fewer, or one with a list"
    if linked > MAX_LINKED:
        return f"more than {MAX_LINKED} of linkedAny; join them"
    return None


def column_of(ref: str) -> str:
    """The field, or the system column, that a reference names."""
    return ref.partition(":")[2]


def dump(pred: Pred) -> JsonValue:
    """The JSON that spells `pred`, as `parse` takes it."""
    spelled: JsonValue = _predicate.dump_python(pred, mode="json")
    return spelled


def comparisons(pred: Pred) -> Iterator[Comparison]:
    """Every comparison of `pred` on rows of its own table, in order: none of a `linkedAny`."""
    match pred:
        case Cmp(cmp=comparison):
            yield comparison
        case All(all=parts) | Any_(any=parts):
            for part in parts:
                yield from comparisons(part)
        case Not(not_=inner):
            yield from comparisons(inner)
        case bool() | LinkedAny():
            return
        case _:
            assert_never(pred)


def links(pred: Pred) -> Iterator[Linked]:
    """Every `linkedAny` of `pred`, in order, but none inside of another."""
    match pred:
        case Cmp() | bool():
            return
        case LinkedAny(linked_any=linked):
            yield linked
        case All(all=parts) | Any_(any=parts):
            for part in parts:
                yield from links(part)
        case Not(not_=inner):
            yield from links(inner)
        case _:
            assert_never(pred)
