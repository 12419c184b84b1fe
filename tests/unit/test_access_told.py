"""What leaves the engine of what is out of sight: nothing, and the same as of what is missing."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from context_engine import access, keys
from context_engine.errors import NotFound
from context_engine.facts import (
    AgentFacts,
    ConversationFacts,
    DialogueFacts,
    Facts,
    MessageFacts,
    OrganizationFacts,
    PolicyFacts,
    ProjectFacts,
    TaskFacts,
    TeamFacts,
    WorkflowFacts,
)
from tests.support.facts import resolve
from tests.unit.test_access import OWN, at, facts, grant, table, view

PRIVATE = ProjectFacts(
    id="p", name="P", status="open", due_on=None, private=True, is_member=False,
    task_table_ids=("t", "barred"),
)  # fmt: skip
BARRED = table("barred", views=(view("barred.v"),))
NO_WAY_IN = grant("none", scope_id="barred")
POLICY = PolicyFacts(id="r", subjects=[{"type": "user", "id": "u"}], pred=OWN, mode="restrictive")


def task(**more: object) -> TaskFacts:
    given = {"project": None, "table_id": None, "record_id": None, **more}
    return TaskFacts(id="k", title="K", status="open", assignee_id=None, due_on=None, **given)  # type: ignore[arg-type]


HIDDEN: dict[str, tuple[dict[str, str], dict[str, object]]] = {
    "a restricted view": (
        {"view_id": "v"},
        {"tables": (table(views=(view("v", "restricted"),), policies=(POLICY,)),)},
    ),
    "a view of a barred table": ({"view_id": "barred.v"}, {"tables": (table(), BARRED)}),
    "a private project": ({"project_id": "p"}, {"project": PRIVATE}),
    "a task of a private project": ({"task_id": "k"}, {"task": task(project=PRIVATE)}),
    "a task with its row in a barred table": (
        {"task_id": "k"},
        {"task": task(table_id="barred", record_id="r"), "tables": (table(), BARRED)},
    ),
    "a team of others": (
        {"team_id": "g"},
        {"team": TeamFacts(id="g", name="G", member_count=3, is_member=False)},
    ),
    "an organization of others": (
        {"organization_id": "o"},
        {"organization": OrganizationFacts(id="o", name="O", role=None)},
    ),
}


def shown(made: access.VisibleScope) -> dict[str, object]:
    """All of a scope that can reach an answer."""
    inside = {"tags", "denials", "maker", "dialogue_tags"}
    return {name: getattr(made, name) for name in made.__slots__ if name not in inside}


@pytest.mark.parametrize("what", HIDDEN)
@pytest.mark.parametrize("tables", [("t",), ()])
def test_hidden_tells_what_missing_tells(what: str, tables: tuple[str, ...]) -> None:
    """Beside an open table or alone; what is kept inside may differ, and must for freshness."""
    asked, stored = HIDDEN[what]
    where = at(table_ids=tables, **asked)
    there = facts("viewer", grants=(NO_WAY_IN,), **stored)
    gone: dict[str, object] = {"tables": (stored.get("tables", (table(),))[0],)}  # type: ignore[index]
    if what == "a restricted view":
        gone = {"tables": (table(policies=(POLICY,)),)}
    missing = facts("viewer", grants=(NO_WAY_IN,), **gone)
    hidden, other = resolve(there, where), resolve(missing, where)
    if tables:
        # The open table itself is the same but for the view that is not there.
        assert [t.rights for t in hidden.tables] == [t.rights for t in other.tables]
    assert hidden.told == other.told
    assert hidden.absent == other.absent
    assert {**shown(hidden), "tables": ()} == {**shown(other), "tables": ()}


def test_what_is_kept_inside_reaches_what_would_bring_it_in_sight() -> None:
    """An entry falls when the hidden view's table changes, though nobody is told."""
    asked, stored = HIDDEN["a view of a barred table"]
    made = resolve(facts(grants=(NO_WAY_IN,), **stored), at(table_ids=(), **asked))
    assert keys.views("barred") in made.tags - made.told


def test_a_task_tells_of_its_row_apart() -> None:
    """Whether its row is in sight only the count knows."""
    stored = {"task": task(table_id="t", record_id="r"), "tables": (table(policies=(POLICY,)),)}
    made = resolve(facts(**stored), at(table_ids=(), task_id="k"))
    assert made.task is not None
    assert keys.rows("t") in made.tags & made.task.told
    assert keys.rows("t") not in made.told
    assert keys.task("k") in made.told


def test_a_project_tells_only_of_tables_in_sight() -> None:
    """Tasks in a barred table are neither counted nor told of."""
    mine = PRIVATE.model_copy(update={"is_member": True})
    stored = {"project": mine, "tables": (table(), BARRED), "grants": (NO_WAY_IN,)}
    made = resolve(facts(**stored), at(table_ids=(), project_id="p"))
    assert keys.rows("t") in made.told
    assert keys.rows("barred") in made.tags - made.told


def test_what_is_out_of_sight_is_listed_in_one_order() -> None:
    """Not in the order in which it was found to be."""
    asked = {"workflow_id": "f", "team_id": "g", "task_id": "k", "project_id": "p", "view_id": "v"}
    made = resolve(facts(), at(**asked))
    assert [one.coordinate for one in made.absent] == [
        "viewId", "projectId", "taskId", "teamId", "workflowId",
    ]  # fmt: skip
    assert access.in_order(reversed(made.absent)) == made.absent


def test_agents_are_for_viewers_and_more() -> None:
    """A member with role none sees no agent, even where a table grant lets it in."""
    agent = AgentFacts(id="a", name="A", max_role="admin", table_ids=None)
    with pytest.raises(NotFound, match="agent 'a' was not found"):
        resolve(facts("none", agents=(agent,), grants=(grant("editor"),)), at(agent_stack=("a",)))


def test_an_agent_that_may_do_nothing_sees_nothing_by_its_users_memberships() -> None:
    """Private project, task, team and organization are narrowed too."""
    agent = AgentFacts(id="a", name="A", max_role="none", table_ids=None)
    mine = PRIVATE.model_copy(update={"is_member": True})
    stored: dict[str, object] = {
        "project": mine,
        "task": task(project=mine),
        "team": TeamFacts(id="g", name="G", member_count=3, is_member=True),
        "organization": OrganizationFacts(id="o", name="O", role="owner"),
        "workflow": WorkflowFacts(id="f", name="F", status="on"),
    }
    asked = {
        "project_id": "p", "task_id": "k", "team_id": "g", "organization_id": "o",
        "workflow_id": "f", "table_ids": (),
    }  # fmt: skip
    own = resolve(facts(**stored), at(**asked))
    assert own.absent == ()
    made = resolve(facts(agents=(agent,), **stored), at(agent_stack=("a",), **asked))
    assert (made.project, made.task, made.team, made.organization, made.workflow) == (None,) * 5


def test_the_dialogue_tells_of_tables_out_of_sight_as_of_those_that_are_gone() -> None:
    """Tools ran over an open table, a barred and a trashed one."""
    message = MessageFacts.model_validate(
        {"id": "m", "role": "tool", "author_id": None, "content": "", "chars": 0,
         "table_ids": ["t", "barred", "gone"], "at": "2026-05-01T09:00:00Z"}
    )  # fmt: skip
    talk = ConversationFacts(
        id="c", title="C", is_participant=True,
        dialogue=DialogueFacts(messages=(message,), message_count=1),
    )  # fmt: skip
    stored = Facts(
        **{**dict(facts(grants=(NO_WAY_IN,), tables=(table(), BARRED))), "conversation": talk}
    )
    made = resolve(stored, at(table_ids=(), conversation_id="c"))
    told = {keys.schema(id) for id in ("t", "barred", "gone")}
    assert made.dialogue_told == told | {keys.conversation("c"), keys.rows("t")}
    assert keys.rows("barred") in made.dialogue_tags
    assert asdict(made.denials[0])["what"] == "table barred"
