"""Changes of who belongs where: members, teams, users, organizations, workspaces."""

from __future__ import annotations

from typing import Literal

from context_engine.changes.base import Change, Ids, Op
from context_engine.models.base import Id


class MemberChanged(Change):
    """A member was added, changed or removed.

    Who is removed leaves teams and private projects too: each has a change of its own.
    """

    type: Literal["member.changed"] = "member.changed"
    user_id: Id
    op: Literal["added", "updated", "removed"]


class TeamMemberChanged(Change):
    """Somebody joined or left a team."""

    type: Literal["team-member.changed"] = "team-member.changed"
    team_id: Id
    user_id: Id
    op: Literal["added", "removed"]


class TeamChanged(Change):
    """A team was made, renamed or deleted."""

    type: Literal["team.changed"] = "team.changed"
    team_id: Id
    op: Op
    member_ids: Ids = ()
    """Members before and after, united."""


class UserChanged(Change):
    """A user's name, e-mail, language, time zone or state changed; one for each workspace."""

    type: Literal["user.changed"] = "user.changed"
    user_id: Id
    op: Literal["updated", "deleted"]


class OrganizationChanged(Change):
    """An organization, or roles in it, changed; one for each workspace of it."""

    type: Literal["organization.changed"] = "organization.changed"
    organization_id: Id
    op: Literal["updated", "deleted"]
    user_ids: Ids | None = None
    """Members whose role changed; None for what concerns all of them."""


class WorkspaceChanged(Change):
    """A workspace was renamed, moved or deleted."""

    type: Literal["workspace.changed"] = "workspace.changed"
    op: Literal["updated", "deleted"]
