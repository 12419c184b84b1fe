"""Dialogues in the chat format of OpenAI, written as conversations through the services."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from context_engine.adapters.sql.services import DomainServices

Dialogue = dict[str, Any]


def read(path: Path) -> list[Dialogue]:
    found: list[Dialogue] = json.loads(path.read_text())
    return found


async def load(
    services: DomainServices, workspace: str, user: str, dialogue: Dialogue, *others: str
) -> str:
    """The dialogue as a conversation of `user`, for whom its tools ran. Returns its id."""
    opened = await services.conversations.open(
        user, workspace, title=dialogue["id"], participant_ids=others, id=dialogue["id"]
    )
    for number, said in enumerate(dialogue["messages"]):
        await services.messages.add(
            user,
            workspace,
            opened.id,
            said.get("content") or "",
            role=said["role"],
            tool_calls=said.get("tool_calls") or (),
            tool_call_id=said.get("tool_call_id"),
            id=f"{dialogue['id']}-{number}",
        )
    return opened.id
