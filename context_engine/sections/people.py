"""User, workspace, organization, team: for whom the agent acts, and where."""

from __future__ import annotations

from context_engine.access import VisibleScope
from context_engine.models.sections import (
    Count,
    OrganizationSection,
    TeamSection,
    UserSection,
    WorkspaceSection,
)
from context_engine.sections.base import Section, absent, included


def build_user(scope: VisibleScope) -> Section[UserSection]:
    """The user, with the role that is left after the agent stack."""
    user = scope.user
    return included(
        UserSection(
            id=user.id,
            name=user.name,
            role=scope.role,
            locale=user.locale,
            timezone=user.timezone,
        )
    )


def build_workspace(scope: VisibleScope) -> Section[WorkspaceSection]:
    return included(WorkspaceSection(id=scope.workspace.id, name=scope.workspace.name))


def build_organization(
    scope: VisibleScope, asked: str | None
) -> Section[OrganizationSection] | Section[None]:
    """Name and own role, for members who are active in a workspace of it."""
    organization = scope.organization
    if organization is None or organization.role is None:
        return absent(asked)
    return included(
        OrganizationSection(id=organization.id, name=organization.name, role=organization.role)
    )


def build_team(scope: VisibleScope, asked: str | None) -> Section[TeamSection] | Section[None]:
    team = scope.team
    if team is None:
        return absent(asked)
    return included(
        TeamSection(id=team.id, name=team.name, member_count=Count.of(team.member_count))
    )
