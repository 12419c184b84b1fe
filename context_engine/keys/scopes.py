"""Whose context it is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from context_engine.keys.encoding import digest

SessionKind = Literal["session", "conversation", "anonymous"]


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose context it is: a user, in a workspace, within a session.

    Without a session id the conversation bounds it, without that it is `anonymous`, which has
    no session of its own. Two users with the same session id never share.
    """

    workspace_id: str
    user_id: str
    kind: SessionKind
    session_id: str | None

    @property
    def key(self) -> str:
        """The scope key: 64 hex digits."""
        return _scope_key(self.workspace_id, self.user_id, self.kind, self.session_id)

    @property
    def has_session(self) -> bool:
        return self.kind != "anonymous"


def scope_of(
    workspace_id: str, user_id: str, session_id: str | None, conversation_id: str | None
) -> Scope:
    """The scope of a request: its session, else its conversation, else anonymous."""
    if session_id is not None:
        return Scope(workspace_id, user_id, "session", session_id)
    if conversation_id is not None:
        return Scope(workspace_id, user_id, "conversation", conversation_id)
    return Scope(workspace_id, user_id, "anonymous", None)


@lru_cache(maxsize=4096)
def _scope_key(*parts: str | None) -> str:
    return digest("scope", *parts)
