"""The sections: useful samples, counts as they are known, a reason for every omission."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine import policy
from context_engine.access import VisibleScope
from context_engine.facts import (
    AgentFacts,
    Facts,
    FieldFacts,
    GrantFacts,
    MemberFacts,
    OrganizationFacts,
    PolicyFacts,
    ProjectFacts,
    TableFacts,
    TaskFacts,
    TeamFacts,
    UserFacts,
    ViewFacts,
    WorkflowFacts,
    WorkspaceFacts,
)
from context_engine.keys import Coordinates
from context_engine.models import Count, TableSection, Unresolved
from context_engine.models.sections import SAMPLED_FIELDS, SAMPLED_VIEWS, TOO_SLOW, Role
from context_engine.ports import Counts
from context_engine.rendering import render
from context_engine.sections.surface import Surface, build_surface
from tests.support.facts import member, resolve

PROJECT = ProjectFacts(
    id="p", name="Harbour", status="running", due_on="2026-12-03", private=False, is_member=False
)
EVERYTHING = {
    "project_id": "p", "task_id": "k", "team_id": "g", "organization_id": "o", "workflow_id": "f",
    "agent_stack": ("a",), "view_id": "t0.v1",
}  # fmt: skip


def field(id: str, primary: bool = False, **more: Any) -> FieldFacts:
    return FieldFacts(id=id, name=f"Field {id}", type="text", primary=primary, **more)


def view(id: str, order: tuple[str, ...] = (), **more: Any) -> ViewFacts:
    return ViewFacts(
        **{
            "id": id, "name": id, "type": "grid", "ownership": "collaborative", "owner_id": None,
            "filter": None, "hidden": (), "field_order": order, **more,
        }
    )  # fmt: skip


def table(
    id: str = "t0", fields: tuple[FieldFacts, ...] = (), views: tuple[ViewFacts, ...] = ()
) -> TableFacts:
    return TableFacts(
        id=id, name=f"Table {id}", policy_default="show_all", policies=(), fields=fields,
        views=views,
    )  # fmt: skip


def facts(*tables: TableFacts, **more: Any) -> Facts:
    return Facts(
        **{
            "user": UserFacts(
                id="u", name="Ulla", email_norm=None, locale="de", timezone=None, active=True
            ),
            "workspace": WorkspaceFacts(id="w", name="Work", organization_id="o"),
            "member": MemberFacts(role="editor", active=True),
            "tables": tables,
            **more,
        }
    )


def grant(role: Role, table: str) -> GrantFacts:
    return GrantFacts(
        subject_type="user", subject_id="u", scope_type="table", scope_id=table, role=role
    )


def scope(given: Facts, at: Coordinates) -> VisibleScope:
    return resolve(given, at, inherited=frozenset({"table_ids"}))


def built(
    *tables: TableFacts,
    counts: Counts | None = None,
    ids: tuple[str, ...] = ("t0",),
    given: dict[str, Any] | None = None,
    **at: Any,
) -> Surface:
    where = Coordinates("w", "u", table_ids=ids, **at)
    known = counts or Counts(tables={id: Count.of(7) for id in ids}, view=Count.of(3))
    return build_surface(scope(facts(*tables, **(given or {})), where), known, where)


def full(**more: Any) -> dict[str, Any]:
    """Everything that coordinates can name, in sight."""
    return {
        "project": PROJECT,
        "task": TaskFacts(
            id="k", title="Dig", status="open", project=PROJECT, table_id="t0", record_id="r",
            assignee_id="u", due_on=None,
        ),
        "team": TeamFacts(id="g", name="Diggers", member_count=4, is_member=True),
        "organization": OrganizationFacts(id="o", name="Org", role="owner"),
        "workflow": WorkflowFacts(id="f", name="Triage", status="active"),
        "agents": (AgentFacts(id="a", name="Planner", max_role="viewer", table_ids=None),),
        **more,
    }  # fmt: skip


def the_table(surface: Surface) -> TableSection:
    (section,) = surface.tables
    return section


WIDE = table(
    fields=tuple(field(f"f{n}", primary=n == 29) for n in range(30)),
    views=tuple(
        view(f"t0.v{n}", order=("f7", "f5", "f1") if n == 8 else (), hidden=("f5",))
        for n in range(9)
    ),
)


def test_the_primary_field_and_the_current_view_are_sampled_first() -> None:
    """Primary, then the view's fields in its order, then table order; the view leads the views."""
    section = the_table(built(WIDE, view_id="t0.v8"))
    shown = [f.id for f in section.fields]
    assert shown[:4] == ["f29", "f7", "f1", "f0"]
    assert len(shown) == SAMPLED_FIELDS
    assert (section.field_count, section.view_count) == (30, 9)
    assert [v.id for v in section.views] == ["t0.v8", *(f"t0.v{n}" for n in range(5))]
    plain = the_table(built(WIDE))
    assert [f.id for f in plain.fields] == ["f29", *(f"f{n}" for n in range(11))]
    assert [v.id for v in plain.views] == [f"t0.v{n}" for n in range(SAMPLED_VIEWS)]


def test_the_trace_says_what_was_trimmed() -> None:
    """By table, with the figures."""
    trace = built(WIDE, table("t1"), ids=("t0", "t1")).trace["tables"]
    assert trace.status == "trimmed"
    assert trace.reason == "t0: 12 of 30 fields, 6 of 9 views"
    many = tuple(table(f"t{n}", WIDE.fields) for n in range(5))
    reason = built(*many, ids=tuple(t.id for t in many)).trace["tables"].reason
    assert reason.endswith("t2: 12 of 30 fields, 0 of 0 views; 2 more tables")
    assert built(table(fields=(field("f0"),))).trace["tables"].status == "included"


def test_a_count_that_is_missing_is_said_not_guessed() -> None:
    """`unavailable` with the reason, in the count and in the trace; the rest stays."""
    slow = Count.missing("too slow")
    counts = Counts(tables={"t0": slow}, view=slow, project_tasks=slow, project_open_tasks=slow)
    surface = built(WIDE, counts=counts, given=full(), **EVERYTHING)
    assert the_table(surface).record_count.unavailable == "too slow"
    assert surface.view is not None
    assert surface.view.record_count.value is None
    for section in ("tables", "view", "project"):
        assert surface.trace[section].status == "unavailable"
        assert surface.trace[section].reason.endswith("too slow")
    assert built(WIDE, counts=Counts()).tables[0].record_count.unavailable == "not counted"


def test_what_nobody_can_know_has_no_number_whatever_was_counted() -> None:
    """A product may count the rows that it is given, and there are none: that is not known."""
    attr = {"table": "t0", "keyField": "f0", "valueField": "f0"}
    rule = PolicyFacts(
        id="r",
        subjects=[{"type": "role", "id": "admin"}],
        pred={"cmp": {"ref": "field:f0", "op": "in", "operand": {"attr": attr}}},
        mode="restrictive",
    )
    to = {"linked_table_id": "t0", "type": "link"}
    stored = table(fields=(field("f0"), field("l").model_copy(update=to)), views=(view("t0.v1"),))
    late = stored.model_copy(update={"policies": (rule,)})
    project = PROJECT.model_copy(update={"task_table_ids": ("t0",)})
    at = Coordinates("w", "u", table_ids=("t0",), view_id="t0.v1", project_id="p")
    none, lookup = Count.of(0), policy.AttrLookup(table="t0", key_field="f0", value_field="f0")
    counts = Counts(
        tables={"t0": none}, links={"l": none}, view=none, project_tasks=none,
        project_open_tasks=none,
    )  # fmt: skip
    for table_, known in ((late, Count.missing(TOO_SLOW)), (stored, none)):
        facts = member("admin", table_, project=project)
        scope = resolve(facts, at, attributes={lookup: None})
        surface = build_surface(scope, counts, at)
        assert surface.view is not None
        assert surface.project is not None
        assert {
            the_table(surface).record_count, surface.relations[0].link_count,
            surface.view.record_count, surface.project.tasks, surface.project.open_tasks,
        } == {known}  # fmt: skip


def test_every_section_is_resolved_from_the_facts() -> None:
    """Names and counts, not echoed ids; sizes of what is there, none of what is not."""
    counts = Counts(
        tables={"t0": Count.of(7)}, view=Count.of(3), project_tasks=Count.of(9),
        project_open_tasks=Count.of(2),
    )  # fmt: skip
    surface = built(WIDE, counts=counts, given=full(), **EVERYTHING)
    assert surface.user.role == "viewer", "narrowed by the agent stack"
    assert surface.organization is not None
    assert (surface.organization.name, surface.organization.role) == ("Org", "owner")
    assert surface.team is not None
    assert surface.team.member_count == Count.of(4)
    assert surface.project is not None
    assert (surface.project.open_tasks.value, surface.project.tasks.value) == (2, 9)
    assert surface.task is not None
    assert (surface.task.title, surface.task.project_id) == ("Dig", "p")
    assert surface.view is not None
    assert (surface.view.table_id, surface.view.record_count.value) == ("t0", 3)
    assert surface.workflow is not None
    assert [agent.name for agent in surface.agent_stack] == ["Planner"]
    assert surface.absent == ()
    for section in render(surface, None, frozenset()).trace.values():
        assert (section["chars"] != 0) == (section["status"] != "absent")


@pytest.mark.parametrize("name", ["project", "task", "team", "organization", "workflow", "view"])
def test_absent_is_one_word_for_missing_and_denied(name: str) -> None:
    """Told apart only from what was not asked for."""
    denied = {
        "project": PROJECT.model_copy(update={"private": True}),
        "team": TeamFacts(id="g", name="Diggers", member_count=4, is_member=False),
        "organization": OrganizationFacts(id="o", name="Org", role=None),
    }
    asked = {
        f"{name}_id": EVERYTHING[f"{name}_id"],
    }
    missing = built(table(), **asked)
    unseen = built(table(), given={name: denied[name]} if name in denied else {}, **asked)
    assert missing == unseen
    assert missing.trace[name].reason == "not found"
    assert [one.coordinate for one in missing.absent] == [f"{name}Id"]
    assert built(table()).trace[name].reason == "not asked for"


def test_a_task_whose_row_is_out_of_sight_is_absent() -> None:
    """As if it were not there, and listed among what was not found."""
    counts = Counts(tables={"t0": Count.of(0)}, task_row_visible=False)
    surface = built(WIDE, counts=counts, given=full(), task_id="k")
    assert surface.task is None
    assert surface.trace["task"].reason == "not found"
    assert surface.absent == (Unresolved(coordinate="taskId", id="k"),)


def test_a_title_shows_only_with_the_primary_field() -> None:
    """A task's title is its row's primary field; where no way shows that, it is None."""
    for seen, title in ((True, "Dig"), (False, None)):
        counts = Counts(task_title_visible=seen)
        section = built(table(fields=(field("f0"),)), counts=counts, given=full(), task_id="k").task
        assert section is not None
        assert section.title == title


def test_relations_name_both_sides_in_sight_and_reach_one_step_out() -> None:
    """A link to a table out of sight is opaque: nothing of that table, and no count."""
    link = field("l", linked_table_id="t1", linked_field_id="back", cardinality="one")
    back = field("back", linked_table_id="t0", linked_field_id="l")
    away = field("x", linked_table_id="t9", linked_field_id="y")
    here, there = table("t0", (link, away)), table("t1", (back,))
    counts = Counts(links={"l": Count.of(5), "back": Count.of(5)})
    first, opaque, second = built(here, there, ids=("t0", "t1"), counts=counts).relations
    assert first.link_count == Count.of(5)
    assert opaque.field_id == "x"
    assert opaque.linked_table_id is opaque.linked_table_name is opaque.link_count is None
    assert (first.field_id, first.linked_field_id, first.cardinality) == ("l", "back", "one")
    assert first.linked_table_name == "Table t1"
    assert (second.table_id, second.linked_field_id) == ("t1", "l")
    alone = built(here, there)
    assert [(r.field_id, r.linked_table_id) for r in alone.relations] == [("l", "t1"), ("x", None)]
    assert "t9" not in alone.model_dump_json()
    barred = {"grants": (grant("none", "t1"),)}
    assert "t1" not in built(here, there, given=barred).model_dump_json()
    one_sided = built(here, table("t1"), ids=("t0", "t1")).relations
    assert [r.linked_field_id for r in one_sided] == [None, None]


def test_what_links_to_a_table_without_a_field_of_its_own_is_told() -> None:
    """From a table in sight that was not asked for; one out of sight is not there at all."""
    comes = table("t1", (field("in", linked_table_id="t0"),))
    (relation,) = built(table("t0"), comes).relations
    assert (relation.table_id, relation.field_id, relation.linked_table_id) == ("t1", "in", "t0")
    assert built(table("t0"), comes, given={"grants": (grant("none", "t1"),)}).relations == ()


@given(
    st.integers(0, 40).flatmap(
        lambda size: st.tuples(
            st.just(size),
            st.lists(st.integers(0, 45), unique=True),
            st.sets(st.integers(0, 45)),
            st.integers(0, max(0, size - 1)),
        )
    )
)
def test_samples_hold_their_bounds_for_any_view(
    shape: tuple[int, list[int], set[int], int],
) -> None:
    """12 fields, each once and in sight, the primary first; the same surface after the cache."""
    size, order, hidden, primary = shape
    fields = tuple(field(f"f{n}", primary=n == primary) for n in range(size))
    one = view("v", tuple(f"f{n}" for n in order), hidden=tuple(f"f{n}" for n in hidden))
    surface = built(table("t0", fields, (one,)), view_id="v")
    shown = [f.id for f in the_table(surface).fields]
    assert len(shown) == len(set(shown)) == min(size, SAMPLED_FIELDS)
    assert set(shown) <= {f.id for f in fields}
    assert shown[:1] == ([f"f{primary}"] if size else [])
    wanted = [f"f{n}" for n in order if n < size and n not in hidden and n != primary]
    assert shown[1:][: len(wanted)] == wanted[: max(0, len(shown) - 1)]
    assert Surface.model_validate_json(surface.model_dump_json()) == surface
