"""Which rows each way holds, what that depends on, and until when it is true."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from context_engine import access, keys, policy
from context_engine.facts import (
    NOWHERE,
    ConversationFacts,
    DialogueFacts,
    Facts,
    MessageFacts,
    PolicyFacts,
)
from context_engine.keys import Tag
from context_engine.models.sections import TOO_SLOW
from context_engine.view_filters import NOT_COMPUTED, RowSet
from tests.support.facts import (
    USER,
    at,
    cmp,
    field,
    grant,
    link,
    member,
    only_table,
    permission,
    policy_of,
    read,
    resolve,
    table,
    view,
)

NOON = datetime(2026, 1, 7, 12, tzinfo=UTC)
OWN = cmp("sys:created_by", user="id")
MINE = policy.parse(cmp("sys:created_by", literal="u"))
A, B = cmp("f", literal="a"), cmp("f", literal="b")
IS_A, IS_B = policy.parse(A), policy.parse(B)
GARBAGE = {"nonsense": 1}


def ruled(*policies: PolicyFacts, role: str = "viewer", **more: Any) -> Facts:
    return member(role, table(policies=policies, **more), team_ids=("g",))


def own_rows(facts: Facts, **more: Any) -> policy.Pred:
    scope = resolve(facts, at("t"), **more)
    (way,) = scope.tables[0].ways
    assert way.rows.where is None
    return way.rows.pred


# -- policies ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("default", "policies", "rows"),
    [
        ("show_all", (), True),
        ("deny_all", (), False),
        ("unknown", (), False),
        ("deny_all", (policy_of(A, "permissive"),), IS_A),
        ("deny_all", (policy_of(True, "permissive"),), True),
        ("deny_all", (policy_of(False, "permissive"), policy_of(A, "permissive")), IS_A),
        (
            "deny_all",
            (policy_of(A, "permissive"), policy_of(B, "permissive")),
            policy.Any_(any=(IS_A, IS_B)),
        ),
        ("deny_all", (policy_of(A, "permissive"), policy_of(True, "permissive")), True),
        ("deny_all", (policy_of(A),), False),
        ("show_all", (policy_of(A, "permissive"),), True),
        ("show_all", (policy_of(A),), IS_A),
        ("show_all", (policy_of(True),), True),
        ("show_all", (policy_of(A), policy_of(False)), False),
        ("show_all", (policy_of(True), policy_of(A)), IS_A),
        ("show_all", (policy_of(A), policy_of(B)), policy.All(all=(IS_A, IS_B))),
        (
            "deny_all",
            (policy_of(A, "permissive"), policy_of(B)),
            policy.All(all=(IS_A, IS_B)),
        ),
        ("show_all", (policy_of(OWN),), MINE),
    ],
)
def test_default_or_any_that_opens_and_every_one_that_closes(
    default: str, policies: tuple[PolicyFacts, ...], rows: policy.Pred
) -> None:
    """`show_all` is open already, `deny_all` waits to be opened; restrictive ones bind both."""
    assert own_rows(ruled(*policies, policy_default=default)) == rows


@pytest.mark.parametrize(
    ("subjects", "names"),
    [
        (("user:u",), True),
        (("user:x",), False),
        (("team:g",), True),
        (("team:u",), False),
        (("user:g",), False),
        (("role:viewer",), True),
        (("role:editor",), False),
        (("user:x", "role:admin", "team:g"), True),
    ],
)
def test_a_policy_binds_whom_it_names(subjects: tuple[str, ...], names: bool) -> None:
    """By id and kind; a role is that which holds the way, listed exactly."""
    assert own_rows(ruled(policy_of(A, "restrictive", *subjects))) == (IS_A if names else True)


def test_a_role_is_named_as_it_holds_the_way() -> None:
    """The table's way by its role, a view's by that of its grant; no role is exempt."""
    stored = table(
        policies=(policy_of(A, "restrictive", "role:editor"),), views=(view("v", "restricted"),)
    )
    for role, rows in (("viewer", [True, IS_A]), ("editor", [IS_A, IS_A]), ("admin", [True, IS_A])):
        found = only_table(member(role, stored, grants=(grant("editor", "view:v"),)))
        assert [way.rows.pred for way in found.ways] == rows
        assert [rows.pred for rows in found.rows] == [way.rows.pred for way in found.ways]


@pytest.mark.parametrize(
    ("stored", "fault"),
    [
        (policy_of(GARBAGE), "not a predicate"),
        (policy_of(cmp("gone")), "there is no field 'gone'"),
        (policy_of({"linkedAny": {"field": "f", "pred": True}}), "there is no link field 'f'"),
        (policy_of(cmp("f", now={"unit": "today", "tz": "Mars/Base"})), "time zone"),
        (policy_of(A, "optional"), "mode: "),
        (policy_of(A).model_copy(update={"subjects": "u"}), "subjects: "),
        (policy_of(A, "restrictive", "group:g"), "subjects.0.type: "),
        (policy_of(A).model_copy(update={"subjects": []}), "subjects: "),
    ],
)
def test_garbage_closes_its_table_and_is_told_to_operators(stored: PolicyFacts, fault: str) -> None:
    """Whomever it once named, and however it once opened; other tables stay open."""
    facts = member("viewer", table(policies=(stored, policy_of(True))), table("x"))
    scope = resolve(facts, at("t", "x"))
    assert [[way.rows.pred for way in one.ways] for one in scope.tables] == [[False], [True]]
    (told,) = scope.faults
    assert told.what == f"policy {stored.id} of table t"
    assert fault in told.rule
    assert "\n" not in told.rule
    assert [denial.what for denial in scope.denials] == ["rows of t"]
    kinds = "InvalidRequest|Unresolvable|ValidationError"
    assert re.match(rf"policy {stored.id}: ({kinds}): ", scope.denials[0].rule)
    assert fault.removesuffix(": ") in scope.denials[0].rule


def test_what_is_stored_unreadably_is_told_to_operators() -> None:
    """Sources of a field, a tool's call, and a boundary of no grammar; one that names what is
    gone is no fault."""
    lost = field("c", "formula", reads=NOWHERE)
    ran = MessageFacts(id="m", role="tool", author_id=None, content="", chars=0, at=NOON)
    talk = ConversationFacts(
        id="c", title="C", is_participant=True,
        dialogue=DialogueFacts(
            messages=(ran, ran.model_copy(update={"id": "lost", "readable": False}))
        ),
    )  # fmt: skip
    odd = view("v", "restricted", filter=GARBAGE)
    gone = view("g", "restricted", filter=cmp("gone"))
    stored = table("t", field("f"), lost, views=(odd, gone))
    given = (grant("viewer", "view:v"), grant("viewer", "view:g"))
    facts = member("viewer", stored, conversation=talk, grants=given)
    scope = resolve(facts, at("t", conversation_id="c"))
    assert [(one.what, one.rule) for one in scope.faults] == [
        ("sources of field c of table t", "cannot be read"),
        ("filter of view v", scope.faults[1].rule),
        ("tool call of message lost", "cannot be read"),
    ]
    assert "not a predicate" in scope.faults[1].rule
    dark = view("v", "restricted", filter={"where": {"every": 1}})
    scope = resolve(member("viewer", table(views=(dark,)), grants=given), at("t"))
    assert [one.what for one in scope.faults] == ["filter of view v"]


def test_a_day_beside_a_time_is_the_local_date() -> None:
    """As the field of the table at hand says; beside a text it is a text."""
    dated = cmp("at", literal="2026-01-07")
    for kind, operand in (
        ("datetime", policy.OnDay(day=NOON.date(), tz="UTC")),
        ("text", policy.Literal_(literal="2026-01-07")),
    ):
        stored = table("t", field("at", kind), policies=(policy_of(dated),))
        pred = own_rows(member("viewer", stored))
        assert [one.operand for one in policy.comparisons(pred)] == [operand]
        looked = table("t", field("at", kind), views=(view("v", filter=dated),))
        found = resolve(member("viewer", looked), at("t", view_id="v")).view
        assert found is not None
        assert [one.operand for one in policy.comparisons(found.filter)] == [operand]


def test_a_default_that_nobody_knows_is_told_to_operators() -> None:
    """It opens nothing, permissive policies neither."""
    scope = resolve(ruled(policy_of(True, "permissive"), policy_default="?"), at("t"))
    assert [way.rows.pred for way in scope.tables[0].ways] == [False]
    assert [(one.what, one.rule) for one in scope.denials] == [("rows of t", "unknown default")]


def test_a_policy_reads_over_the_users_own_permissions() -> None:
    """A hidden field decides all the same."""
    hidden = (permission("f", "none"),)
    stored = table("t", field("f"), field("g"), policies=(policy_of(A),), field_permissions=hidden)
    assert own_rows(member("viewer", stored)) == IS_A


# -- operands ----------------------------------------------------------------------------------

REGION = {"table": "staff", "keyField": "mail", "valueField": "region"}
LOOKUP = policy.AttrLookup(table="staff", key_field="mail", value_field="region")


def test_operands_are_the_users() -> None:
    """Id, address, teams, zone, the time that was given and the attributes that were found."""
    zoned = USER.model_copy(update={"timezone": "Asia/Tokyo"})
    asked = [
        cmp("f", user="id"),
        cmp("f", user="email_norm"),
        cmp("f", "in", user="team_ids"),
        cmp("f", "in", attr=REGION),
        cmp("f", now={"unit": "today"}),
    ]
    facts = ruled(policy_of({"all": asked})).model_copy(update={"user": zoned})
    evening = datetime(2026, 1, 7, 20, tzinfo=UTC)
    scope = resolve(facts, at("t"), now=evening, attributes={LOOKUP: ("north",)})
    (way,) = scope.tables[0].ways
    found = [comparison.operand for comparison in policy.comparisons(way.rows.pred)]
    user, teams, regions = (policy.Literal_(literal=one) for one in ("u", ["g"], ["north"]))
    assert found[:4] == [user, policy.Address(address="u@example.org"), teams, regions]
    assert found[4] == policy.OnDay(day=datetime(2026, 1, 8, tzinfo=UTC).date(), tz="Asia/Tokyo")
    assert scope.until == datetime(2026, 1, 8, 15, tzinfo=UTC)


def test_without_its_values_an_attribute_denies() -> None:
    """It could not be told."""
    facts = ruled(policy_of(cmp("f", "in", attr=REGION)))
    assert own_rows(facts) is False
    assert own_rows(facts, attributes={LOOKUP: ()}) != False  # noqa: E712 - a predicate


def test_the_time_is_that_of_the_facts_unless_one_is_given() -> None:
    """Else the clock's: a day ends in the future."""
    facts = ruled(policy_of(cmp("f", now={"unit": "today", "tz": "UTC"})))
    dated = facts.model_copy(update={"now": NOON})
    assert resolve(dated, at("t")).until == datetime(2026, 1, 8, tzinfo=UTC)
    given = NOON + timedelta(days=30)
    assert resolve(dated, at("t"), now=given).until == datetime(2026, 2, 7, tzinfo=UTC)
    until = resolve(facts, at("t")).until
    assert until is not None
    assert timedelta(0) < until - datetime.now(UTC) <= timedelta(days=1)


def test_the_earliest_day_that_ends_is_told() -> None:
    """Of all policies that name the user; None without any."""
    days = [policy_of(cmp("f", now={"unit": unit, "tz": tz})) for unit, tz in (
        ("week", "UTC"), ("today", "Asia/Tokyo"), ("today", "UTC"))]  # fmt: skip
    facts = ruled(*days, policy_of(A)).model_copy(update={"now": NOON})
    assert resolve(facts, at("t")).until == datetime(2026, 1, 7, 15, tzinfo=UTC)
    for others in (policy_of(days[0].pred, "restrictive", "user:x"), policy_of(A)):
        assert resolve(ruled(others).model_copy(update={"now": NOON}), at("t")).until is None


def test_attributes_are_looked_up_before_anything_is_decided() -> None:
    """Of policies, of restricted views and of the view looked at; what is garbage asks nothing."""

    def lookup(n: int) -> policy.AttrLookup:
        return policy.AttrLookup(table=f"t{n}", key_field="k", value_field="v")

    def asks(n: int) -> Any:
        attr = {"table": f"t{n}", "keyField": "k", "valueField": "v"}
        return {"any": [False, {"not": cmp("f", "in", attr=attr)}]}

    views = (
        view("r", "restricted", filter=asks(1)), view("c", filter=asks(2)),
        view("v", filter=asks(3)), view("w", "restricted", filter={"attr": GARBAGE}),
    )  # fmt: skip
    tables = (
        table(policies=(policy_of({"attr": 1}), policy_of(asks(4)), policy_of(A)), views=views),
        table("x", policies=(policy_of(asks(5)), policy_of([asks(6)]))),
    )
    facts = member("viewer", *tables)
    assert access.lookups(facts, at("t", view_id="v")) == {lookup(n) for n in (1, 3, 4, 5)}
    assert access.lookups(facts, at("t")) == {lookup(n) for n in (1, 4, 5)}


def test_rules_that_mention_no_attribute_are_not_parsed_for_them() -> None:
    """Most do not, and there may be thousands."""

    def parse(raw: Any) -> policy.Pred:
        raise AssertionError(raw)

    facts = member("viewer", table(policies=(policy_of({"all": [A, {"not": B}, True]}),)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(policy, "parse", parse)
        assert access.lookups(facts, at("t")) == frozenset()


# -- boundaries --------------------------------------------------------------------------------

STORED_A = {"where": {"field": "f", "value": {"cell": "f", "kind": "text"}, "test": {"op": "equal", "to": "a"}}}  # fmt: skip  # noqa: E501


def bound(
    filter: Any, *policies: PolicyFacts, own: str = "none", links: Any = (), **more: Any
) -> Facts:
    """A table with a restricted view that the user has a grant on."""
    stored = table("t", field("f"), link("l", "x"), *links, policies=policies,
                   views=(view("v", "restricted", filter=filter),), **more)  # fmt: skip
    return member("viewer", stored, table("x"), grants=(grant(own), grant("viewer", "view:v")))


def test_a_granted_views_filter_bounds_its_rows() -> None:
    """And every restrictive policy; what opens the table opens no view."""
    cases: list[tuple[Any, tuple[PolicyFacts, ...], policy.Pred]] = [
        (None, (), True),
        (A, (), IS_A),
        (False, (), False),
        (A, (policy_of(B),), policy.All(all=(IS_A, IS_B))),
        (None, (policy_of(B),), IS_B),
        (A, (policy_of(True, "permissive"),), IS_A),
        (OWN, (), MINE),
    ]
    for filter, policies, rows in cases:
        (way,) = only_table(bound(filter, *policies, policy_default="deny_all")).ways
        assert (way.rows, way.uncountable) == (RowSet(rows), None)


def test_a_boundary_in_the_language_of_views_stands_beside_the_policies() -> None:
    """Prepared over all that is stored, linked rows too."""
    (way,) = only_table(bound(STORED_A, policy_of(B))).ways
    assert way.rows.pred == IS_B
    assert way.rows.where is not None
    assert way.rows.where.reads == {("t", "f")}
    counted = {"where": {"field": "l", "value": {"count": {"field": "l", "table": "x"}},
                         "test": {"op": "higher_than", "to": 1}}}  # fmt: skip
    (way,) = only_table(bound(counted)).ways
    assert way.rows.where is not None
    assert way.rows.where.sights == {"x": (RowSet(True),)}


def test_a_boundary_over_a_table_that_is_gone_gives_no_rows() -> None:
    """Else trashing a table would open what no link leads to any more. It may come back."""
    step = {"field": "g", "table": "gone"}
    rolled = {"step": step, "value": {"cell": "n", "kind": "number"}, "function": "max"}
    for value in ({"count": step}, {"rollup": rolled}):
        test = {"op": "lower_than", "to": 1}
        where = {"field": "g", "value": value, "test": test}
        scope = resolve(bound({"where": where}, links=(link("g", "gone"),)), at("t"))
        (way,) = scope.tables[0].ways
        assert (way.rows, way.uncountable) == (RowSet(False), NOT_COMPUTED)
        assert keys.rows("gone") in scope.tags
        assert not scope.faults


@pytest.mark.parametrize("step", [("l", "t"), ("f", "x")])
def test_a_boundary_along_a_link_that_leads_elsewhere_gives_no_rows(step: tuple[str, str]) -> None:
    """It would find none of the linked rows that it was drawn by, and so let all rows through."""
    value = {"count": dict(zip(("field", "table"), step, strict=True))}
    test = {"op": "lower_than", "to": 1}
    (way,) = only_table(bound({"where": {"field": "f", "value": value, "test": test}})).ways
    assert (way.rows, way.uncountable) == (RowSet(False), NOT_COMPUTED)


def test_every_step_of_a_boundary_leads_where_it_says() -> None:
    """The second too, from a table that somebody else may have changed."""
    one = {"cell": "n", "kind": "number"}
    for led_to, counted in (("z", True), ("y", False)):
        far = {"rollup": {"step": {"field": "m", "table": led_to}, "value": one, "function": "sum"}}
        near = {"step": {"field": "l", "table": "x"}, "value": far, "function": "sum"}
        where = {"field": "l", "value": {"rollup": near}, "test": {"op": "lower_than", "to": 1}}
        facts = bound({"where": where})
        t, _ = facts.tables
        more = (t, table("x", link("m", "z")), table("y", field("n")), table("z", field("n")))
        scope = resolve(facts.model_copy(update={"tables": more}), at("t"))
        assert (scope.tables[0].uncountable is None) is counted


@pytest.mark.parametrize(
    ("filter", "reason"),
    [
        (GARBAGE, NOT_COMPUTED),
        (cmp("gone"), NOT_COMPUTED),
        ({"where": {"unavailable": "a formula"}}, "a formula"),
        ({"where": {"field": "f", "value": {"cell": "z", "kind": "text"}, "test": {"op": "empty"}}},
         NOT_COMPUTED),
    ],
)  # fmt: skip
def test_a_boundary_that_cannot_be_computed_gives_no_rows(filter: Any, reason: str) -> None:
    """Nor a count of what needs it; operators are told why."""
    facts = bound(filter, policy_of(B))
    scope = resolve(facts, at("t"))
    (way,) = scope.tables[0].ways
    assert (way.rows, way.uncountable) == (RowSet(False), reason)
    assert scope.tables[0].uncountable == reason
    assert [(one.what, one.rule) for one in scope.denials] == [("rows of view v", reason)]
    assert bool(scope.faults) == (filter is GARBAGE), "what nobody can read is told apart"
    both = only_table(bound(filter, own="viewer"))
    assert (both.rows, both.uncountable) == ((RowSet(True), RowSet(False)), None)
    closed = only_table(bound(filter, policy_of(B), own="viewer"))
    assert closed.uncountable == reason


MY_OWN = cmp("f", "in", attr=REGION)


@pytest.mark.parametrize(
    "facts",
    [
        ruled(policy_of(MY_OWN)),
        ruled(policy_of(A), policy_of({"any": [B, {"not": MY_OWN}]})),
        ruled(policy_of(MY_OWN, "permissive"), policy_default="deny_all"),
        bound(MY_OWN),
        bound(None, policy_of(MY_OWN)),
    ],
)
def test_what_a_rule_asks_that_was_not_read_in_time_denies_and_has_no_count(facts: Facts) -> None:
    """Of what was left out it is known that it denies; this may be had soon."""
    found = resolve(facts, at("t"), attributes={LOOKUP: None})
    (way,) = found.tables[0].ways
    assert (way.rows, way.uncountable) == (RowSet(False), TOO_SLOW)
    assert found.tables[0].uncountable == TOO_SLOW
    assert found.passing
    assert [one.what for one in found.denials] == ["rows of t"]
    assert not found.faults
    known = resolve(facts, at("t"), attributes={LOOKUP: ("a",)})
    assert (known.tables[0].uncountable, known.passing) == (None, False)
    assert known.tables[0].rights != found.tables[0].rights, "what tools found is withheld"


def test_who_no_late_rule_names_is_counted() -> None:
    """Of whom it asks nothing; nor where a rule denies whatever is said."""
    others = ruled(policy_of(MY_OWN, "restrictive", "user:other"), policy_of(A))
    table = resolve(others, at("t"), attributes={LOOKUP: None}).tables[0]
    assert (table.rows, table.uncountable) == ((RowSet(IS_A),), None)
    gone = ruled(policy_of({"all": [MY_OWN, cmp("gone")]}))
    table = resolve(gone, at("t"), attributes={LOOKUP: None}).tables[0]
    assert (table.rows, table.uncountable) == ((RowSet(False),), None)


@pytest.mark.parametrize(
    "always", [True, {"not": False}, {"all": []}, {"any": [True, B]}, {"not": {"all": [B, False]}}]
)
def test_what_holds_of_every_row_needs_no_boundary(always: Any) -> None:
    """However it is said: a view's filter that cannot be computed then adds nothing."""
    table = only_table(bound(GARBAGE, policy_of(always), own="viewer"))
    assert table.ways[0].rows == RowSet(True)
    assert table.uncountable is None


@pytest.mark.parametrize("never", [False, {"not": True}, {"any": []}, {"all": [B, {"any": []}]}])
def test_what_holds_of_no_row_is_told_at_once(never: Any) -> None:
    """However it is said."""
    table = only_table(bound(GARBAGE, policy_of(never), own="viewer"))
    assert table.ways[0].rows == RowSet(False)


def test_what_says_the_same_within_a_condition_is_left_out() -> None:
    """And what is left is what it was."""
    for said in ({"all": [True, B]}, {"any": [{"not": True}, B]}, {"not": {"not": B}}):
        rows = only_table(bound(GARBAGE, policy_of(said), own="viewer")).ways[0].rows
        one = only_table(bound(GARBAGE, policy_of(B), own="viewer")).ways[0].rows
        if "not" in said:
            one = RowSet(policy.Not(not_=policy.Not(not_=one.pred)))
        assert rows == one


def test_a_boundary_ends_with_its_days() -> None:
    """In either language."""
    today = cmp("f", now={"unit": "today", "tz": "Asia/Tokyo"})
    dated = {"where": {"field": "f", "value": {"cell": "f", "kind": "date"},
                       "test": {"op": "date_is", "days": {"tz": "Asia/Tokyo"}}}}  # fmt: skip
    for filter in (today, dated):
        facts = bound(filter).model_copy(update={"now": NOON})
        assert resolve(facts, at("t")).until == datetime(2026, 1, 7, 15, tzinfo=UTC)


# -- dependencies ------------------------------------------------------------------------------

BASE = {
    keys.EVERYTHING, keys.WORKSPACE, keys.access("u"), keys.user("u"), keys.teams_of("u"),
    keys.views("t"), keys.links_to("t"), keys.schema("t"), keys.rows("t"), keys.new_rows("t"),
}  # fmt: skip


def cell(table_id: str, field_id: str) -> set[Tag]:
    return {
        keys.schema(table_id), keys.rows(table_id), keys.new_rows(table_id),
        keys.value(table_id, field_id), keys.any_value(table_id),
    }  # fmt: skip


def test_a_table_without_rules_depends_on_itself() -> None:
    """On who asks, and on its schema, views, links and rows; all of it may be told."""
    scope = resolve(member("viewer", table()), at("t"))
    assert scope.tags == scope.told == BASE


def test_what_a_policy_reads_is_a_dependency() -> None:
    """Cells, linked rows and attributes; told where their table is in sight, kept where not."""
    pred = {"all": [
        cmp("f", "in", attr=REGION),
        {"linkedAny": {"field": "l", "pred": cmp("sys:created_by", user="id")}},
    ]}  # fmt: skip
    stored = table("t", field("f"), link("l", "x"), policies=(policy_of(pred),))
    staff = table("staff", field("mail"), field("region"))
    facts = member("viewer", stored, table("x"), staff, grants=(grant("none", "table:staff"),))
    scope = resolve(facts, at("t"), attributes={LOOKUP: ()})
    seen = cell("t", "f") | cell("t", "l") | cell("x", "created_by")
    assert scope.told == BASE | seen
    assert scope.tags == BASE | seen | cell("staff", "mail") | cell("staff", "region")


def test_a_linked_row_counts_by_being_there() -> None:
    """Even where nothing is asked of it."""
    stored = table("t", field("f"), link("l", "x"),
                   policies=(policy_of({"linkedAny": {"field": "l", "pred": True}}),))  # fmt: skip
    scope = resolve(member("viewer", stored, table("x")), at("t"))
    # The link in sight tells of its own field, and of the table that it leads to.
    there = {keys.schema("x"), keys.rows("x"), keys.new_rows("x")}
    assert scope.told == BASE | cell("t", "l") | there


def test_what_a_boundary_reads_is_a_dependency() -> None:
    """Of the view whose rows it bounds; so is what the view hides."""
    for filter in (A, STORED_A):
        facts = bound(filter)
        scope = resolve(facts.model_copy(update={"tables": facts.tables[:1]}), at("t"))
        assert scope.told >= BASE | cell("t", "f")
    other = table("y", views=(view("v", "restricted"),))
    lead = table("t", field("f"), link("l", "y"))
    facts = member("viewer", lead, other, grants=(grant("none", "table:y"),
                                                  grant("viewer", "view:v")))  # fmt: skip
    assert keys.views("y") in resolve(facts, at("t")).told
    assert keys.views("y") not in resolve(member("viewer", lead, other), at("t")).told


def test_a_boundary_that_counts_linked_rows_depends_on_their_being_there() -> None:
    """Though the way hides the link, and nothing else leads there."""
    counted = {"where": {"field": "l", "value": {"count": {"field": "l", "table": "x"}},
                         "test": {"op": "higher_than", "to": 1}}}  # fmt: skip
    hidden = view("v", "restricted", filter=counted, hidden=("l",))
    stored = table("t", field("f"), link("l", "x"), views=(hidden,))
    facts = member("viewer", stored, table("x"), grants=(grant("none"), grant("viewer", "view:v")))
    assert {keys.value("t", "l"), keys.rows("x"), keys.schema("x")} <= resolve(facts, at("t")).tags


def test_a_policy_of_others_is_no_dependency_but_the_tables_rules_are() -> None:
    """What it reads can change nothing for this user."""
    scope = resolve(ruled(policy_of(A, "restrictive", "user:x")), at("t"))
    assert keys.value("t", "f") not in scope.tags
    assert keys.rows("t") in scope.tags


def test_what_computed_fields_are_made_of_elsewhere_is_a_dependency() -> None:
    """Whether they show changes with that table's schema and views."""
    made = field("c", "lookup", reads=(("x", "f"), ("t", "f")))
    scope = resolve(member("viewer", table("t", field("f"), made), table("x")), at("t"))
    assert scope.tags == scope.told == BASE | {keys.schema("x"), keys.views("x")}


def test_computed_fields_that_are_made_of_each_other_end() -> None:
    """Across tables too: each is looked through once."""
    here = table("t", field("f"), field("c", "formula", reads=(("x", "d"),)))
    there = table(
        "x",
        field("f"),
        field("d", "formula", reads=(("t", "c"), ("x", "e"))),
        field("e", "formula", reads=(("x", "d"), ("z", "f"))),
    )
    scope = resolve(member("viewer", here, there), at("t"))
    assert {keys.schema("x"), keys.schema("z")} <= scope.tags
    assert [one.id for one in scope.tables[0].fields] == ["f"]


def test_the_facts_of_the_first_reading_are_enough_to_ask() -> None:
    """`reach` and `lookups` take them as they are read."""
    facts = read(member("viewer", table()), at("t"))
    assert access.reach(facts, at("t")) == ("t",)


@pytest.mark.parametrize("op", ["eq", "ne", "in", "not_in", "has_none", "gt", "text_contains"])
def test_a_comparison_with_null_denies(op: str) -> None:
    """False, it would be true under a `not`: nobody is let in by nothing."""
    for pred in (cmp("f", op, literal=None), {"not": cmp("f", op, literal=None)}):
        assert own_rows(ruled(policy_of(pred))) is False
