"""Roles, in order, and what a user's grants add up to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from context_engine.facts import AgentFacts, Facts, FieldPermissionFacts
from context_engine.models.sections import Role

RANK: dict[Role, int] = {
    "none": 0, "viewer": 1, "commenter": 2, "editor": 3, "builder": 4, "admin": 5,
}  # fmt: skip
"""The order of roles."""

TableRole = Literal["viewer", "commenter", "editor", "builder", "admin"]
"""A role that lets its holder in."""

Level = Literal["none", "read", "write"]
"""What a permission leaves of a field."""

LEVELS: tuple[Level, ...] = ("none", "read", "write")


def lower(a: Role, b: Role) -> Role:
    return a if RANK[a] <= RANK[b] else b


def higher(a: Role, b: Role) -> Role:
    return a if RANK[a] >= RANK[b] else b


def granted(facts: Facts, scope_type: str, scope_id: str) -> Role | None:
    """The role granted at one scope: the user's own, else the highest of the teams'."""
    here = [g for g in facts.grants if g.scope_id == scope_id and g.scope_type == scope_type]
    own = [g.role for g in here if g.subject_type == "user"]
    if own or not here:
        return own[0] if own else None
    return max((g.role for g in here), key=RANK.__getitem__)


def in_workspace(facts: Facts, workspace_id: str) -> Role:
    """The role held on the workspace: the member's own, or what the sentinel leaves to teams."""
    own = facts.member.role if facts.member else "none"
    return (granted(facts, "workspace", workspace_id) or "none") if own == "defer" else own


def held_on(facts: Facts, workspace_id: str, table_id: str) -> Role:
    """The role by which the user holds a table's own way: the narrowest scope with a grant."""
    held = granted(facts, "table", table_id)
    return in_workspace(facts, workspace_id) if held is None else held


def narrowed(role: Role, agents: Iterable[AgentFacts]) -> Role:
    """What an agent stack leaves of a role."""
    for agent in agents:
        role = lower(role, agent.max_role)
    return role


def let_in(agents: Iterable[AgentFacts], table_id: str) -> bool:
    """Whether every agent of a stack may look at a table."""
    return all(a.table_ids is None or table_id in a.table_ids for a in agents)


def field_level(
    permissions: Sequence[FieldPermissionFacts], field_id: str, held: Role
) -> Level | None:
    """What the permissions leave of a field for who holds a way by the role `held`.

    The user's own replaces those of the teams, which replace that of the role; several teams
    unite. None: nothing names the user, and the role decides.
    """
    of_field = [p for p in permissions if p.field_id == field_id]
    for subject in ("user", "team", "role"):
        levels = [
            p.level
            for p in of_field
            if p.subject_type == subject and (subject != "role" or p.subject_id == held)
        ]
        if levels:
            return max(levels, key=LEVELS.index)
    return None
