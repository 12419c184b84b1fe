"""Changes of dialogues and of who takes part in them."""

from __future__ import annotations

from typing import Literal

from context_engine.changes.base import Change, Ids, Op
from context_engine.models.base import Id


class MessageChanged(Change):
    """A message was added, edited, deleted, pinned or unpinned."""

    type: Literal["message.changed"] = "message.changed"
    conversation_id: Id
    message_id: Id
    op: Literal["added", "edited", "deleted", "pinned", "unpinned"]


class ParticipantsChanged(Change):
    """Users joined or left a conversation."""

    type: Literal["participants.changed"] = "participants.changed"
    conversation_id: Id
    user_ids: Ids
    op: Literal["added", "removed"]


class ConversationChanged(Change):
    """A conversation was opened, renamed or deleted."""

    type: Literal["conversation.changed"] = "conversation.changed"
    conversation_id: Id
    op: Op
