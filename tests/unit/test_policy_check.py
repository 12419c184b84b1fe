"""What is refused when a policy is written: operators, operands and names that do not fit."""

from __future__ import annotations

from typing import Any

import pytest

from context_engine import policy
from context_engine.errors import InvalidRequest
from context_engine.facts import FieldFacts

TODAY = {"now": {"unit": "today"}}
DATED = {"literal": "2026-01-31"}


def field(id: str, type: str, **more: Any) -> FieldFacts:
    return FieldFacts(id=id, name=id, type=type, primary=False, **more)


TEXTS = ("text", "long_text", "email", "url", "phone", "select")
OWN = [
    *(field(type, type) for type in TEXTS),
    *(field(type, type) for type in ("number", "rating", "boolean", "date", "datetime")),
    *(field(type, type) for type in ("multi_select", "formula", "count", "lookup", "file")),
    field("user", "user", cardinality="one"),
    field("users", "user", cardinality="many"),
    field("link", "link", linked_table_id="far"),
    field("hidden", "link", linked_table_id="nowhere"),
]
FIELDS = {
    "t": {one.id: one for one in OWN},
    "far": {"name": field("name", "text"), "on": field("on", "link", linked_table_id="t")},
    "staff": {
        one.id: one
        for one in (
            field("mail", "email"), field("who", "user", cardinality="many"),
            field("region", "text"), field("level", "number"), field("regions", "multi_select"),
            field("made", "formula"), field("ok", "boolean"),
        )
    },
}  # fmt: skip


STATE = policy.ChoiceField(
    id="state", name="State", type="select", primary=False, choices=("open", "done")
)
TAGS = policy.ChoiceField(
    id="tags", name="Tags", type="multi_select", primary=False, choices=("a", "b")
)


def cmp(ref: str, op: str, operand: Any = None) -> Any:
    one: dict[str, Any] = {"ref": ref if ":" in ref else f"field:{ref}", "op": op}
    return {"cmp": one if operand is None else {**one, "operand": operand}}


def attr(value: str = "region", key: str = "mail", table: str = "staff") -> Any:
    return {"attr": {"table": table, "keyField": key, "valueField": value}}


def checked(pred: Any, **more: Any) -> policy.TablePolicies:
    one = {"subjects": [{"type": "user", "id": "u"}], "pred": pred, "mode": "restrictive"}
    raw: Any = {"policies": [{**one, "pred": False}, {**one, **more}]}
    return policy.check(policy.parse_policies(raw), "t", FIELDS.get)


COLUMNS = ("sys:created_by", "sys:updated_by", "user", *TEXTS)
FITS = [
    *(
        cmp(ref, op, operand)
        for ref in COLUMNS
        for op, operand in (
            ("eq", {"literal": "a"}), ("ne", {"user": "id"}), ("text_contains", {"literal": ""}),
            ("gte", {"user": "email_norm"}), ("in", {"literal": ["a", "b"]}),
            ("in", {"literal": []}),
            ("not_in", {"user": "team_ids"}), ("in", attr()), ("in", attr("regions", "who")),
            ("empty", None), ("not_empty", None), ("lt", {"literal": "b"}),
        )
    ),
    *(
        cmp(ref, op, operand)
        for ref in ("number", "rating")
        for op, operand in (
            ("eq", {"literal": 1}), ("ne", {"literal": 1.5}), ("in", {"literal": [1, 2**70]}),
            ("lte", {"literal": -1}), ("not_in", attr("level")), ("empty", None),
        )
    ),
    *(cmp("boolean", op, {"literal": True}) for op in ("eq", "ne")),
    cmp("boolean", "not_empty"),
    *(
        cmp(ref, op, operand)
        for ref in ("date", "datetime", "sys:created_at")
        for op in ("eq", "ne", "lt", "lte", "gt", "gte")
        for operand in (TODAY, DATED, {"now": {"unit": "week", "tz": "Pacific/Apia"}})
    ),
    cmp("date", "empty"),
    *(
        cmp(ref, op, operand)
        for ref in ("multi_select", "users")
        for op in ("has_any", "has_all", "has_none")
        for operand in ({"literal": ["a"]}, {"literal": "a"}, {"user": "id"}, {"user": "team_ids"},
                        attr())
    ),
    {"linkedAny": {"field": "link", "pred": {"not": cmp("name", "eq", {"literal": "a"})}}},
    {"linkedAny": {"field": "link", "pred": True}},
]  # fmt: skip


@pytest.mark.parametrize("pred", FITS, ids=str)
def test_what_can_be_true_is_kept(pred: Any) -> None:
    """As it was written."""
    assert checked(pred).policies[1].pred == policy.parse(pred)


REFUSED = [
    (cmp("text", "has_any", {"literal": "a"}), "cmp.op", "use eq, ne, in"),
    (cmp("number", "text_contains", {"literal": "1"}), "cmp.op", "use eq"),
    (cmp("boolean", "lt", {"literal": True}), "cmp.op", "use eq, ne, empty"),
    (cmp("date", "in", {"literal": ["2026-01-31"]}), "cmp.op", "use eq"),
    (cmp("multi_select", "eq", {"literal": "a"}), "cmp.op", "use has_any"),
    (cmp("users", "in", {"literal": ["a"]}), "cmp.op", "use has_any"),
    (cmp("user", "has_any", {"user": "id"}), "cmp.op", "use eq"),
    (cmp("link", "not_empty"), "cmp.ref", "use linkedAny"),
    *((cmp(type, "not_empty"), "cmp.ref", "not compared") for type in ("formula", "count", "file")),
    (cmp("gone", "empty"), "cmp.ref", "no such field"),
    (cmp("number", "eq", {"literal": "1"}), "cmp.operand.literal", "write a number"),
    (cmp("number", "eq", {"literal": True}), "cmp.operand.literal", "write a number"),
    (cmp("number", "eq", {"user": "id"}), "cmp.operand", "use a number"),
    (cmp("number", "in", {"literal": [1, "2"]}), "cmp.operand.literal.1", "write a number"),
    (cmp("number", "in", attr("region")), "cmp.operand.attr.valueField", "other values"),
    (cmp("text", "in", attr("level")), "cmp.operand.attr.valueField", "other values"),
    (cmp("text", "in", attr("made")), "cmp.operand.attr.valueField", "other values"),
    (cmp("text", "in", attr("gone")), "cmp.operand.attr.valueField", "no such field"),
    (cmp("text", "in", attr(key="gone")), "cmp.operand.attr.keyField", "no such field"),
    (cmp("text", "in", attr(key="ok")), "cmp.operand.attr.keyField", "never holds"),
    (cmp("text", "in", attr(table="gone")), "cmp.operand.attr.table", "no such table"),
    (cmp("text", "eq", attr()), "cmp.operand.attr", "these are many"),
    (cmp("text", "eq", {"user": "team_ids"}), "cmp.operand", "teams are many"),
    (cmp("text", "in", {"user": "id"}), "cmp.operand", "use eq"),
    (cmp("text", "in", {"literal": "a"}), "cmp.operand.literal", "wants a list"),
    (cmp("text", "eq", {"literal": 1}), "cmp.operand.literal", "write a text"),
    (cmp("text", "eq", {"literal": ["a"]}), "cmp.operand.literal", "write a text"),
    (cmp("text", "eq"), "cmp.operand.literal", "use empty or not_empty"),
    (cmp("text", "in", {"literal": ["a", None]}), "cmp.operand.literal.1", "use empty"),
    (cmp("text", "empty", {"literal": "a"}), "cmp.operand.literal", "leave it out"),
    (cmp("text", "empty", {"user": "id"}), "cmp.operand", "leave it out"),
    (cmp("text", "eq", TODAY), "cmp.operand", "now is a day"),
    (cmp("user", "eq", {"literal": True}), "cmp.operand.literal", "id of a user"),
    (cmp("boolean", "eq", {"literal": 1}), "cmp.operand.literal", "true or false"),
    (cmp("date", "eq", {"user": "id"}), "cmp.operand", "use a day"),
    *(
        (cmp("date", "lt", {"literal": day}), "cmp.operand.literal", "YYYY-MM-DD")
        for day in ("2026-02-30", "20260131", "today", "2026-01-31T10:00:00Z", 5)
    ),
    (cmp("date", "eq", {"now": {"unit": "today", "tz": "Mars/Base"}}), "now.tz", "IANA name"),
    ({"linkedAny": {"field": "gone", "pred": True}}, "linkedAny.field", "no such field"),
    ({"linkedAny": {"field": "text", "pred": True}}, "linkedAny.field", "name a link field"),
    ({"linkedAny": {"field": "hidden", "pred": True}}, "linkedAny.field", "no table here"),
    (
        {"linkedAny": {"field": "link", "pred": cmp("text", "empty")}},
        "linkedAny.pred.cmp.ref",
        "no",
    ),
    (
        {"linkedAny": {"field": "link", "pred": {"linkedAny": {"field": "on", "pred": True}}}},
        "linkedAny.pred.linkedAny",
        "a second link",
    ),
]


@pytest.mark.parametrize(("pred", "place", "says"), REFUSED, ids=str)
def test_what_cannot_be_true_is_refused_at_its_place(pred: Any, place: str, says: str) -> None:
    """Wherever it stands; the message says what to write."""
    for raw, above in ((pred, ""), ({"all": [True, {"not": pred}]}, "all.1.not.")):
        with pytest.raises(InvalidRequest, match=says) as refused:
            checked(raw)
        assert refused.value.field is not None
        assert refused.value.field.startswith(f"policies.1.pred.{above}")
        assert refused.value.field.endswith(place)


def test_ids_of_users_become_texts() -> None:
    """1 and "1" are one person; a number elsewhere stays what it is."""
    pred = {
        "all": [
            cmp("user", "eq", {"literal": 1}),
            cmp("sys:created_by", "in", {"literal": [1, "2"]}),
            cmp("users", "has_any", {"literal": [3]}),
            cmp("number", "eq", {"literal": 4}),
        ]
    }
    literals = [c.operand for c in policy.comparisons(checked(pred).policies[1].pred)]
    assert literals == [policy.Literal_(literal=one) for one in ("1", ["1", "2"], ["3"], 4)]


def test_a_permissive_policy_wants_rows_to_open() -> None:
    """`show_all` shows all; under `deny_all` it opens."""
    with pytest.raises(InvalidRequest, match="without effect") as refused:
        checked(True, mode="permissive")
    assert refused.value.field == "policies.1.mode"


NOTHING: dict[str, Any] = {"literal": []}
ALWAYS = [
    True,
    {"all": []},
    {"not": {"any": [False, {"all": [cmp("text", "empty"), False]}]}},
    {"any": [cmp("text", "empty"), True]},
    cmp("text", "not_in", NOTHING),
    cmp("multi_select", "has_none", NOTHING),
    *({"not": cmp("multi_select", op, NOTHING)} for op in ("has_any", "has_all")),
    {"not": {"linkedAny": {"field": "link", "pred": {"any": []}}}},
]


@pytest.mark.parametrize("always", ALWAYS, ids=str)
def test_what_is_the_same_of_every_row_closes_or_opens_or_is_refused(always: Any) -> None:
    """However it is said: who closes nothing, or opens nothing, has written something else than
    was meant."""
    for pred, mode, effect in (
        (always, "restrictive", False),
        ({"not": always}, "restrictive", True),
        (always, "permissive", True),
        ({"not": always}, "permissive", False),
    ):
        one: Any = {"subjects": [{"type": "user", "id": "u"}], "pred": pred, "mode": mode}
        default = "deny_all" if mode == "permissive" else "show_all"
        parsed = policy.parse_policies({"default": default, "policies": [one]})
        if effect:
            assert policy.check(parsed, "t", FIELDS.get).policies[0].mode == mode
            continue
        says = "true" if mode == "restrictive" else "false"
        with pytest.raises(
            InvalidRequest, match=f": is {says} of every row, so {mode} it"
        ) as refused:
            policy.check(parsed, "t", FIELDS.get)
        assert refused.value.field == "policies.0.pred"


@pytest.mark.parametrize(
    "pred",
    [
        {"all": [True, cmp("text", "empty")]},
        {"any": [False, cmp("text", "empty")]},
        {"not": cmp("text", "empty")},
        {"linkedAny": {"field": "link", "pred": True}},
        cmp("text", "in", {"literal": ["a"]}),
        cmp("text", "empty"),
    ],
    ids=str,
)
def test_what_depends_on_the_row_is_written_either_way(pred: Any) -> None:
    for one in (pred, {"not": pred}):
        assert checked(one).policies[1].pred == policy.parse(one)


def test_what_is_out_of_sight_is_not_suggested() -> None:
    """The message names fields that the writer sees, and no others."""
    with pytest.raises(InvalidRequest) as refused:
        checked({"linkedAny": {"field": "link", "pred": cmp("nam", "empty")}})
    assert '"name"' in refused.value.message
    assert "region" not in refused.value.message


@pytest.mark.parametrize(
    ("pred", "place"),
    [
        (cmp("state", "eq", {"literal": "x"}), "literal"),
        (cmp("state", "ne", {"literal": "Open"}), "literal"),
        (cmp("state", "in", {"literal": ["open", "x"]}), "literal.1"),
        (cmp("state", "not_in", {"literal": ["x"]}), "literal.0"),
        (cmp("tags", "has_any", {"literal": ["a", "b", "x"]}), "literal.2"),
        (cmp("tags", "has_all", {"literal": "x"}), "literal"),
        (cmp("tags", "has_none", {"literal": ["x"]}), "literal.0"),
    ],
)
def test_a_choice_that_is_none_is_refused(pred: Any, place: str) -> None:
    """At its place, with the choices that there are."""
    fields = {"t": {"state": STATE, "tags": TAGS}}
    with pytest.raises(InvalidRequest, match=r"no such choice; .*there are") as refused:
        policy.check_predicate(policy.parse(pred), "t", fields.get)
    assert refused.value.field == f"pred.cmp.operand.{place}"


def test_the_choice_that_was_meant_is_suggested() -> None:
    pred = policy.parse(cmp("state", "eq", {"literal": "opn"}))
    with pytest.raises(InvalidRequest, match=r'no such choice; did you mean "open"[?] there'):
        policy.check_predicate(pred, "t", {"t": {"state": STATE}}.get)


@pytest.mark.parametrize(
    "pred",
    [
        *(cmp("state", op, {"literal": one}) for op in ("eq", "ne") for one in STATE.choices),
        *(cmp("state", op, {"literal": ["done"]}) for op in ("in", "not_in")),
        *(cmp("state", op, {"literal": "x"}) for op in ("lt", "lte", "gt", "gte")),
        cmp("state", "text_contains", {"literal": "x"}), cmp("state", "in", {"literal": []}),
        cmp("state", "empty"), cmp("state", "eq", {"user": "id"}),
        *(cmp("tags", op, {"literal": ["a", "b"]}) for op in ("has_any", "has_all", "has_none")),
        cmp("tags", "has_any", {"literal": "a"}), cmp("tags", "not_empty"),
        cmp("sys:created_by", "eq", {"literal": "x"}),
    ],
)  # fmt: skip
def test_what_is_no_choice_by_itself_is_free(pred: Any) -> None:
    """A part of one, an order among them, and what is known only when somebody asks."""
    parsed = policy.parse(pred)
    fields = {"t": {"state": STATE, "tags": TAGS}}
    assert policy.check_predicate(parsed, "t", fields.get) == parsed


def test_a_policy_names_so_many_subjects() -> None:
    def named(many: int) -> policy.TablePolicies:
        return checked(False, subjects=[{"type": "user", "id": f"u{n}"} for n in range(many)])

    assert len(named(1_000).policies[1].subjects) == 1_000
    with pytest.raises(InvalidRequest, match="more than 1,000 subjects; name a team") as refused:
        named(1_001)
    assert refused.value.field == "policies.1.subjects"
