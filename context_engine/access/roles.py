"""Roles, in order, and what a user's grants add up to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from context_engine.facts import AgentFacts, Facts, GrantFacts
from context_engine.models.sections import Role

RANK: dict[Role, int] = {
    "none": 0, "viewer": 1, "commenter": 2, "editor": 3, "builder": 4, "admin": 5,
}  # fmt: skip
"""The order of roles."""

TableRole = Literal["viewer", "commenter", "editor", "builder", "admin"]
"""A role that lets its holder in."""


def lower(a: Role, b: Role) -> Role:
    return a if RANK[a] <= RANK[b] else b


def higher(a: Role, b: Role) -> Role:
    return a if RANK[a] >= RANK[b] else b


def granted(facts: Facts, scope_type: str, scope_id: str) -> Role | None:
    """The role granted at one scope: the user's own, else the highest of the teams'."""
    here = [g for g in facts.grants if (g.scope_type, g.scope_id) == (scope_type, scope_id)]
    own = [g.role for g in here if g.subject_type == "user"]
    if own:
        return own[0]
    return _highest(g for g in here if g.subject_type == "team")


def _highest(grants: Iterable[GrantFacts]) -> Role | None:
    found: Role | None = None
    for grant in grants:
        found = grant.role if found is None else higher(found, grant.role)
    return found


def held_on(facts: Facts, workspace_id: str, table_id: str) -> Role:
    """The role by which the user holds a way into a table: the narrowest scope with a grant."""
    held = granted(facts, "table", table_id)
    if held is not None:
        return held
    own = facts.member.role if facts.member else "none"
    return (granted(facts, "workspace", workspace_id) or "none") if own == "defer" else own


def narrowed(role: Role, agents: Iterable[AgentFacts]) -> Role:
    """What an agent stack leaves of a role."""
    for agent in agents:
        role = lower(role, agent.max_role)
    return role
