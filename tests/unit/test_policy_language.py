"""The policy language: what parses, what it means for one user, and what it names."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_engine import policy
from context_engine.errors import InvalidRequest
from context_engine.facts import FieldFacts

NOON = datetime(2026, 1, 7, 12, tzinfo=UTC)
LOOKUP = policy.AttrLookup(table="staff", key_field="mail", value_field="region")
SUBJECTS = [{"type": "user", "id": "u"}]
ATTR = {"attr": {"table": "staff", "keyField": "mail", "valueField": "region"}}


def cmp(ref: str, op: str = "eq", operand: Any = None) -> Any:
    return {"cmp": {"ref": ref, "op": op, "operand": operand or {"literal": 1}}}


def linked(field: str, pred: Any) -> Any:
    return {"linkedAny": {"field": field, "pred": pred}}


def operands(**more: Any) -> policy.UserOperands:
    given = {"id": "u", "email_norm": "a@x", "team_ids": ("g", "h"), "now": NOON}
    return policy.UserOperands(**(given | more))


def resolve(pred: policy.Pred, operands: policy.UserOperands) -> policy.Pred:
    return policy.resolve(pred, operands, FIELDS.get, "t")


# -- parsing -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "place"),
    [
        ("true", "pred"),
        (1, "pred"),
        (None, "pred"),
        ([True], "pred"),
        ({}, "pred"),
        ({"all": [], "any": []}, "pred.any"),
        ({"all": True}, "pred.all"),
        ({"all": [True, {"not": "no"}]}, "pred.all.1.not"),
        ({"any": [{"cmp": {"ref": "field:f", "op": "like"}}]}, "pred.any.0.cmp.op"),
        (cmp("f"), "pred.cmp.ref"),
        (cmp("sys:deleted_at"), "pred.cmp.ref"),
        (cmp("field:f", operand={"user": "name"}), "pred.cmp.operand.user"),
        (cmp("field:f", operand={"value": 1}), "pred.cmp.operand"),
        (cmp("field:f", operand={"day": "2026-01-01", "tz": "UTC"}), "pred.cmp.operand"),
        (cmp("field:f", operand={"now": {"unit": "year"}}), "pred.cmp.operand.now.unit"),
        (cmp("field:f", operand={"literal": [1e400]}), "pred.cmp.operand.literal"),
        (cmp("field:f", operand={"literal": 10**1100}), "pred.cmp.operand.literal"),
        (cmp("field:f", operand={"literal": "a\x00"}), "pred.cmp.operand.literal"),
        (cmp("field:f", operand={"literal": {"\ud800": 1}}), "pred.cmp.operand.literal"),
        (cmp("field:f", operand={"attr": {"table": "t"}}), "pred.cmp.operand.attr.keyField"),
        (linked("l", {"all": [{"?": 1}]}), "pred.linkedAny.pred.all.0"),
        ({"linkedAny": {"pred": True}}, "pred.linkedAny.field"),
    ],
)
def test_what_is_no_predicate_is_refused_at_its_place(raw: Any, place: str) -> None:
    """As it was written, without names of our own; a text is never true."""
    with pytest.raises(InvalidRequest) as refused:
        policy.parse(raw)
    assert refused.value.field == place


def nested(depth: int, kind: str) -> Any:
    pred: Any = True
    for _ in range(depth):
        pred = {"not": pred} if kind == "not" else linked("l", pred) if kind else {"all": [pred]}
    return pred


@pytest.mark.parametrize("kind", ["not", "linked", ""])
@pytest.mark.parametrize("depth", [40, 5_000, 200_000])
def test_nesting_is_bounded_before_anything_recurses(depth: int, kind: str) -> None:
    """However deep what is stored is."""
    raw = nested(depth, kind)
    with pytest.raises(InvalidRequest, match="flatten"):
        policy.parse(raw)
    with pytest.raises(InvalidRequest, match="flatten") as refused:
        policy.parse_policies(
            {"policies": [{"subjects": SUBJECTS, "pred": raw, "mode": "permissive"}]}
        )
    assert refused.value.field == "policies.0.pred"


def test_breadth_is_bounded() -> None:
    """A statement takes so many bind parameters, and a list takes one."""
    at_most = {"any": [cmp("field:f")] * policy.MAX_COMPARISONS}
    assert policy.parse(at_most)
    with pytest.raises(InvalidRequest, match="comparisons"):
        policy.parse({"not": {"any": [*at_most["any"], cmp("field:f")]}})
    assert policy.parse(cmp("field:f", "in", {"literal": list(range(19_990))}))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["all", "any", "not", "cmp", "linkedAny", "ref", "op", "operand", "literal", "user",
                 "attr", "now", "field", "pred", "unit", "tz", "x"]
            ),
            inner | st.sampled_from(["field:f", "sys:created_at", "eq", "in", "id", "today"]),
            max_size=3,
        )
    ),
    max_leaves=12,
)  # fmt: skip


@given(raw=json_values)
@settings(max_examples=500)
def test_garbage_is_refused_or_unresolvable_and_nothing_else(raw: Any) -> None:
    """Whatever JSON is stored: parsed, looked through and resolved, or denied."""
    for one in (raw, {"all": [raw, True]}, linked("l", raw), cmp("field:f", "eq", raw)):
        try:
            pred = policy.parse(one)
            policy.lacking(pred, lambda table: {}, "t")
            policy.attributes(pred)
            resolve(pred, operands())
            policy.until(pred, operands())
            policy.reads(pred, "t", lambda field: "t")
        except (InvalidRequest, policy.Unresolvable):
            continue
        assert json.loads(json.dumps(policy.Not(not_=pred).model_dump(mode="json")))


# -- resolving ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operand", "literal"),
    [
        ({"literal": [1, None]}, [1, None]),
        ({"user": "id"}, "u"),
        ({"user": "team_ids"}, ["g", "h"]),
        (ATTR, ["north", 2]),
    ],
)
def test_operands_become_literals(operand: Any, literal: Any) -> None:
    """In linked rows and under `not` as everywhere."""
    who = operands(attributes={LOOKUP: ("north", 2)})
    raw = {
        "all": [{"not": cmp("field:f", "in", operand)}, linked("l", cmp("field:g", "in", operand))]
    }
    wanted = json.dumps({"literal": literal})
    resolved = resolve(policy.parse(raw), who)
    assert isinstance(resolved, policy.All)
    assert json.dumps(resolved.model_dump(mode="json")).count(f'"operand": {wanted}') == 2


@pytest.mark.parametrize("email", ["a@x", " A@X\t"])
def test_an_address_is_more_than_a_text(email: str) -> None:
    """What is compared with it counts as an address; it is normal, however it was stored."""
    resolved = resolve(
        policy.parse(cmp("field:f", "eq", {"user": "email_norm"})), operands(email_norm=email)
    )
    assert [c.operand for c in policy.comparisons(resolved)] == [policy.Address(address="a@x")]
    assert resolve(resolved, operands()) == resolved


@pytest.mark.parametrize("email", [None, "", " \n"])
def test_who_has_no_address_is_denied(email: str | None) -> None:
    """As a null it would hold for nobody, and under `not` for everybody."""
    for op in ("eq", "ne"):
        pred = policy.parse({"not": cmp("field:f", op, {"user": "email_norm"})})
        with pytest.raises(policy.Unresolvable):
            resolve(pred, operands(email_norm=email))


@pytest.mark.parametrize("op", ["empty", "not_empty"])
def test_what_compares_with_nothing_asks_for_nothing(op: str) -> None:
    """Whatever operand stands beside it."""
    for operand in (ATTR, {"user": "email_norm"}, {"now": {"unit": "today", "tz": "Mars/Base"}}):
        pred = policy.parse(cmp("field:f", op, operand))
        assert policy.attributes(pred) == frozenset()
        assert policy.until(pred, operands()) is None
        resolved = resolve(pred, operands(email_norm=None))
        assert [c.operand for c in policy.comparisons(resolved)] == [policy.Literal_(literal=None)]


@pytest.mark.parametrize(
    "raw",
    [
        cmp("field:f", "in", ATTR),
        linked("l", cmp("field:f", "in", ATTR)),
        {"any": [True, {"not": linked("l", linked("m", True))}]},
        cmp("field:f", "in", {"now": {"unit": "today"}}),
        cmp("field:f", "text_contains", {"now": {"unit": "today"}}),
        cmp("field:f", "eq", {"now": {"unit": "today", "tz": "Mars/Base"}}),
    ],
)
def test_what_cannot_be_decided_is_unresolvable(raw: Any) -> None:
    """A lookup without values known, a second link, a day where none compares."""
    with pytest.raises(policy.Unresolvable):
        resolve(policy.parse(raw), operands())


def test_a_lookup_without_values_is_an_empty_list() -> None:
    """It was made and found nothing: that is known."""
    resolved = resolve(policy.parse(cmp("field:f", "in", ATTR)), operands(attributes={LOOKUP: ()}))
    assert [c.operand for c in policy.comparisons(resolved)] == [policy.Literal_(literal=[])]


# -- naming ------------------------------------------------------------------------------------


def field(id: str, type: str = "text", to: str | None = None) -> FieldFacts:
    return FieldFacts(id=id, name=id, type=type, primary=False, linked_table_id=to)


FIELDS = {
    "t": {f.id: f for f in (field("f"), field("l", "link", "x"), field("far", "link", "gone"))},
    "x": {"g": field("g")},
    "staff": {f.id: f for f in (field("mail"), field("region"))},
}
EVERY = {
    "all": [
        cmp("field:f"),
        {"not": cmp("sys:created_at", "lt", {"now": {"unit": "today"}})},
        linked("l", {"any": [cmp("field:g", "in", ATTR), cmp("sys:updated_by")]}),
    ]
}


def test_every_cell_that_decides_is_told() -> None:
    """Own cells, the link, cells and columns of linked rows, keys and values of lookups."""
    pred = policy.parse(EVERY)
    own = {("t", None), ("t", "f"), ("t", "created_at"), ("t", "l")}
    far = {("x", None), ("x", "g"), ("x", "updated_by")}
    assert policy.reads(pred, "t", {"l": "x"}.get) == own | far | {
        ("staff", "mail"), ("staff", "region"),
    }  # fmt: skip
    assert policy.reads(policy.parse(linked("l", True)), "t", {"l": "x"}.get) == {
        ("t", None), ("t", "l"), ("x", None),
    }  # fmt: skip
    assert policy.fields_read(pred) == {"f", "l"}
    assert policy.refs_read(pred) == {"field:f", "sys:created_at"}
    assert policy.attributes(pred) == {LOOKUP}


@pytest.mark.parametrize("raw", [linked("?", True), linked("l", linked("l", True))])
def test_a_link_that_leads_nowhere_is_unresolvable(raw: Any) -> None:
    """As is a second one."""
    with pytest.raises(policy.Unresolvable):
        policy.reads(policy.parse(raw), "t", {"l": "x"}.get)


@pytest.mark.parametrize(
    ("raw", "gone"),
    [
        (EVERY, None),
        ({"any": [True, {"not": cmp("field:gone")}]}, "field 'gone'"),
        (linked("gone", True), "link field 'gone'"),
        (linked("f", True), "link field 'f'"),
        (linked("far", True), "table 'gone'"),
        (linked("l", cmp("field:f")), "field 'f'"),
        (cmp("field:f", "in", {"attr": {**ATTR["attr"], "keyField": "no"}}), "field 'no'"),
        (cmp("field:f", "in", {"attr": {**ATTR["attr"], "table": "elsewhere"}}), None),
        (cmp("sys:created_by"), None),
    ],
)
def test_the_first_thing_that_is_not_there(raw: Any, gone: str | None) -> None:
    """Fields, links, their tables; of lookups only where the table is known."""
    assert policy.lacking(policy.parse(raw), FIELDS.get, "t") == gone


@pytest.mark.parametrize(("link", "table"), [("l", "x"), ("far", None), ("none", None)])
def test_a_link_is_resolved_with_the_table_that_it_leads_to(link: str, table: str | None) -> None:
    """Where there is one: along any other no row is found."""
    made = resolve(policy.parse(linked(link, True)), operands())
    wanted = {"field": link, "pred": True} | ({} if table is None else {"table": table})
    model = policy.Linked if table is None else policy.LinkedIn
    assert made == policy.LinkedAny(linked_any=model.model_validate(wanted))


def test_without_its_table_everything_lacks() -> None:
    """Even for a predicate that names nothing."""
    assert policy.lacking(True, FIELDS.get, "nowhere") == "table 'nowhere'"
