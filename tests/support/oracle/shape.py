"""The plain shape in which what the rules say and what a context says are compared."""

from __future__ import annotations

import json
from typing import Any

from pydantic.alias_generators import to_camel

from context_engine.models import AgentContext
from context_engine.models.sections import ConversationSection
from tests.support.oracle.canaries import canaries_in
from tests.support.oracle.request import COORDINATES

NOT_FOUND = {"error": "not_found"}
UNAVAILABLE = "unavailable"

Told = dict[str, Any]


def count(value: int, cap: int | None) -> Any:
    """A count: a number, more than `cap`, or without a cap not to be known."""
    if cap is None:
        return UNAVAILABLE
    return value if value <= cap else more_than(cap)


def more_than(cap: int) -> str:
    return f"more than {cap}"


def once(items: list[Any]) -> list[Any]:
    return list({one.id: one for one in items}.values())


def in_order(items: Any) -> list[Any]:
    return sorted(items, key=lambda one: json.dumps(one, sort_keys=True))


def told(context: AgentContext) -> Told:
    """The same shape, out of a context."""
    c = context
    return {
        "user": _plain(c.user),
        "workspace": c.workspace.model_dump(by_alias=False),
        "view": _section(c.view, record_count="records"),
        "project": _section(c.project),
        "task": _section(c.task),
        "team": _section(c.team, member_count="members"),
        "organization": _section(c.organization),
        "workflow": _section(c.workflow),
        "tables": [_section(one, record_count="records") for one in c.tables],
        "relations": in_order(_section(one, link_count="links") for one in c.relations),
        "agents": [
            {**_plain(one), "table_ids": None if one.table_ids is None else list(one.table_ids)}
            for one in c.agent_stack
        ],
        "conversation": _conversation(c.conversation),
        "session": None
        if c.session is None
        else {
            "id": c.session.id,
            "memory": list(canaries_in(c.session.memory_summary or "")),
            "last_hash": c.session.last_context_hash,
        },
        "inherited": sorted(_NAMES[name] for name in c.trace.inherited),
        "unresolved": in_order(_plain(one) for one in c.unresolved),
    }


def _conversation(section: ConversationSection | None) -> Told | None:
    if section is None:
        return None
    return {
        "id": section.id,
        "title": section.title,
        "turns": [
            {
                "id": one.message_id,
                "content": None if one.withheld and one.role == "tool" else one.content,
                "calls": None if one.withheld and one.tool_calls else list(one.tool_calls),
                "withheld": one.withheld,
            }
            for one in section.recent_turns
        ],
        "summary": list(canaries_in(section.summary)),
        "sources": list(section.source_message_ids),
        "original_chars": section.original_chars,
        "kept": section.kept_messages,
        "compressed": section.compressed_messages,
    }


_NAMES = {to_camel(name): name for name in COORDINATES}
COUNTS = {"record_count", "tasks", "open_tasks", "member_count", "link_count"}


def _plain(section: Any) -> Told:
    found: Told = section.model_dump(by_alias=False)
    return found


def _section(section: Any, **renamed: str) -> Told | None:
    if section is None:
        return None
    plain = _plain(section)
    for name in COUNTS & plain.keys():
        one = plain[name]
        if isinstance(one, dict):
            exact = one["value"] if one["exact"] else more_than(one["value"])
            plain[name] = UNAVAILABLE if one["unavailable"] else exact
    for old, new in renamed.items():
        plain[new] = plain.pop(old, "not told")
    return {key: list(one) if isinstance(one, tuple) else one for key, one in plain.items()}
