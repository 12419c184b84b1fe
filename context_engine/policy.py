"""The row policy language: its grammar, its parser, and the resolving of what it says of a user.

    pred    := all[..] | any[..] | not p | true | false | cmp(ref, op, operand) | linked_any(f, p)
    ref     := field:<id> | sys:created_by | sys:updated_by | sys:created_at
    operand := literal | user.id | user.email_norm | user.team_ids | user.attr(..) | now(..)

As JSON: `{"all": [..]}`, `{"any": [..]}`, `{"not": p}`, `true`, `false`,
`{"cmp": {"ref": .., "op": .., "operand": ..}}`, `{"linkedAny": {"field": .., "pred": ..}}`;
an operand is `{"literal": ..}`, `{"user": "id" | "email_norm" | "team_ids"}`,
`{"attr": {..}}` or `{"now": {..}}`.

The whole grammar parses, so that what is stored never has to be migrated. What this version
cannot resolve is refused when written (`check_supported`) and denies when met in storage.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, assert_never

from pydantic import ConfigDict, Field, JsonValue, TypeAdapter, ValidationError

from context_engine.errors import InvalidRequest
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


class Node(Contract):
    """A part of the grammar: unlike messages, it refuses what it does not know."""

    model_config = ConfigDict(extra="forbid")


class Literal_(Node):
    literal: JsonValue


class OfUser(Node):
    user: Literal["id", "email_norm", "team_ids"]


class AttrLookup(Node):
    table: Id
    key_field: Id
    value_field: Id


class OfAttr(Node):
    attr: AttrLookup


class Now(Node):
    unit: Literal["today", "week"]
    tz: str | None = None


class OfNow(Node):
    now: Now


Operand = Literal_ | OfUser | OfAttr | OfNow


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


class LinkedAny(Node):
    linked_any: Linked


Pred = bool | All | Any_ | Not | Cmp | LinkedAny

for _model in (All, Any_, Not, Linked, LinkedAny):
    _model.model_rebuild()
_predicate: TypeAdapter[Pred] = TypeAdapter(Pred)


class PolicySubject(Node):
    type: Literal["role", "team", "user"]
    id: Id


class RowPolicy(Node):
    """One policy of a table: whom it names, what it demands, and whether it opens or closes."""

    subjects: tuple[PolicySubject, ...] = Field(min_length=1)
    pred: Pred
    mode: Literal["permissive", "restrictive"]


class TablePolicies(Node):
    """A table's default and its policies. Default `show_all` with permissive ones is refused."""

    default: Literal["show_all", "deny_all"] = "show_all"
    policies: tuple[RowPolicy, ...] = ()


def parse(raw: JsonValue) -> Pred:
    """The predicate that `raw` spells. Raises `InvalidRequest` naming the place."""
    if _too_deep(raw):
        raise InvalidRequest(f"nested deeper than {MAX_DEPTH} levels; flatten it", field="pred")
    try:
        return _predicate.validate_python(raw, strict=False)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in ("pred", *fault["loc"]))
        raise InvalidRequest(f"not a predicate ({fault['msg']})", field=place) from error


def _too_deep(raw: JsonValue) -> bool:
    todo: list[tuple[JsonValue, int]] = [(raw, 1)]
    while todo:
        item, level = todo.pop()
        if level > MAX_DEPTH * 2:
            return True
        if isinstance(item, dict):
            todo.extend((child, level + 1) for child in item.values())
        elif isinstance(item, list):
            todo.extend((child, level + 1) for child in item)
    return False


def comparisons(pred: Pred) -> Iterator[Comparison]:
    """Every comparison in `pred`, in order."""
    match pred:
        case bool():
            return
        case All(all=parts) | Any_(any=parts):
            for part in parts:
                yield from comparisons(part)
        case Not(not_=inner):
            yield from comparisons(inner)
        case Cmp(cmp=comparison):
            yield comparison
        case LinkedAny(linked_any=linked):
            yield from comparisons(linked.pred)
        case _:
            assert_never(pred)


def fields_read(pred: Pred) -> frozenset[str]:
    """Ids of the fields of the policy's own table whose cells `pred` reads."""
    return frozenset(
        c.ref.removeprefix("field:") for c in comparisons(pred) if c.ref.startswith("field:")
    )


def refs_read(pred: Pred) -> frozenset[str]:
    return frozenset(c.ref for c in comparisons(pred))


class Unresolvable(Exception):
    """The predicate says something that this version cannot decide; whoever asks denies."""


def resolve(pred: Pred, user: UserOperands) -> Pred:
    """`pred` with every operand replaced by the literal it means for `user`.

    Raises `Unresolvable` for `linked_any`, `user.attr` and `now`.
    """
    match pred:
        case bool():
            return pred
        case All(all=parts):
            return All(all=tuple(resolve(part, user) for part in parts))
        case Any_(any=parts):
            return Any_(any=tuple(resolve(part, user) for part in parts))
        case Not(not_=inner):
            return Not(not_=resolve(inner, user))
        case Cmp(cmp=c):
            return Cmp(cmp=c.model_copy(update={"operand": _literal(c.operand, user)}))
        case LinkedAny():
            raise Unresolvable("linked_any")
        case _:
            assert_never(pred)


class UserOperands(Node):
    """What a policy may ask of the user."""

    id: Id
    email_norm: str | None = None
    team_ids: tuple[Id, ...] = ()


def _literal(operand: Operand, user: UserOperands) -> Literal_:
    match operand:
        case Literal_():
            return operand
        case OfUser(user="id"):
            return Literal_(literal=user.id)
        case OfUser(user="email_norm"):
            return Literal_(literal=user.email_norm)
        case OfUser():
            return Literal_(literal=list(user.team_ids))
        case OfAttr():
            raise Unresolvable("user.attr")
        case OfNow():
            raise Unresolvable("now")
        case _:
            assert_never(operand)


def check_supported(policy: RowPolicy) -> None:
    """Refuses what this version would store and not enforce. Raises `InvalidRequest`.

    Supported: `all`, `any`, `true`, `false`, and comparisons of `sys:created_by` or a field
    with `user.id` by `eq` (one user) or `has_any` (several): the "own rows" policies.
    """
    _check(policy.pred, "pred")


def _check(pred: Pred, place: str) -> None:
    match pred:
        case bool():
            return
        case All(all=parts):
            for index, part in enumerate(parts):
                _check(part, f"{place}.all.{index}")
        case Any_(any=parts):
            for index, part in enumerate(parts):
                _check(part, f"{place}.any.{index}")
        case Cmp(cmp=c):
            own = c.operand == OfUser(user="id") and c.op in {"eq", "has_any"}
            if not own or c.ref in {"sys:updated_by", "sys:created_at"}:
                raise InvalidRequest(
                    "only sys:created_by or a field, by eq or has_any, with user.id"
                    " can be enforced yet",
                    field=f"{place}.cmp",
                )
        case Not() | LinkedAny():
            raise InvalidRequest("this predicate cannot be enforced yet", field=place)
        case _:
            assert_never(pred)
