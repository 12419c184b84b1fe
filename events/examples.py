"""One example of every message, over the ids of the workspace that `context-engine dev` loads.

The documentation, the AsyncAPI document and the tests take them from here.
"""

from __future__ import annotations

from context_engine import keys
from context_engine.changes import (
    AgentChanged,
    AnyChange,
    ConversationChanged,
    FieldChanged,
    FieldPermissionChanged,
    GrantChanged,
    GrantScope,
    LinksChanged,
    MemberChanged,
    MessageChanged,
    OrganizationChanged,
    ParticipantsChanged,
    PolicyChanged,
    ProjectChanged,
    RecordsChanged,
    RelationChanged,
    Subject,
    TableChanged,
    TaskChanged,
    TeamChanged,
    TeamMemberChanged,
    UserChanged,
    ViewChanged,
    WorkflowChanged,
    WorkspaceChanged,
)
from context_engine.models import ContextBuildInput
from events.cloudevents import SPECVERSION
from events.messages import (
    BuildFailed,
    BuildOptions,
    BuildRequest,
    ContextEvicted,
    Heartbeat,
    change_type,
)

PRODUCT = "my-product"
"""CloudEvents `source` of the examples."""

W = "ws-delivery"
ANA, CHLOE = "usr-ana", "usr-chloe"
TASKS, INCIDENTS, PROJECTS = "tbl-tasks", "tbl-incidents", "tbl-projects"

CHANGES: tuple[AnyChange, ...] = (
    TableChanged(workspace_id=W, table_id=TASKS, op="renamed"),
    FieldChanged(workspace_id=W, table_id=TASKS, field_id="fld-task-status", op="updated"),
    ViewChanged(workspace_id=W, table_id=TASKS, view_id="viw-tasks-open", op="updated"),
    RelationChanged(
        workspace_id=W,
        table_id=TASKS,
        field_id="fld-task-project",
        linked_table_id=PROJECTS,
        linked_field_id="fld-project-tasks",
        op="created",
    ),
    GrantChanged(
        workspace_id=W,
        subject=Subject(type="user", id=CHLOE),
        scope=GrantScope(type="table", id=INCIDENTS),
        op="deleted",
    ),
    FieldPermissionChanged(
        workspace_id=W,
        table_id=TASKS,
        field_id="fld-task-status",
        subject=Subject(type="team", id="team-support"),
        op="updated",
    ),
    PolicyChanged(workspace_id=W, table_id=TASKS, op="updated"),
    AgentChanged(workspace_id=W, agent_id="agt-planner", op="updated"),
    RecordsChanged(
        workspace_id=W,
        table_id=TASKS,
        record_ids=("rec-tasks-0001", "rec-tasks-0002"),
        op="updated",
        field_ids=("fld-task-status",),
    ),
    LinksChanged(
        workspace_id=W,
        table_id=TASKS,
        field_id="fld-task-project",
        linked_table_id=PROJECTS,
        linked_field_id="fld-project-tasks",
        record_ids=("rec-tasks-0001",),
    ),
    ProjectChanged(workspace_id=W, project_id="prj-atlas", op="members"),
    TaskChanged(workspace_id=W, task_id="tsk-freeze", project_ids=("prj-atlas",), op="updated"),
    WorkflowChanged(workspace_id=W, workflow_id="wfl-triage", op="updated"),
    MemberChanged(workspace_id=W, user_id=CHLOE, op="removed"),
    TeamMemberChanged(workspace_id=W, team_id="team-support", user_id=CHLOE, op="removed"),
    TeamChanged(workspace_id=W, team_id="team-support", op="updated", member_ids=(ANA, CHLOE)),
    UserChanged(workspace_id=W, user_id=CHLOE, op="updated"),
    OrganizationChanged(workspace_id=W, organization_id="org-harbour", op="updated"),
    WorkspaceChanged(workspace_id=W, op="updated"),
    MessageChanged(workspace_id=W, conversation_id="cnv-launch", message_id="msg-31", op="added"),
    ParticipantsChanged(
        workspace_id=W, conversation_id="cnv-launch", user_ids=(CHLOE,), op="removed"
    ),
    ConversationChanged(workspace_id=W, conversation_id="cnv-launch", op="updated"),
)
"""One of every class, in the order of the union."""

REQUEST = BuildRequest(
    request_id="r-1",
    input=ContextBuildInput(
        user_id=ANA,
        workspace_id=W,
        table_ids=(TASKS,),
        session_id="s-1",
        message="Why is this late?",
    ),
    options=BuildOptions(fresh=False, strict=False),
)

FAILED = BuildFailed(
    request_id="r-1",
    code="not_found",
    message="table 'tbl-incidents' was not found",
    retryable=False,
)

EVICTED = ContextEvicted(
    workspace_id=W,
    change_id="change-5",
    change_type="grant.changed",
    topic="domain.permission-change",
    partition=3,
    offset=17,
    tags=(keys.digest("an example")[:32],),
    clock=42,
    count=2,
    scope_keys=(keys.scope_of(W, CHLOE, "s-1", None).key,),
)

HEARTBEAT = Heartbeat(at_ms=1_760_000_000_000, reigns=("3f" * 40,), partitions=6)


def as_sent(change: AnyChange) -> str:
    """An example as a product sends it: one line of JSON, without what may be left out."""
    number = [one.type for one in CHANGES].index(change.type) + 1
    named = change.model_copy(update={"change_id": f"change-{number}"})
    return named.model_dump_json(exclude_none=True)


def headers_of(change: AnyChange) -> dict[str, str]:
    """The Kafka headers of an example in binary mode, by name."""
    number = [one.type for one in CHANGES].index(change.type) + 1
    return {
        "ce_specversion": SPECVERSION,
        "ce_type": change_type(change),
        "ce_source": PRODUCT,
        "ce_id": f"change-{number}",
        "content-type": "application/json",
    }


def console_line(change: AnyChange, topic: str, bootstrap: str) -> str:
    """A shell command that sends an example with Kafka's console producer.

    The producer splits each line at its tabs: headers, key, value.
    """
    headers = ",".join(f"{name}:{value}" for name, value in headers_of(change).items())
    key = change.workspace_id
    return (
        f"printf '%s\\t%s\\t%s\\n' \\\n  '{headers}' \\\n  '{key}' \\\n  '{as_sent(change)}' |\n"
        f"kafka-console-producer.sh --bootstrap-server {bootstrap} --topic {topic} \\\n"
        "  --property parse.headers=true --property parse.key=true"
    )
