"""What is refused when policies are written, rather than stored to deny or to do nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import assert_never

from context_engine.errors import InvalidRequest
from context_engine.facts import FieldFacts
from context_engine.nearest import among
from context_engine.policy.constant import constant
from context_engine.policy.grammar import (
    Address,
    All,
    Any_,
    AttrLookup,
    Cmp,
    Comparison,
    LinkedAny,
    Literal_,
    Not,
    OfAttr,
    OfNow,
    OfUser,
    OnDay,
    Pred,
    RowPolicy,
    TablePolicies,
    column_of,
    comparisons,
    links,
)
from context_engine.policy.kinds import (
    AMONG,
    COLUMNS,
    EMPTY,
    HAS,
    ITEM,
    OPS,
    WANTED,
    Kind,
    chosen,
    kind_of,
    literal,
    of_user,
)
from context_engine.policy.resolving import FieldsOf
from context_engine.zones import UNKNOWN, zone_of

MAX_OF_TABLE = 2_000
"""Most comparisons in all policies of a table."""
MAX_SUBJECTS = 1_000
"""Most subjects of one policy."""


def check(policies: TablePolicies, table_id: str, fields_of: FieldsOf) -> TablePolicies:
    """The policies as they are stored: ids of users are texts, 1 becomes "1".

    `fields_of` gives the fields that the writer sees: `cardinality` of a user field says whether
    it holds one user or many, and a `ChoiceField` is compared with its choices alone. Raises
    `InvalidRequest` naming the place in the policies and the remedy. What is out of the writer's
    sight is refused as what is missing.
    """
    checked = []
    if sum(map(_compared, policies.policies)) > MAX_OF_TABLE:
        raise InvalidRequest(
            f"more than {MAX_OF_TABLE:,} comparisons in all; write fewer, or some with a list",
            field="policies",
        )
    for index, one in enumerate(policies.policies):
        if one.mode == "permissive" and policies.default == "show_all":
            raise InvalidRequest(
                "opens rows that show_all shows already, so it is without effect;"
                " use deny_all, or make it restrictive",
                field=f"policies.{index}.mode",
            )
        if len(one.subjects) > MAX_SUBJECTS:
            raise InvalidRequest(
                f"more than {MAX_SUBJECTS:,} subjects; name a team or a role",
                field=f"policies.{index}.subjects",
            )
        pred = check_predicate(one.pred, table_id, fields_of, f"policies.{index}.pred")
        if constant(pred) is (one.mode == "restrictive"):
            says = "true" if one.mode == "restrictive" else "false"
            raise InvalidRequest(
                f"is {says} of every row, so {one.mode} it is without effect; leave it out",
                field=f"policies.{index}.pred",
            )
        checked.append(one.model_copy(update={"pred": pred}))
    return policies.model_copy(update={"policies": tuple(checked)})


def _compared(policy: RowPolicy) -> int:
    todo, found = [policy.pred], 0
    while todo:
        pred = todo.pop()
        found += sum(1 for _ in comparisons(pred))
        todo.extend(linked.pred for linked in links(pred))
    return found


def check_predicate(pred: Pred, table_id: str, fields_of: FieldsOf, place: str = "pred") -> Pred:
    """One predicate over rows of `table_id`, found at `place`; as `check`."""
    return _Checker(fields_of).table(table_id).predicate(pred, place)


@dataclass(frozen=True, slots=True)
class _Checker:
    fields_of: FieldsOf
    fields: Mapping[str, FieldFacts] | None = None
    linked: bool = False
    """Whether these are rows that a link leads to."""

    def table(self, table_id: str, *, linked: bool = False) -> _Checker:
        return _Checker(self.fields_of, self.fields_of(table_id), linked)

    def predicate(self, pred: Pred, place: str) -> Pred:
        match pred:
            case bool():
                return pred
            case All(all=parts):
                return All(all=self._parts(parts, f"{place}.all"))
            case Any_(any=parts):
                return Any_(any=self._parts(parts, f"{place}.any"))
            case Not(not_=inner):
                return Not(not_=self.predicate(inner, f"{place}.not"))
            case Cmp(cmp=comparison):
                return Cmp(cmp=self._comparison(comparison, f"{place}.cmp"))
            case LinkedAny(linked_any=linked):
                within = self._linked_table(linked.field, f"{place}.linkedAny")
                inner = within.predicate(linked.pred, f"{place}.linkedAny.pred")
                return LinkedAny(linked_any=linked.model_copy(update={"pred": inner}))
            case _:
                assert_never(pred)

    def _parts(self, parts: Iterable[Pred], place: str) -> tuple[Pred, ...]:
        return tuple(self.predicate(part, f"{place}.{n}") for n, part in enumerate(parts))

    def _linked_table(self, field_id: str, place: str) -> _Checker:
        if self.linked:
            raise InvalidRequest("follows a second link; one is followed", field=place)
        field = self._field(field_id, f"{place}.field")
        if field.type != "link" or field.linked_table_id is None:
            raise InvalidRequest(
                f"{field_id!r} is a {field.type} field; name a link field", field=f"{place}.field"
            )
        there = self.table(field.linked_table_id, linked=True)
        if there.fields is None:
            raise InvalidRequest(
                f"{field_id!r} leads to no table here; name another link field",
                field=f"{place}.field",
            )
        return there

    def _field(self, field_id: str, place: str) -> FieldFacts:
        known = self.fields or {}
        if field_id not in known:
            raise InvalidRequest(
                f"the table has no such field, and a condition on a missing field denies all;"
                f" {among(field_id, known)}",
                field=place,
            )
        return known[field_id]

    # -- comparisons ---------------------------------------------------------------------------

    def _comparison(self, comparison: Comparison, place: str) -> Comparison:
        kind = self._kind(comparison.ref, f"{place}.ref")
        op, operand = comparison.op, comparison.operand
        if op not in OPS[kind]:
            raise InvalidRequest(
                f"{op!r} cannot be true of {comparison.ref!r}; use {', '.join(OPS[kind])}",
                field=f"{place}.op",
            )
        place = f"{place}.operand"
        match operand:
            case Literal_(literal=value):
                checked = Literal_(literal=literal(value, kind, op, f"{place}.literal"))
                if comparison.ref.startswith("field:"):
                    field = self._field(column_of(comparison.ref), f"{place}.ref")
                    chosen(field, op, checked.literal, f"{place}.literal")
                return comparison.model_copy(update={"operand": checked})
            case _ if op in EMPTY:
                raise InvalidRequest(f"{op} compares with nothing; leave it out", field=place)
            case OfUser(user=what):
                of_user(what, kind, op, place)
            case OfAttr(attr=lookup):
                self._lookup(lookup, kind, op, f"{place}.attr")
            case OfNow(now=now):
                if kind != "date":
                    raise InvalidRequest(
                        f"now is a day; {comparison.ref!r} wants {WANTED[kind]}", field=place
                    )
                if now.tz is not None and zone_of(now.tz) is None:
                    raise InvalidRequest(UNKNOWN, field=f"{place}.now.tz")
            case OnDay() | Address():
                raise InvalidRequest("use literal, user, attr or now", field=place)
            case _:
                assert_never(operand)
        return comparison

    def _kind(self, ref: str, place: str) -> Kind:
        name = column_of(ref)
        if not ref.startswith("field:"):
            return COLUMNS[name]
        field = self._field(name, place)
        kind = kind_of(field)
        if kind is None:
            remedy = "use linkedAny" if field.type == "link" else "name another field"
            raise InvalidRequest(
                f"{name!r} is a {field.type} field, whose cells are not compared; {remedy}",
                field=place,
            )
        return kind

    def _lookup(self, lookup: AttrLookup, kind: Kind, op: str, place: str) -> None:
        if op not in (*AMONG, *HAS):
            raise InvalidRequest(f"{op} compares with one value, and these are many", field=place)
        there = self.table(lookup.table)
        if there.fields is None:
            raise InvalidRequest("there is no such table; name another", field=f"{place}.table")
        key = kind_of(there._field(lookup.key_field, f"{place}.keyField"))
        if key not in ("text", "user", "list", "users"):
            raise InvalidRequest(
                "never holds a user or an address; name a user, e-mail or text field",
                field=f"{place}.keyField",
            )
        values = kind_of(there._field(lookup.value_field, f"{place}.valueField"))
        if values is None or ITEM[values] != ITEM[kind]:
            raise InvalidRequest(
                f"holds other values than {WANTED[kind]}; name another field",
                field=f"{place}.valueField",
            )
