"""A dialogue for a terminal or a program, and beside it what a context held of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.text import Text

from workers.cli.evidence import clock, line, said
from workers.cli.shared import console
from workers.cli.terminal import plural

if TYPE_CHECKING:
    from context_engine.access import VisibleConversation
    from context_engine.evidence import Held, Original
    from context_engine.models.base import JsonObject
    from context_engine.ports import SnapshotRecord

AT_NOTICE = (
    "What a context held is an operator's view of evidence: it says what was told then, and gives"
    " no access now. The messages are those that the actor sees today."
)
MARKS = {
    "turn": ("told whole", "green"),
    "cut": ("told, cut", "yellow"),
    "withheld": ("told without content", "magenta"),
    "summary": ("in the summary", "cyan"),
    "compressed": ("only counted", "dim"),
    "later": ("not yet written", "dim"),
}


@dataclass(frozen=True, slots=True)
class Shown:
    """A dialogue for one reader, and what a context held of it where one is named."""

    actor: str
    conversation: VisibleConversation
    messages: tuple[Original, ...]
    at: SnapshotRecord | None
    held: Held | None


def dialogue_json(shown: Shown) -> JsonObject:
    facts = shown.conversation.facts
    made: JsonObject = {
        "conversationId": facts.id,
        "title": facts.title,
        "actor": shown.actor,
        "messageCount": facts.dialogue.message_count,
        "messages": [_message_json(one, shown.held) for one in shown.messages],
    }
    if shown.at is not None and shown.held is not None:
        section = shown.held.section
        made["at"] = {
            "notice": AT_NOTICE,
            "contextId": shown.at.context_id,
            "userId": shown.at.user_id,
            "generatedAt": shown.at.generated_at.isoformat(),
            "summary": section.summary,
            "sourceMessageIds": list(section.source_message_ids),
            "compression": shown.at.compression,
            "goneSince": list(shown.held.gone),
        }
    return made


def _message_json(one: Original, held: Held | None) -> JsonObject:
    message = one.message
    made: JsonObject = {
        "id": message.id,
        "role": message.role,
        "authorId": message.author_id,
        "at": message.at.isoformat(),
        "content": None if one.withheld else message.content,
        "toolCalls": [] if one.withheld else list(message.tool_calls),
        "withheld": one.withheld,
    }
    if held is not None:
        made["told"] = held.marks[message.id]
        made["editedSince"] = message.id in held.edited
    return made


def show_dialogue(shown: Shown) -> None:
    from context_engine.wording import clean

    facts = shown.conversation.facts
    count = plural(facts.dialogue.message_count, "message")
    line(f"{facts.id}  {clean(facts.title)}  {count}, the last {len(shown.messages)}:")
    for one in shown.messages:
        console.print(_head(one, shown.held))
        _show_content(one)
    if shown.held is None or shown.at is None:
        return
    section = shown.held.section
    console.print()
    line(
        f"context {shown.at.context_id} was told {plural(section.kept_messages, 'message')}"
        f" and a summary of {section.compressed_messages} ({section.compressed_chars:,} of"
        f" {section.original_chars:,} characters)"
    )
    for told in section.summary.splitlines():
        console.print(Text(f"  {clean(told)}", style="cyan"))
    if shown.held.gone:
        line(f"told then, and gone since: {clean(', '.join(shown.held.gone))}")


def _head(one: Original, held: Held | None) -> Text:
    message = one.message
    who = f"{message.role} {message.author_id}" if message.author_id else message.role
    text = Text.assemble(
        (clock(message.at), "dim"), "  ", said(who, "bold"), "  ", said(message.id, "dim")
    )
    if held is not None:
        word, style = MARKS[held.marks[message.id]]
        edited = ", edited since" if message.id in held.edited else ""
        text.append(f"  [{word}{edited}]", style=style)
    return text


def _show_content(one: Original) -> None:
    """Line by line, as it was written; nothing in it steers the terminal."""
    from context_engine.wording import clean

    if one.withheld:
        console.print(Text("    not in the actor's sight", style="magenta"))
        return
    for text in one.message.content.splitlines():
        console.print(Text(f"    {clean(text)}"), soft_wrap=True)
    for call in one.message.tool_calls:
        console.print(Text("    calls ", style="dim") + said(_call_text(call)), soft_wrap=True)


def _call_text(call: JsonObject) -> str:
    """The function's name and arguments, as providers of models write a call."""
    function = call.get("function")
    if not isinstance(function, dict):
        return json.dumps(call, ensure_ascii=False)
    return f"{function.get('name')} {function.get('arguments', '')}"
