"""Explained: membership, the agent stack, and which grant decides at each scope."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from context_engine.access.roles import RANK, granted, held_on, in_workspace, let_in, narrowed
from context_engine.access.telling import Outcome, Step, listed
from context_engine.facts import AgentFacts, Facts, GrantFacts
from context_engine.keys import Coordinates
from context_engine.models.sections import Role


def membership(facts: Facts, at: Coordinates) -> Step:
    """Active membership of the workspace, else nothing."""
    missing = facts.user is None or facts.workspace is None
    return Step("membership", *_membership(facts, at), missing=missing)


def _membership(facts: Facts, at: Coordinates) -> tuple[Outcome, str]:
    if facts.user is None:
        return "shuts out", f"there is no user {at.user_id!r}"
    if facts.workspace is None:
        return "shuts out", f"there is no workspace {at.workspace_id!r}"
    if not facts.user.active:
        return "shuts out", f"the user {at.user_id!r} is not active"
    if facts.member is None:
        return "shuts out", f"{at.user_id!r} is no member of {at.workspace_id!r}"
    if not facts.member.active:
        return "shuts out", f"the membership of {at.user_id!r} is not active"
    return "lets in", f"an active member with the role {facts.member.role}; teams: " + listed(
        list(facts.team_ids)
    )


def workspace_role(facts: Facts, at: Coordinates) -> Iterator[Step]:
    """The role on the workspace: the member's own, or what `defer` leaves to teams."""
    role = in_workspace(facts, at.workspace_id)
    if facts.member is not None and facts.member.role == "defer":
        yield from _grants(facts, "workspace", at.workspace_id)
        because = f"{role}: the member's role is defer, and leaves it to the grants"
    else:
        because = f"{role}: the member's own"
    yield Step("role on the workspace", _lets_in(role), because)


def table_role(facts: Facts, at: Coordinates, table_id: str) -> Iterator[Step]:
    """The role on the table: the narrowest scope with a grant replaces the wider."""
    yield from _grants(facts, "table", table_id)
    held = held_on(facts, at.workspace_id, table_id)
    if granted(facts, "table", table_id) is None:
        because = f"{held}: no grant on the table, so that of the workspace holds"
    else:
        because = f"{held}: a grant on the table replaces the role on the workspace"
    yield Step("role on the table", _lets_in(held), because)


def view_grants(facts: Facts, view_id: str) -> Iterator[Step]:
    return _grants(facts, "view", view_id)


def _grants(facts: Facts, scope_type: str, scope_id: str) -> Iterator[Step]:
    """Every grant at one scope that names the user, and which of them decides."""
    here = [g for g in facts.grants if (g.scope_type, g.scope_id) == (scope_type, scope_id)]
    decided = granted(facts, scope_type, scope_id)
    own = any(grant.subject_type == "user" for grant in here)
    for grant in sorted(here, key=lambda g: (g.subject_type != "user", g.subject_id)):
        yield Step(
            f"grant on the {scope_type} {scope_id} to {grant.subject_type} {grant.subject_id}",
            *_weighed(grant, own, decided),
        )


def _weighed(grant: GrantFacts, own: bool, decided: Role | None) -> tuple[Outcome, str]:
    if own and grant.subject_type == "team":
        return "no effect", f"{grant.role}: the user's own grant replaces those of teams"
    if grant.role != decided:
        return "no effect", f"{grant.role}: another team's {decided} is higher"
    return _lets_in(grant.role), grant.role


def _lets_in(role: Role) -> Outcome:
    return "shuts out" if role == "none" else "lets in"


# -- agents ------------------------------------------------------------------------------------


def agent_stack(facts: Facts, at: Coordinates) -> Iterator[Step]:
    """Every agent must be there, and is for who is VIEWER or more in the workspace."""
    held = in_workspace(facts, at.workspace_id)
    there = {agent.id: agent for agent in facts.agents}
    for id in at.agent_stack:
        agent = there.get(id)
        if agent is None:
            because = "there is no such agent in the workspace"
            yield Step(f"agent {id}", "shuts out", because, missing=True)
        elif RANK[held] < RANK["viewer"]:
            yield Step(f"agent {id}", "shuts out", f"agents are for VIEWERs; the role is {held}")
        else:
            tables = "any table" if agent.table_ids is None else listed(list(agent.table_ids))
            yield Step(f"agent {id}", "narrows", f"to {agent.max_role} at most, on {tables}")


def narrowing(agents: Sequence[AgentFacts], table_id: str, held: Role) -> Iterator[Step]:
    """What the stack leaves of the role on the table."""
    if not agents:
        return
    if not let_in(agents, table_id):
        shut = [a.id for a in agents if a.table_ids is not None and table_id not in a.table_ids]
        yield Step("agents on the table", "shuts out", f"not a table of {listed(shut)}")
        return
    role = narrowed(held, agents)
    outcome: Outcome = "shuts out" if role == "none" else "narrows"
    if role == held:
        outcome = "no effect"
    yield Step("agents on the table", outcome, f"they leave {role} of {held}")
