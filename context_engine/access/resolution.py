"""From facts to the visible scope: who asks, with which role, and what that lets in sight."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType

from context_engine import keys
from context_engine.access.denied import Denied
from context_engine.access.kept import DECISIONS
from context_engine.access.links import links_in_sight
from context_engine.access.roles import RANK, in_workspace, narrowed
from context_engine.access.run import Attributes, Run
from context_engine.access.tables import Tables
from context_engine.access.unresolved import in_order, settle
from context_engine.access.visible import MAKER, VisibleConversation, VisibleScope
from context_engine.access.work import (
    organization_in_sight,
    project_in_sight,
    project_tables,
    task_in_sight,
    team_in_sight,
    workflow_in_sight,
)
from context_engine.errors import NotFound
from context_engine.facts import AgentFacts, Facts, UserFacts, WorkspaceFacts
from context_engine.keys import Coordinates
from context_engine.models.sections import Role


def resolve(
    facts: Facts,
    at: Coordinates,
    *,
    inherited: frozenset[str] = frozenset(),
    strict: bool = False,
    now: datetime | None = None,
    attributes: Attributes = MappingProxyType({}),
) -> VisibleScope:
    """Decides what the user of `at` sees of `facts`, `now`: the time of the facts unless given.

    `attributes`: what was found for the `user.attr` of `lookups`.

    `inherited` names the coordinates (as in `Coordinates`) that came from a session: they are
    left out when out of sight, where requested ones are fatal or listed as unresolved.

    Raises `NotFound` for the workspace, and `Denied` for a requested table, the conversation, an
    agent of the stack, and with `strict` for every requested coordinate.
    """
    now = now or facts.now or datetime.now(UTC)
    # Without the dialogue, which is told of by itself, and is nothing to keep in memory.
    here = replace(at, session_id=None, conversation_id=None)
    run = Run(facts.model_copy(update={"conversation": None}), here, now, attributes)
    scope = DECISIONS.of(run, lambda: _scope(run))
    if at.conversation_id is not None:
        scope = _with_talk(scope, Run(facts, at, now, attributes), inherited)
    settle(scope.absent, inherited, tags=scope.tags, strict=strict)
    return scope


def _scope(run: Run) -> VisibleScope:
    """All but the conversation."""
    user, workspace, held = _membership(run)
    agents = _agents(run, held)
    role = narrowed(held, agents)
    tables = Tables(run, agents)
    requested = tables.requested()
    links = links_in_sight(run, tables, requested)
    view, view_table = tables.view()
    project = project_in_sight(run, role)
    of_project = project_tables(run, tables, role)
    task = task_in_sight(run, tables, role)
    team = team_in_sight(run, role)
    organization = organization_in_sight(run, workspace)
    workflow = workflow_in_sight(run, role)
    return VisibleScope(
        maker=MAKER,
        user=user,
        workspace=workspace,
        role=role,
        tables=requested,
        view=view,
        view_table=view_table,
        links=links,
        project=project,
        project_tables=of_project,
        task=task,
        team=team,
        organization=organization,
        workflow=workflow,
        agents=agents,
        conversation=None,
        absent=in_order(run.missing),
        tags=frozenset(run.tags),
        told=frozenset(run.told),
        dialogue_tags=frozenset(),
        dialogue_told=frozenset(),
        denials=tuple(run.denials),
        faults=tuple(run.faults),
        until=run.until,
        passing=bool(run.late),
        timeline=run.facts.timeline,
    )


def _membership(run: Run) -> tuple[UserFacts, WorkspaceFacts, Role]:
    """Who asks, where, and the role there before the agents narrow it."""
    user, workspace, member = run.facts.user, run.facts.workspace, run.facts.member
    if user is None or workspace is None or member is None:
        raise NotFound("workspace", run.at.workspace_id)
    if not (user.active and member.active):
        raise NotFound("workspace", run.at.workspace_id)
    run.tell(keys.team(team) for team in run.facts.team_ids)
    return user, workspace, in_workspace(run.facts, workspace.id)


def _agents(run: Run, held: Role) -> tuple[AgentFacts, ...]:
    """The stack, every agent of which must be there; `held` is the role in the workspace."""
    seen = run.facts.agents if RANK[held] >= RANK["viewer"] else ()
    found = {agent.id for agent in seen}
    run.tell(keys.agent(agent) for agent in run.at.agent_stack)
    for agent in run.at.agent_stack:
        if agent not in found:
            raise Denied("agent", agent, run.tags)
    return seen


def _with_talk(scope: VisibleScope, run: Run, inherited: frozenset[str]) -> VisibleScope:
    """`scope` with the conversation in sight, and what the dialogue alone depends on and tells.

    What tools ran over is the dialogue's matter: the surface must not depend on it.
    """
    conversation, id = run.facts.conversation, run.at.conversation_id
    assert id is not None, "a conversation is asked for"
    own = frozenset({keys.conversation(id)})
    if conversation is None or not conversation.is_participant:
        run.deny(f"conversation {id}", "missing or no participant")
        if "conversation_id" not in inherited:
            raise Denied("conversation", id, scope.tags | own)
        return _noted(replace(scope, dialogue_tags=own, dialogue_told=own), run, scope)
    ran_over = {id for message in conversation.dialogue.messages for id in message.table_ids}
    # Tables that are gone too: they may come back.
    told = own | {keys.schema(id) for id in ran_over}
    rights: dict[str, str] = {}
    if ran_over:
        tables = Tables(run, scope.agents)
        for table_id in sorted(ran_over):
            if (table := tables.one(table_id, counted=False)) is not None:
                rights[table.id] = table.rights
                told |= tables.told_of(table, counted=False)
    tags = told | (run.tags - scope.tags) | {keys.rows(id) for id in ran_over}
    visible = VisibleConversation(
        maker=MAKER,
        facts=conversation,
        user_id=run.at.user_id,
        rights=rights,
    )
    heard = replace(scope, conversation=visible, dialogue_tags=tags, dialogue_told=told)
    return _noted(heard, run, scope)


def _noted(scope: VisibleScope, run: Run, of: VisibleScope) -> VisibleScope:
    """With what `run` noted beside it. What was made of `of`, which tells the same of all but the
    dialogue, was made of this too."""
    found = replace(
        scope,
        denials=tuple(dict.fromkeys((*scope.denials, *run.denials))),
        faults=tuple(dict.fromkeys((*scope.faults, *run.faults))),
    )
    object.__setattr__(found, "made", of.made)
    return found
