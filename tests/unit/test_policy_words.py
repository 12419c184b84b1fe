"""What is said to whoever writes a policy that is refused: the whole of it, at its place.

And the corners of the language that no message speaks of.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest

from context_engine import policy
from context_engine.errors import InvalidRequest
from context_engine.facts import FieldFacts
from context_engine.policy.checking import MAX_OF_TABLE

NOON = datetime(2026, 1, 7, 12, tzinfo=UTC)


def field(id: str, type: str = "text", **more: Any) -> FieldFacts:
    return FieldFacts(id=id, name=id, type=type, primary=False, **more)


FIELDS = {
    "t": {
        one.id: one
        for one in (
            field("name"), field("age", "number"), field("ok", "boolean"), field("on", "date"),
            field("tags", "multi_select"), field("sum", "formula"),
            field("who", "user", cardinality="one"), field("l", "link", linked_table_id="x"),
            field("lost", "link", linked_table_id="gone"), field("bare", "link"),
            field("odd", "text", linked_table_id="x"),
        )
    },
    "x": {"g": field("g"), "m": field("m", "link", linked_table_id="t"),
          "who": field("who", "user", cardinality="many")},
}  # fmt: skip


def cmp(ref: str, op: str = "eq", **operand: Any) -> Any:
    one: dict[str, Any] = {"ref": ref if ":" in ref else f"field:{ref}", "op": op}
    return {"cmp": {**one, "operand": operand} if operand else one}


def linked(field_id: str, pred: Any = True) -> Any:
    return {"linkedAny": {"field": field_id, "pred": pred}}


def attr(table: str = "x", key: str = "who", value: str = "g") -> Any:
    return {"table": table, "keyField": key, "valueField": value}


def said(raw: Any) -> str:
    """What a predicate is refused with, when it is written alone."""
    with pytest.raises(InvalidRequest) as refused:
        policy.check_predicate(policy.parse(raw), "t", FIELDS.get)
    assert refused.value.field is not None
    assert refused.value.message.startswith(f"{refused.value.field}: ")
    return refused.value.message


# -- written -----------------------------------------------------------------------------------

NO_FIELD = "the table has no such field, and a condition on a missing field denies all; "


def resolved(pred: policy.Pred, who: policy.UserOperands | None = None) -> policy.Pred:
    """Over a table of which no field matters: none holds times."""
    return policy.resolve(pred, who or WHO, lambda _: {}, "t")


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (cmp("age", "has_any", literal=1),
         "pred.cmp.op: 'has_any' cannot be true of 'field:age';"
         " use eq, ne, in, not_in, lt, lte, gt, gte, empty, not_empty"),
        (cmp("nam", literal="a"),
         f'pred.cmp.ref: {NO_FIELD}did you mean "name"? there are "name", "age", "ok", "on",'
         ' "tags", "sum", "who", "l", "lost", "bare", "odd"'),
        (cmp("l"),
         "pred.cmp.ref: 'l' is a link field, whose cells are not compared; use linkedAny"),
        (cmp("sum"),
         "pred.cmp.ref: 'sum' is a formula field, whose cells are not compared;"
         " name another field"),
        (cmp("age", literal="1"), "pred.cmp.operand.literal: write a number"),
        (cmp("name", literal=1), "pred.cmp.operand.literal: write a text"),
        (cmp("tags", "has_any", literal=["a", 1]), "pred.cmp.operand.literal.1: write a text"),
        (cmp("who", literal=[]), "pred.cmp.operand.literal: write the id of a user"),
        (cmp("ok", literal=1), "pred.cmp.operand.literal: write true or false"),
        (cmp("on", literal="1.1.26"),
         "pred.cmp.operand.literal: write a day as YYYY-MM-DD, or now"),
        (cmp("name"),
         "pred.cmp.operand.literal: write a text (nothing equals null; use empty or not_empty)"),
        (cmp("name", "in", literal="a"), "pred.cmp.operand.literal: in wants a list; write one"),
        (cmp("name", "empty", literal="a"),
         "pred.cmp.operand.literal: empty compares with nothing; leave it out"),
        (cmp("name", "not_empty", user="id"),
         "pred.cmp.operand: not_empty compares with nothing; leave it out"),
        (cmp("age", user="id"), "pred.cmp.operand: user.id is text; use a number"),
        (cmp("name", user="team_ids"),
         "pred.cmp.operand: eq compares with one value, and teams are many"),
        (cmp("name", "in", user="id"),
         "pred.cmp.operand: in wants a list, and this is one; use eq"),
        (cmp("name", "not_in", user="email_norm"),
         "pred.cmp.operand: not_in wants a list, and this is one; use ne"),
        (cmp("name", attr=attr()),
         "pred.cmp.operand.attr: eq compares with one value, and these are many"),
        (cmp("name", "in", attr=attr("gone")),
         "pred.cmp.operand.attr.table: there is no such table; name another"),
        (cmp("name", "in", attr=attr("t", "ok")),
         "pred.cmp.operand.attr.keyField: never holds a user or an address;"
         " name a user, e-mail or text field"),
        (cmp("age", "in", attr=attr()),
         "pred.cmp.operand.attr.valueField: holds other values than a number; name another field"),
        (cmp("name", now={"unit": "today"}),
         "pred.cmp.operand: now is a day; 'field:name' wants a text"),
        (cmp("on", now={"unit": "today", "tz": "Mars/Base"}),
         "pred.cmp.operand.now.tz: unknown time zone; use an IANA name such as 'Europe/Berlin'"),
        (linked("name"), "pred.linkedAny.field: 'name' is a text field; name a link field"),
        (linked("odd"), "pred.linkedAny.field: 'odd' is a text field; name a link field"),
        (linked("bare"), "pred.linkedAny.field: 'bare' is a link field; name a link field"),
        (linked("lost"),
         "pred.linkedAny.field: 'lost' leads to no table here; name another link field"),
        (linked("l", linked("m")),
         "pred.linkedAny.pred.linkedAny: follows a second link; one is followed"),
        ({"any": [True, cmp("age", literal="1")]},
         "pred.any.1.cmp.operand.literal: write a number"),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_refused_when_it_is_written(raw: Any, message: str) -> None:
    """The place, the fault and the remedy."""
    assert said(raw) == message


def test_a_permissive_policy_without_effect_is_refused() -> None:
    """Both ways out are named."""
    one = {"subjects": [{"type": "user", "id": "u"}], "pred": True, "mode": "permissive"}
    with pytest.raises(InvalidRequest) as refused:
        policy.check(policy.parse_policies({"policies": [one]}), "t", FIELDS.get)
    assert refused.value.message == (
        "policies.0.mode: opens rows that show_all shows already, so it is without effect;"
        " use deny_all, or make it restrictive"
    )


def test_what_was_resolved_is_not_written() -> None:
    """A day is made of `now`, and stored by nobody."""
    day = policy.OnDay(day=date(2026, 1, 1), tz="UTC")
    resolved = policy.Cmp(cmp=policy.Comparison(ref="field:on", op="eq", operand=day))
    with pytest.raises(InvalidRequest) as refused:
        policy.check_predicate(resolved, "t", FIELDS.get)
    assert refused.value.message == "pred.cmp.operand: use literal, user, attr or now"


def test_ids_of_users_become_texts_wherever_they_stand() -> None:
    """In groups and linked rows as well."""
    raw = {"any": [{"not": cmp("who", literal=1)}, linked("l", cmp("who", "has_any", literal=[2]))]}
    told = {"any": [{"not": cmp("who", literal="1")},
                    linked("l", cmp("who", "has_any", literal=["2"]))]}  # fmt: skip
    assert policy.check_predicate(policy.parse(raw), "t", FIELDS.get) == policy.parse(told)


@pytest.mark.parametrize("key", ["name", "who", "tags"])
def test_a_key_may_be_a_text_a_user_or_a_list(key: str) -> None:
    """Each can name the user."""
    pred = policy.parse(cmp("name", "in", attr=attr("t", key, "name")))
    assert policy.check_predicate(pred, "t", FIELDS.get) == pred


# -- parsed ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ("true", "not a predicate; use all, any, not, cmp, linkedAny, true or false"),
        ({}, "not a predicate; use all, any, not, cmp, linkedAny, true or false"),
        ({"all": True}, "Input should be a valid list"),
        (cmp("f", literal=float("inf")), "a number that is not finite; write one that is"),
        (cmp("f", literal=2**3400), "a number of more than 1,000 digits; write a smaller one"),
        (cmp("f", literal="\x00"), "text with a NUL or half a character; remove it"),
        (cmp("f", literal=["\ud800"]), "text with a NUL or half a character; remove it"),
        (cmp("f", literal={"a": "\udfff"}), "text with a NUL or half a character; remove it"),
        (cmp("f", value=1), "not an operand; use literal, user, attr or now"),
        ({"cmp": 5}, "Input should be a valid dictionary"),
        ({"linkedAny": 5}, "Input should be a valid dictionary"),
    ],
)
def test_what_does_not_parse(raw: Any, message: str) -> None:
    """In words of the language, not of the parser's own."""
    with pytest.raises(InvalidRequest) as refused:
        policy.parse({"not": raw})
    assert refused.value.message.partition(": ")[2] == message


def test_numbers_and_texts_parse_up_to_their_bounds() -> None:
    """The longest number, and characters beside the halves of one."""
    for literal in (2**3400 - 1, -(2**3400) + 1, "\ud7ff\ue000", 1.5, [True, None, {"a": [1]}]):
        pred = policy.parse(cmp("f", literal=literal))
        assert isinstance(pred, policy.Cmp)
        assert pred.cmp.operand == policy.Literal_(literal=literal)


def test_the_place_of_a_predicate_is_its_callers() -> None:
    """`pred` without one; the policies of a table stand for themselves."""
    for raw in ("?", {"any": [cmp("f")] * (policy.MAX_COMPARISONS + 1)}):
        for more, place in (((), "pred"), (("filter",), "filter")):
            with pytest.raises(InvalidRequest) as refused:
                policy.parse(raw, *more)
            assert refused.value.field == place
    for raw in (5, {"policies": 5}):
        with pytest.raises(InvalidRequest) as refused:
            policy.parse_policies(raw)
        assert refused.value.field == "policies"
    with pytest.raises(InvalidRequest) as refused:
        policy.parse_policies(5)
    assert refused.value.message == "policies: Input should be a valid dictionary"


def groups(levels: int, kind: str) -> Any:
    pred: Any = True
    for _ in range(levels):
        pred = {"not": pred} if kind == "not" else {"all": [pred]}
    return pred


def test_the_deepest_predicate_parses_and_no_deeper_one() -> None:
    """Every level of JSON counts: a `not` is one, a list in a group is another."""
    assert policy.MAX_DEPTH == 16
    for kind, most in (("not", 31), ("all", 15)):
        assert policy.parse(groups(most, kind))
        with pytest.raises(InvalidRequest, match=r"nested deeper than 16 levels; flatten it$"):
            policy.parse(groups(most + 1, kind))


@pytest.mark.parametrize(
    ("most", "more", "says"),
    [
        (
            {"all": [{"not": linked("l")}] * 25 + [{"any": [linked("l")]}] * 25},
            {"all": [{"not": linked("l")}] * 26 + [{"any": [linked("l")]}] * 25},
            "more than 50 of linkedAny; join them",
        ),
        (
            {"all": [{"linked_any": linked("l")["linkedAny"]}] * 50},
            {"all": [{"linked_any": linked("l")["linkedAny"]}] * 51},
            "more than 50 of linkedAny; join them",
        ),
        (
            {"all": [cmp("f")] * 250 + [{"not": cmp("f")}] * 250},
            {"all": [cmp("f")] * 250 + [{"not": cmp("f")}] * 251},
            "more than 500 comparisons; write fewer, or one with a list",
        ),
        (
            cmp("f", "in", literal=[[0] * 9_000, [0] * (11_000 - 7)]),
            cmp("f", "in", literal=[[0] * 9_000, [0] * (11_000 - 6)]),
            "of more than 20,000 parts; write fewer, or shorter lists",
        ),
    ],
    ids=["links", "links by their other name", "comparisons", "parts"],
)
def test_the_largest_predicate_parses_and_no_larger_one(most: Any, more: Any, says: str) -> None:
    """However it is built; what is too large is said in one line."""
    assert policy.parse(most)
    with pytest.raises(InvalidRequest) as refused:
        policy.parse(more)
    assert refused.value.message == f"pred: {says}"


def test_a_tables_policies_are_bounded_together() -> None:
    """Those of linked rows count as well."""
    inner = [linked("l", {"all": [cmp("g", literal="a")] * 100}), cmp("name", literal="a")]
    one = {"subjects": [{"type": "user", "id": "u"}], "mode": "restrictive"}
    full = {**one, "pred": {"all": [*inner, *[cmp("name", literal="a")] * 399]}}

    def check(*policies: Any) -> policy.TablePolicies:
        return policy.check(policy.parse_policies({"policies": policies}), "t", FIELDS.get)

    assert check(full, full, {**one, "pred": False})
    with pytest.raises(InvalidRequest) as refused:
        check(*[full] * (MAX_OF_TABLE // 500), {**one, "pred": cmp("name", literal="a")})
    assert refused.value.field == "policies"
    assert refused.value.message == (
        f"policies: more than {MAX_OF_TABLE:,} comparisons in all; write fewer, or some with a list"
    )
    assert check(*[full] * (MAX_OF_TABLE // 500))


@pytest.mark.parametrize(
    "operand",
    [
        policy.Literal_(literal=1),
        policy.OfUser(user="id"),
        policy.OfAttr(attr=policy.AttrLookup.model_validate(attr())),
        policy.OfNow(now=policy.Now(unit="today")),
        policy.OnDay(day=date(2026, 1, 1), tz="UTC"),
    ],
    ids=lambda one: type(one).__name__,
)
def test_every_part_of_the_language_is_taken_as_it_is_made(operand: Any) -> None:
    """Operands and predicates that code has made need no spelling."""
    made = policy.Comparison(ref="field:f", op="eq", operand=operand)
    assert made.operand == operand
    one = policy.Cmp(cmp=made)
    for pred in (
        one,
        policy.All(all=(one,)),
        policy.Any_(any=(one,)),
        policy.Not(not_=one),
        policy.LinkedAny(linked_any=policy.Linked(field="l", pred=one)),
    ):
        assert policy.parse(pred) == pred  # type: ignore[arg-type]


def test_what_was_parsed_is_a_predicate_still() -> None:
    """Models validate as their JSON does, and `dump` gives that JSON."""
    raw = {
        "all": [
            {"any": [True, {"not": cmp("a", literal=[1])}]},
            cmp("b", user="id"),
            cmp("c", "in", attr=attr()),
            linked("l", cmp("d", now={"unit": "week", "tz": "UTC"})),
        ]
    }
    pred = policy.parse(raw)
    assert policy.dump(pred) == raw
    days = resolved(policy.parse(cmp("d", now={"unit": "today", "tz": "UTC"})))
    assert policy.parse(days) == days  # type: ignore[arg-type]


# -- resolved ----------------------------------------------------------------------------------

WHO = policy.UserOperands(id="u", now=NOON)


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (linked("l", linked("m")), "a linkedAny inside of a linkedAny"),
        (linked("l", {"all": [True, linked("m")]}), "a linkedAny inside of a linkedAny"),
        (linked("l", {"any": [False, linked("m")]}), "a linkedAny inside of a linkedAny"),
        (linked("l", {"not": linked("m")}), "a linkedAny inside of a linkedAny"),
        (cmp("f", user="email_norm"), "user.email_norm of a user without an address"),
        (cmp("f", "in", attr=attr()), "user.attr of table 'x'"),
        (cmp("f", "in", now={"unit": "today", "tz": "UTC"}), "in with a day"),
        (cmp("f", now={"unit": "today", "tz": "Mars/Base"}), "a time zone that does not exist"),
        (cmp("f", now={"unit": "today"}), "a time zone that does not exist"),
        (cmp("f"), "a comparison with null"),
    ],
    ids=str,
)
def test_operators_are_told_what_could_not_be_resolved(raw: Any, why: str) -> None:
    """In any group."""
    for pred in (raw, {"all": [raw]}, {"any": [raw]}, {"not": raw}):
        with pytest.raises(policy.Unresolvable) as denied:
            resolved(policy.parse(pred))
        assert str(denied.value) == why


def test_what_is_resolved_stays_as_it_is() -> None:
    """Literals and days; links beside each other are no links inside of each other."""
    raw = {"any": [cmp("f", user="id"), cmp("d", now={"unit": "week", "tz": "UTC"}),
                   linked("l", cmp("g", user="id")), linked("l")]}  # fmt: skip
    once = resolved(policy.parse(raw))
    assert resolved(once, policy.UserOperands(id="x", now=NOON.replace(year=2027))) == once
    later = policy.OnDay(day=date(2026, 1, 1), tz="UTC")
    odd = policy.Cmp(cmp=policy.Comparison(ref="field:f", op="in", operand=later))
    with pytest.raises(policy.Unresolvable, match=r"^in with a day$"):
        resolved(odd)


def test_a_reference_names_what_follows_its_first_colon() -> None:
    """Ids may hold colons."""
    pred = policy.parse(cmp("field:a:b", literal=1))
    assert policy.fields_read(pred) == {"a:b"}
    assert policy.reads(pred, "t", {}.get) == {("t", None), ("t", "a:b")}


def test_only_a_link_field_leads_anywhere() -> None:
    """Whatever else a field of another type may say; and a link must say where to."""
    for name in ("odd", "bare"):
        pred = policy.parse(linked(name))
        assert policy.lacking(pred, FIELDS.get, "t") == f"link field {name!r}"
    with pytest.raises(policy.Unresolvable, match=r"^linkedAny along field 'l'$"):
        policy.reads(policy.parse(linked("l")), "t", {}.get)


# -- zones -------------------------------------------------------------------------------------


def test_names_of_zones_are_bounded() -> None:
    """Nothing longer is looked for among the files of zones, and nothing at all is no zone."""
    seen: list[str] = []

    def look(name: str) -> Any:
        seen.append(name)
        raise ValueError(name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("context_engine.zones.ZoneInfo", look)
        assert [policy.zone_of("x" * n) for n in (0, 1, 64, 65)] == [None] * 4
    assert [len(name) for name in seen] == [1, 64]
