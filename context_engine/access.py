"""Who may see what: the only maker of a `VisibleScope`.

The order is notes' law: active membership; the narrowest scope with a grant replaces; at one
scope the user's own grant replaces those of the user's teams, which unite; the agent stack
narrows; row policies; the view's filter last, for presentation. What cannot be resolved denies,
and what is denied looks like what is missing.

Sections and row counts accept only the types below, and these can only be made here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from context_engine import keys, policy
from context_engine.errors import InvalidRequest, NotFound
from context_engine.facts import (
    AgentFacts,
    ConversationFacts,
    Facts,
    FieldFacts,
    GrantFacts,
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
from context_engine.keys import Coordinates, Tag
from context_engine.models.context import Unresolved
from context_engine.models.sections import Permission, Role

RANK: dict[Role, int] = {
    "none": 0, "viewer": 1, "commenter": 2, "editor": 3, "builder": 4, "admin": 5,
}  # fmt: skip
"""The order of roles."""

TableRole = Literal["viewer", "commenter", "editor", "builder", "admin"]
"""A role that lets its holder in."""

_MAKER = object()


def lower(a: Role, b: Role) -> Role:
    return a if RANK[a] <= RANK[b] else b


def higher(a: Role, b: Role) -> Role:
    return a if RANK[a] >= RANK[b] else b


@dataclass(frozen=True, slots=True, kw_only=True)
class _Visible:
    """Made by this module alone: the constructor wants a token that nothing else holds."""

    maker: object = field(repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.maker is not _MAKER:
            raise TypeError(f"{type(self).__name__} is made by context_engine.access only")


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleView(_Visible):
    """A view in sight. `filter` is None without one, `uncountable` says why it has no count."""

    facts: ViewFacts
    table_id: str
    field_ids: tuple[str, ...]
    """Visible fields that the view shows, in the view's order."""
    filter: policy.Pred = True
    uncountable: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleTable(_Visible):
    """A table in sight: its way in, the fields, views and rows that this user sees."""

    id: str
    name: str
    permission: Permission
    fields: tuple[FieldFacts, ...]
    views: tuple[VisibleView, ...]
    rows: policy.Pred
    """Which rows: a predicate whose operands are literals."""
    rights: str
    """Digest of all that decided the above: equal digests, equal rights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleTask(_Visible):
    """A task whose project is in sight. `row_in` is the table that decides on its row, if any."""

    facts: TaskFacts
    row_in: VisibleTable | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleConversation(_Visible):
    """A conversation that the user takes part in.

    `rights` holds, for each table in sight that tools of the tail ran over, today's digest.
    """

    facts: ConversationFacts
    user_id: str
    rights: dict[str, str]

    def shows(
        self, on_behalf_of: str | None, table_ids: Iterable[str], ran: dict[str, str]
    ) -> bool:
        """Whether a tool's content may be shown: it ran for this user, under today's rights."""
        return on_behalf_of == self.user_id and all(
            table in self.rights and ran.get(table) == self.rights[table] for table in table_ids
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Denial:
    """For operators only: which rule kept something out. Never part of an answer."""

    what: str
    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleScope(_Visible):
    """Everything of one request that its user may see, and the tags that this depends on."""

    user: UserFacts
    workspace: WorkspaceFacts
    role: Role
    tables: tuple[VisibleTable, ...]
    """The effective tables, in the order asked for."""
    view: VisibleView | None
    view_table: VisibleTable | None
    project: ProjectFacts | None
    project_tables: tuple[VisibleTable, ...]
    """Tables in sight that rows of the project's tasks are in: those rows decide on the tasks."""
    task: VisibleTask | None
    team: TeamFacts | None
    organization: OrganizationFacts | None
    workflow: WorkflowFacts | None
    agents: tuple[AgentFacts, ...]
    conversation: VisibleConversation | None
    absent: tuple[Unresolved, ...]
    """Every coordinate out of sight, inherited ones too; `settle` says what follows from it."""
    tags: frozenset[Tag]
    """What everything but the dialogue depends on."""
    dialogue_tags: frozenset[Tag]
    denials: tuple[Denial, ...]


def resolve(
    facts: Facts,
    at: Coordinates,
    *,
    inherited: frozenset[str] = frozenset(),
    strict: bool = False,
) -> VisibleScope:
    """Decides what the user of `at` sees of `facts`.

    `inherited` names the coordinates (as in `Coordinates`) that came from a session: they are
    left out when out of sight, where requested ones are fatal or listed as unresolved.

    Raises `NotFound` for the workspace, a requested table, the conversation, an agent of the
    stack, and with `strict` for every requested coordinate.
    """
    return _Resolution(facts, at, inherited, strict).scope()


class _Resolution:
    """One run of `resolve`: the facts, and what was found on the way."""

    def __init__(
        self, facts: Facts, at: Coordinates, inherited: frozenset[str], strict: bool
    ) -> None:
        self.facts, self.at, self.inherited, self.strict = facts, at, inherited, strict
        self.tags: set[Tag] = {
            keys.EVERYTHING,
            keys.WORKSPACE,
            keys.access(at.user_id),
            keys.user(at.user_id),
            keys.teams_of(at.user_id),
        }
        self.dialogue_tags: set[Tag] = set()
        self.denials: list[Denial] = []
        self.missing: list[Unresolved] = []
        self.by_id = {table.id: table for table in facts.tables}
        self.role: Role = "none"
        self.made: dict[str, VisibleTable | None] = {}

    def scope(self) -> VisibleScope:
        user, workspace, role = self.membership()
        self.role = self.narrowed(role, self.agents())
        tables = self.requested_tables()
        view, view_table = self.view()
        scope = VisibleScope(
            maker=_MAKER,
            user=user,
            workspace=workspace,
            role=self.role,
            tables=tables,
            view=view,
            view_table=view_table,
            project=self.project(),
            project_tables=self.project_tables(),
            task=self.task(),
            team=self.team(),
            organization=self.organization(workspace),
            workflow=self.workflow(),
            agents=self.facts.agents,
            conversation=self.conversation(),
            absent=tuple(self.missing),
            tags=frozenset(self.tags),
            dialogue_tags=frozenset(self.dialogue_tags),
            denials=tuple(self.denials),
        )
        settle(scope.absent, self.inherited, strict=self.strict)
        return scope

    # -- who ---------------------------------------------------------------------------------

    def membership(self) -> tuple[UserFacts, WorkspaceFacts, Role]:
        user, workspace, member = self.facts.user, self.facts.workspace, self.facts.member
        if user is None or workspace is None or member is None:
            raise NotFound("workspace", self.at.workspace_id)
        if not (user.active and member.active):
            raise NotFound("workspace", self.at.workspace_id)
        self.tags.update(keys.team(team) for team in self.facts.team_ids)
        if member.role != "defer":
            return user, workspace, member.role
        return user, workspace, self.granted("workspace", workspace.id) or "none"

    def agents(self) -> tuple[AgentFacts, ...]:
        found = {agent.id for agent in self.facts.agents}
        self.tags.update(keys.agent(agent) for agent in self.at.agent_stack)
        for agent in self.at.agent_stack:
            if agent not in found:
                raise NotFound("agent", agent)
        return self.facts.agents

    def narrowed(self, role: Role, agents: Iterable[AgentFacts]) -> Role:
        for agent in agents:
            role = lower(role, agent.max_role)
        return role

    def granted(self, scope_type: str, scope_id: str) -> Role | None:
        """The role granted at one scope: the user's own, else the highest of the teams'."""
        here = [
            g for g in self.facts.grants if (g.scope_type, g.scope_id) == (scope_type, scope_id)
        ]
        own = [g.role for g in here if g.subject_type == "user"]
        if own:
            return own[0]
        return self._highest(g for g in here if g.subject_type == "team")

    @staticmethod
    def _highest(grants: Iterable[GrantFacts]) -> Role | None:
        found: Role | None = None
        for grant in grants:
            found = grant.role if found is None else higher(found, grant.role)
        return found

    # -- tables ------------------------------------------------------------------------------

    def requested_tables(self) -> tuple[VisibleTable, ...]:
        seen = []
        for table_id in self.at.table_ids:
            self.tags.update({keys.schema(table_id), keys.views(table_id), keys.rows(table_id)})
            table = self.table(table_id)
            if table is not None:
                seen.append(table)
            else:
                self.missing.append(Unresolved(coordinate="tableIds", id=table_id))
        return tuple(seen)

    def table(self, table_id: str) -> VisibleTable | None:
        if table_id not in self.made:
            self.made[table_id] = self._table(table_id)
        return self.made[table_id]

    def _table(self, table_id: str) -> VisibleTable | None:
        facts = self.by_id.get(table_id)
        if facts is None:
            self.deny(f"table {table_id}", "missing or trashed")
            return None
        held = self.granted("table", table_id)
        member = self.facts.member
        if held is None:
            own = member.role if member else "none"
            workspace = self.at.workspace_id
            held = (self.granted("workspace", workspace) or "none") if own == "defer" else own
        role = self.narrowed(held, self.facts.agents)
        if any(a.table_ids is not None and table_id not in a.table_ids for a in self.facts.agents):
            self.deny(f"table {table_id}", "agent stack")
            return None
        if role == "none":
            self.deny(f"table {table_id}", "role none")
            return None
        return self._opened(facts, held, role)

    def _opened(self, facts: TableFacts, held: Role, role: TableRole) -> VisibleTable:
        # Policies name the role by which the way in is held, before the agents narrow it.
        rows = self.rows(facts, held)
        self._tag_reads(facts.id, rows)
        field_ids = {f.id for f in facts.fields}
        views = tuple(
            self._view(facts.id, view, field_ids)
            for view in facts.views
            if self._view_in_sight(view, role)
        )
        return VisibleTable(
            maker=_MAKER,
            id=facts.id,
            name=facts.name,
            permission=role,
            fields=facts.fields,
            views=views,
            rows=rows,
            rights=keys.digest(
                "rights", held, role, facts.policy_default,
                [p.model_dump(mode="json") for p in facts.policies], sorted(self.facts.team_ids),
            ),
        )  # fmt: skip

    def _tag_reads(self, table_id: str, pred: policy.Pred) -> None:
        refs = policy.refs_read(pred)
        self.tags.update(keys.value(table_id, ref.partition(":")[2]) for ref in refs)
        if refs:
            self.tags.add(keys.any_value(table_id))

    def rows(self, table: TableFacts, role: Role) -> policy.Pred:
        """Rows of the table's way in: default or a permissive policy, and every restrictive one."""
        preds = [p for p in map(self._policy(table, role), table.policies) if p is not None]
        opening: list[policy.Pred] = [p for mode, p in preds if mode == "permissive"]
        closing = [p for mode, p in preds if mode == "restrictive"]
        if table.policy_default == "show_all":
            opening = [True]
        elif table.policy_default != "deny_all":
            self.deny(f"rows of {table.id}", "unknown default")
            return False
        if any(p is False for p in closing) or not opening:
            return False
        base = opening[0] if len(opening) == 1 else policy.Any_(any=tuple(opening))
        if not closing:
            return base
        return policy.All(all=(base, *closing))

    def _policy(self, table: TableFacts, role: Role) -> _PolicyReader:
        return _PolicyReader(self, table, role)

    # -- views -------------------------------------------------------------------------------

    def _view_in_sight(self, view: ViewFacts, role: Role) -> bool:
        match view.ownership:
            case "collaborative":
                return True
            case "personal":
                return view.owner_id == self.at.user_id
            case "restricted":
                return role == "admin"
            case _:
                return False

    def _view(self, table_id: str, view: ViewFacts, field_ids: set[str]) -> VisibleView:
        shown = [f for f in view.field_order if f in field_ids and f not in view.hidden]
        rest = sorted(field_ids - set(view.field_order) - set(view.hidden))
        made = VisibleView(maker=_MAKER, facts=view, table_id=table_id, field_ids=(*shown, *rest))
        if view.filter is None:
            return made
        try:
            pred = policy.resolve(policy.parse(view.filter), self.operands())
        except (InvalidRequest, policy.Unresolvable):
            return replace(made, filter=False, uncountable="the filter cannot be computed")
        if not policy.fields_read(pred) <= field_ids:
            return replace(made, filter=False, uncountable="the filter cannot be computed")
        return replace(made, filter=pred)

    def view(self) -> tuple[VisibleView | None, VisibleTable | None]:
        """The requested view, on one of the context's tables or, without tables, on its own."""
        if self.at.view_id is None:
            return None, None
        self.tags.add(keys.ANY_VIEW)
        owner = next(
            (t.id for t in self.facts.tables for v in t.views if v.id == self.at.view_id), None
        )
        if owner is not None and (not self.at.table_ids or owner in self.at.table_ids):
            self.tags.update({keys.schema(owner), keys.views(owner), keys.rows(owner)})
            table = self.table(owner)
            for view in table.views if table else ():
                if view.facts.id == self.at.view_id:
                    self._tag_reads(owner, view.filter)
                    return view, table
        self.absent("view", self.at.view_id)
        return None, None

    # -- other coordinates -------------------------------------------------------------------

    def project(self) -> ProjectFacts | None:
        if self.at.project_id is None:
            return None
        self.tags.update({keys.project(self.at.project_id), keys.tasks_of(self.at.project_id)})
        if self.facts.project is not None and self._project_in_sight(self.facts.project):
            return self.facts.project
        self.absent("project", self.at.project_id)
        return None

    def project_tables(self) -> tuple[VisibleTable, ...]:
        project = self.facts.project
        if project is None or project.id != self.at.project_id:
            return ()
        if not self._project_in_sight(project):
            return ()
        found = []
        for table_id in project.task_table_ids:
            self.tags.update({keys.schema(table_id), keys.rows(table_id)})
            if (table := self.table(table_id)) is not None:
                found.append(table)
        return tuple(found)

    def _project_in_sight(self, project: ProjectFacts) -> bool:
        return project.is_member if project.private else RANK[self.role] >= RANK["viewer"]

    def task(self) -> VisibleTask | None:
        if self.at.task_id is None:
            return None
        task = self.facts.task
        self.tags.add(keys.task(self.at.task_id))
        if task is None:
            self.absent("task", self.at.task_id)
            return None
        if task.project is not None:
            self.tags.add(keys.project(task.project.id))
        in_sight = task.project is None or self._project_in_sight(task.project)
        row_in = None
        if task.table_id is not None:
            self.tags.update({keys.schema(task.table_id), keys.rows(task.table_id)})
            row_in = self.table(task.table_id)
            in_sight = in_sight and row_in is not None
        if task.project is None:
            in_sight = in_sight and RANK[self.role] >= RANK["viewer"]
        if not in_sight:
            self.absent("task", self.at.task_id)
            return None
        return VisibleTask(maker=_MAKER, facts=task, row_in=row_in)

    def team(self) -> TeamFacts | None:
        if self.at.team_id is None:
            return None
        self.tags.add(keys.team(self.at.team_id))
        team = self.facts.team
        if team is not None and (team.is_member or self.role == "admin"):
            return team
        self.absent("team", self.at.team_id)
        return None

    def organization(self, workspace: WorkspaceFacts) -> OrganizationFacts | None:
        if self.at.organization_id is None:
            return None
        self.tags.add(keys.organization(self.at.organization_id))
        organization = self.facts.organization
        if (
            organization is not None
            and organization.role is not None
            and organization.id == workspace.organization_id
        ):
            return organization
        self.absent("organization", self.at.organization_id)
        return None

    def workflow(self) -> WorkflowFacts | None:
        if self.at.workflow_id is None:
            return None
        self.tags.add(keys.workflow(self.at.workflow_id))
        if self.facts.workflow is not None and RANK[self.role] >= RANK["viewer"]:
            return self.facts.workflow
        self.absent("workflow", self.at.workflow_id)
        return None

    def conversation(self) -> VisibleConversation | None:
        if self.at.conversation_id is None:
            return None
        self.dialogue_tags.add(keys.conversation(self.at.conversation_id))
        conversation = self.facts.conversation
        if conversation is None or not conversation.is_participant:
            self.deny(f"conversation {self.at.conversation_id}", "missing or no participant")
            if "conversation_id" in self.inherited:
                return None
            raise NotFound("conversation", self.at.conversation_id)
        surface = set(self.tags)
        rights = {}
        for table in self.facts.tables:
            self.dialogue_tags.update({keys.schema(table.id), keys.rows(table.id)})
            if (seen := self.table(table.id)) is not None:
                rights[table.id] = seen.rights
        # What tools ran over is the dialogue's matter: the surface must not depend on it.
        self.dialogue_tags |= self.tags - surface
        self.tags = surface
        return VisibleConversation(
            maker=_MAKER, facts=conversation, user_id=self.at.user_id, rights=rights
        )

    # -- what is kept out --------------------------------------------------------------------

    def operands(self) -> policy.UserOperands:
        user = self.facts.user
        return policy.UserOperands(
            id=self.at.user_id,
            email_norm=user.email_norm if user else None,
            team_ids=self.facts.team_ids,
        )

    def deny(self, what: str, rule: str) -> None:
        self.denials.append(Denial(what=what, rule=rule))

    def absent(
        self,
        kind: Literal["view", "project", "task", "team", "organization", "workflow"],
        id: str,
    ) -> None:
        """Notes a coordinate out of sight; what follows is `settle`'s to say."""
        self.deny(f"{kind} {id}", "missing or out of sight")
        self.missing.append(Unresolved(coordinate=f"{kind}Id", id=id))


def settle(
    absent: Iterable[Unresolved], inherited: frozenset[str], *, strict: bool = False
) -> tuple[Unresolved, ...]:
    """What an answer lists as unresolved: the coordinates out of sight that were asked for.

    Inherited ones are left out. Raises `NotFound` for a requested table, and with `strict` for
    every requested coordinate. Holds for a cached surface as for a new resolution.
    """
    listed = []
    for one in absent:
        name = _PYTHON_NAMES[one.coordinate]
        if name in inherited:
            continue
        if strict or name == "table_ids":
            raise NotFound(name.removesuffix("_id").removesuffix("_ids"), one.id)
        listed.append(one)
    return tuple(listed)


_PYTHON_NAMES = {
    "tableIds": "table_ids",
    "viewId": "view_id",
    "projectId": "project_id",
    "taskId": "task_id",
    "teamId": "team_id",
    "organizationId": "organization_id",
    "workflowId": "workflow_id",
}


class _PolicyReader:
    """Reads one stored policy for one user: (mode, predicate), or None where it names another.

    Garbage denies: as restrictive it closes the table, as permissive it opens nothing.
    """

    def __init__(self, run: _Resolution, table: TableFacts, role: Role) -> None:
        self.run, self.table, self.role = run, table, role

    def __call__(self, stored: PolicyFacts) -> tuple[str, policy.Pred] | None:
        try:
            parsed = policy.RowPolicy.model_validate(
                {
                    "subjects": stored.subjects,
                    "pred": policy.parse(stored.pred),
                    "mode": stored.mode,
                }
            )
            if not self._names(parsed):
                return None
            pred = policy.resolve(parsed.pred, self.run.operands())
        except (ValueError, InvalidRequest, policy.Unresolvable) as fault:
            self.run.deny(f"rows of {self.table.id}", f"policy {stored.id}: {type(fault).__name__}")
            return "restrictive", False
        if not policy.fields_read(pred) <= {f.id for f in self.table.fields}:
            self.run.deny(f"rows of {self.table.id}", f"policy {stored.id} names a missing field")
            return "restrictive", False
        return parsed.mode, pred

    def _names(self, parsed: policy.RowPolicy) -> bool:
        mine = {("user", self.run.at.user_id), ("role", self.role)}
        mine |= {("team", team) for team in self.run.facts.team_ids}
        return any((s.type, s.id) in mine for s in parsed.subjects)


def rights_of(scope: VisibleScope, table_ids: Iterable[str]) -> dict[str, str]:
    """The digests that a tool message stores: under which rights it ran, table by table."""
    return {table.id: table.rights for table in scope.tables if table.id in set(table_ids)}
