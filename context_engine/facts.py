"""What the domain says, before anyone has decided who may see it.

Facts come out of one consistent reading of the database and go into `access`, which makes the
visible scope of them. Nothing else may read them: a section that did would skip permission.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, JsonValue, field_validator

from context_engine.frozen import frozen
from context_engine.models.sections import Role

UNREADABLE: Final = "unreadable"
"""Stands for a stored rule that is no JSON that can be held; no grammar knows it."""
TABLE_CHARS: Final = 16_384
"""Characters of what is told of one table, most often: what is more weighs as several tables."""
NOWHERE: Final = (("", ""),)
"""Stands for the `reads` of a field that cannot be read. Nothing is there, so it is hidden."""


class Fact(BaseModel):
    """A frozen row, snake_case as SQL gives it. What is kept of tables, and handed out, serves all
    requests, so its JSON is `frozen` too. What is wrong with one is told without its values: they
    are users' own, and errors end in logs. As JSON no two of them are spelled alike: numbers that
    are not finite are not null."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, ser_json_inf_nan="constants"
    )


class UserFacts(Fact):
    id: str
    name: str
    email_norm: str | None
    locale: str | None
    timezone: str | None
    active: bool


class WorkspaceFacts(Fact):
    id: str
    name: str
    organization_id: str | None


class MemberFacts(Fact):
    """`role` is `defer` for the sentinel "defer to teams"."""

    role: Role | Literal["defer"]
    active: bool


class GrantFacts(Fact):
    """A role given to the user, or to a team of the user, on a workspace, table or view."""

    subject_type: Literal["user", "team"]
    subject_id: str
    scope_type: Literal["workspace", "table", "view"]
    scope_id: str
    role: Role
    table_id: str | None = None
    """The table that a view is of."""


class PolicyFacts(Fact):
    """A row policy as stored; `pred` is not trusted to parse."""

    id: str
    subjects: JsonValue
    pred: JsonValue
    mode: str

    _frozen = field_validator("subjects", "pred")(frozen)


class FieldPermissionFacts(Fact):
    """What one subject may do with a field; it narrows, and raises nobody."""

    field_id: str
    subject_type: Literal["user", "team", "role"]
    subject_id: str
    level: Literal["none", "read", "write"]


class FieldFacts(Fact):
    id: str
    name: str
    type: str
    primary: bool
    linked_table_id: str | None = None
    linked_field_id: str | None = None
    cardinality: Literal["one", "many"] = "many"
    reads: tuple[tuple[str, str], ...] | None = ()
    """(table, field) of all that a computed field is made of at first hand; None: not known."""


class ViewFacts(Fact):
    id: str
    name: str
    type: str
    ownership: str
    """`collaborative`, `personal` or `restricted`; anything else is nobody's."""
    owner_id: str | None
    filter: JsonValue
    """A predicate of the policy grammar, `{"where": ..}` in the language of views, or None; not
    trusted to parse."""
    hidden: tuple[str, ...]
    field_order: tuple[str, ...]

    _frozen = field_validator("filter")(frozen)


class ViewHead(Fact):
    """What tells whether a view is in sight, before its table is read."""

    id: str
    table_id: str
    ownership: str
    owner_id: str | None


class TableFacts(Fact):
    """A live table of the workspace. Fields and views come in table order."""

    id: str
    name: str
    policy_default: str
    policies: tuple[PolicyFacts, ...]
    fields: tuple[FieldFacts, ...]
    views: tuple[ViewFacts, ...]
    """All of a table that was asked for; of the others the restricted ones."""
    field_permissions: tuple[FieldPermissionFacts, ...] = ()
    """Those that name the user, a team of the user, or a role."""
    grants: tuple[GrantFacts, ...] = ()
    """Those of the user and of the user's teams, on the table and on its views."""


class ReadTables(tuple[TableFacts, ...]):
    """Tables as one text told them. Of equal digests they are equal; any other tuple has none."""

    digest: str
    weight: int
    """For how many tables of usual size they stand in memory."""
    made: dict[object, object]
    """What was made of this very object, kept as long as it is."""

    @classmethod
    def of(cls, tables: tuple[TableFacts, ...], digest: str, *, chars: int = 0) -> ReadTables:
        """`tables`, told by a text with this digest, of so many characters."""
        made = cls(tables)
        made.digest, made.made = digest, {}
        made.weight = max(len(tables), chars // TABLE_CHARS)
        return made


class ProjectFacts(Fact):
    id: str
    name: str
    status: str
    due_on: str | None
    private: bool
    is_member: bool
    task_table_ids: tuple[str, ...] = ()
    """Tables that rows of its tasks are in; their rows decide which tasks are in sight."""


class TaskFacts(Fact):
    id: str
    title: str
    status: str
    project: ProjectFacts | None
    table_id: str | None
    record_id: str | None
    assignee_id: str | None
    due_on: str | None


class TeamFacts(Fact):
    id: str
    name: str
    member_count: int
    is_member: bool


class OrganizationFacts(Fact):
    id: str
    name: str
    role: str | None
    """The user's role in it; None for who is not a member."""


class WorkflowFacts(Fact):
    id: str
    name: str
    status: str


class AgentFacts(Fact):
    id: str
    name: str
    max_role: Role
    table_ids: tuple[str, ...] | None


class MessageFacts(Fact):
    """A stored message. Sizes are in characters, counted when it was written."""

    id: str
    role: Literal["user", "assistant", "system", "tool"]
    author_id: str | None
    content: str
    chars: int
    tool_calls: tuple[dict[str, JsonValue], ...] = ()
    tool_call_id: str | None = None
    on_behalf_of: str | None = None
    """For whom a tool ran."""
    table_ids: tuple[str, ...] = ()
    """Tables a tool ran over."""
    rights: dict[str, str] = {}
    """Digest, for each of those tables, of the rights it ran under (`access.rights_of`)."""
    readable: bool = True
    """False where what a tool did is stored as something that cannot be read, and left out."""
    at: AwareDatetime


class DialogueFacts(Fact):
    """The tail of a conversation, oldest first, and the size of the whole."""

    messages: tuple[MessageFacts, ...] = ()
    message_count: int = 0
    total_chars: int = 0
    """Characters of what people and the assistant wrote. What tools found is not among them:
    whether a user may see it is decided anew, and its length would tell of what is withheld."""


class ConversationFacts(Fact):
    id: str
    title: str
    is_participant: bool
    dialogue: DialogueFacts = DialogueFacts()
    """Read for a participant only."""


class Facts(Fact):
    """Everything that one request's permission is decided on. None and missing: not there.

    They come in two readings. The first tells who asks and with which rights, and what stands at
    the coordinates. The second tells of `tables`, and only where a right leads in: a table out of
    sight takes the same steps as one that is missing.
    """

    now: AwareDatetime | None = None
    """The database's time."""
    timeline: str | None = None
    """The database's: opaque, another one after a failover. None where there is none."""
    user: UserFacts | None = None
    workspace: WorkspaceFacts | None = None
    member: MemberFacts | None = None
    team_ids: tuple[str, ...] = ()
    grants: tuple[GrantFacts, ...] = ()
    """Those of the user and of the user's teams on the workspace, and on the tables here and
    their views. One on no id at all stands in where there is none."""
    named: tuple[str, ...] = ()
    """The live tables that the request comes to: those requested, those of the requested task and
    project's tasks, and those that tool messages of the conversation's tail ran over. No id at
    all stands in for one that is not there."""
    view: ViewHead | None = None
    """The requested view, of a live table."""
    tables: tuple[TableFacts, ...] = ()
    """Of `named`, those that a right leads into; and the tables that these link to, are linked
    from, compute from or have rules over."""
    project: ProjectFacts | None = None
    task: TaskFacts | None = None
    team: TeamFacts | None = None
    organization: OrganizationFacts | None = None
    workflow: WorkflowFacts | None = None
    agents: tuple[AgentFacts, ...] = ()
    conversation: ConversationFacts | None = None

    def with_tables(self, read: Sequence[TableFacts]) -> Facts:
        """These facts with the second reading, and the grants that came with it."""
        tables = read if isinstance(read, tuple) else tuple(read)
        grants = (*self.grants, *(grant for table in tables for grant in table.grants))
        unique = {(g.scope_type, g.scope_id, g.subject_type, g.subject_id): g for g in grants}
        return self.model_copy(update={"tables": tables, "grants": tuple(unique.values())})
