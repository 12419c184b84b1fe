"""What is asked, and what a session adds to it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

COORDINATES = (
    "table_ids",
    "view_id",
    "project_id",
    "task_id",
    "team_id",
    "organization_id",
    "workflow_id",
    "conversation_id",
)
"""What a session keeps; never the agent stack."""


@dataclass(frozen=True)
class Request:
    """Coordinates in, as `ContextBuildInput` has them. One that is empty is left out, unless
    `cleared` names it: then it is sent as null or []."""

    user_id: str
    workspace_id: str = "w"
    table_ids: tuple[str, ...] = ()
    view_id: str | None = None
    project_id: str | None = None
    task_id: str | None = None
    team_id: str | None = None
    organization_id: str | None = None
    workflow_id: str | None = None
    conversation_id: str | None = None
    agent_stack: tuple[str, ...] = ()
    session_id: str | None = None
    message: str | None = None
    timezone: str | None = None
    strict: bool = False
    cleared: tuple[str, ...] = ()

    @property
    def given(self) -> dict[str, Any]:
        """As it is sent, but for options."""
        sent = {k: v for k, v in asdict(self).items() if v and k not in ("strict", "cleared")}
        return sent | {name: () if name == "table_ids" else None for name in self.cleared}

    @property
    def scope(self) -> tuple[str, ...] | None:
        """Whose session it is in, and which; None without one."""
        if self.session_id is not None:
            return self.user_id, "session", self.session_id
        if self.conversation_id is not None:
            return self.user_id, "conversation", self.conversation_id
        return None


@dataclass(frozen=True)
class Kept:
    """A session: the coordinates of its last answer, and that answer's hash."""

    at: dict[str, Any] = field(default_factory=dict)
    last_hash: str | None = None


@dataclass(frozen=True)
class Effective:
    """A request with what it inherited. `kept`: the session as it was before, if it was."""

    request: Request
    inherited: frozenset[str] = frozenset()
    kept: Kept = Kept()

    @property
    def asked(self) -> Request:
        """Without what was inherited."""
        return replace(self.request, **_nothing(self.inherited))


def effective(request: Request, kept: Kept | None) -> Effective:
    """A coordinate left out is the session's. A view comes only with the tables it was looked at
    with, a task only with its project; the agents never do."""
    if kept is None:
        return Effective(request)
    left_out = {
        name for name in COORDINATES if not getattr(request, name) and name not in request.cleared
    }
    for name, owner in (("view_id", "table_ids"), ("task_id", "project_id")):
        same = (getattr(request, owner) or None) == kept.at.get(owner)
        if owner not in left_out and not same:
            left_out.discard(name)
    inherited = {name: kept.at[name] for name in left_out if kept.at.get(name)}
    return Effective(replace(request, **inherited), frozenset(inherited), kept)


class Sessions:
    """What every session keeps, of one workspace."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, ...], Kept] = {}

    def effective(self, request: Request) -> Effective:
        return effective(request, self._kept.get(request.scope) if request.scope else None)

    def keep(self, found: Effective, context_hash: str) -> None:
        """After an answer. A refusal keeps nothing."""
        if (scope := found.asked.scope) is not None:
            self.seed(scope, found.request, context_hash)

    def seed(self, scope: tuple[str, ...], at: Request, context_hash: str) -> None:
        values = {name: getattr(at, name) for name in COORDINATES if getattr(at, name)}
        self._kept[scope] = Kept(values, context_hash)


def _nothing(names: frozenset[str]) -> dict[str, Any]:
    return {name: () if name == "table_ids" else None for name in names}
