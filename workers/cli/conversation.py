"""`conversation …`: a dialogue as people wrote it, and what a context held of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import ValidationError
from rich.text import Text

from context_engine.errors import InvalidRequest, NotFound
from workers.cli.domain.shared import ADMIN, DEMO
from workers.cli.evidence import (
    Words,
    clock,
    line,
    parsed,
    said,
    snapshot_of,
    warn_operator,
    with_parts,
)
from workers.cli.shared import JsonFlag, console, show_json

if TYPE_CHECKING:
    from context_engine.access import VisibleConversation
    from context_engine.bootstrap import Parts
    from context_engine.evidence import Held, Original
    from context_engine.models.base import JsonObject
    from context_engine.ports import SnapshotRecord

app = typer.Typer(no_args_is_help=True, help="Dialogues, beside what was told of them.")

MOST = 500
"""Messages that one call shows at most."""

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


@app.callback()
def _group() -> None:
    """Keeps `show` a command of its own."""


@app.command("show")
def show(
    conversation_id: Annotated[
        str, typer.Argument(metavar="CONVERSATION_ID", help="Conversation id.")
    ],
    at: Annotated[
        Words, typer.Option("--at", help="Context id: what its build held of the dialogue.")
    ] = None,
    actor: Annotated[
        Words,
        typer.Option(help=f"Who reads, a participant; {ADMIN}, or for whom --at was built."),
    ] = None,
    workspace: Annotated[
        Words, typer.Option(help=f"Workspace id; {DEMO}, or the one of --at.")
    ] = None,
    limit: Annotated[
        int,
        typer.Option(
            min=1, max=MOST, help="The last so many messages; a call stays with its results."
        ),
    ] = 40,
    as_json: JsonFlag = False,
) -> None:
    """Shows a dialogue as people wrote it, to someone who takes part in it.

    With --at, each message is marked with what the context of that build held of it.

    Example: context-engine conversation show cnv-launch --actor usr-ben
    """

    async def read(wired: Parts) -> Shown:
        record = await snapshot_of(wired, at) if at is not None else None
        reader = actor or (record.user_id if record is not None else ADMIN)
        where = workspace or (record.workspace_id if record is not None else DEMO)
        return await _read(wired, conversation_id, reader, where, record, limit)

    shown = with_parts(read)
    if shown.at is not None:
        warn_operator(AT_NOTICE)
    if as_json:
        show_json(_as_json(shown))
    else:
        _show(shown)


async def _read(
    wired: Parts,
    conversation_id: str,
    actor: str,
    workspace: str,
    record: SnapshotRecord | None,
    limit: int,
) -> Shown:
    """Under the actor's permission of now, as a build reads. Raises `NotFound`."""
    from context_engine.evidence import held_by, originals
    from context_engine.keys import Coordinates
    from context_engine.reading import visible

    here = Coordinates(workspace, actor, conversation_id=conversation_id)
    try:
        async with wired.domain.snapshot() as reads:
            scope = await visible(reads, here, tail=limit)
    except NotFound as missing:
        if record is not None:
            missing.message += (
                f"; --at names {record.context_id}, of {record.user_id} in {record.workspace_id}"
            )
        missing.message += (
            "; `context-engine domain conversation list` shows what there is, by --actor and"
            " --workspace"
        )
        raise
    if scope.conversation is None:
        raise NotFound("conversation", conversation_id)
    messages = originals(scope.conversation, limit)
    held = None
    if record is not None:
        try:
            held = held_by(parsed(record), messages)
        except (ValidationError, KeyError):
            raise InvalidRequest(
                "follows another version of the contract; see `context-engine snapshot show"
                f" {record.context_id} --json`",
                field="--at",
            ) from None
        if held is None or (held.section.id, record.workspace_id) != (conversation_id, workspace):
            raise InvalidRequest(
                f"that context holds nothing of {conversation_id}; `context-engine snapshot list`"
                " shows others",
                field="--at",
            )
    return Shown(actor, scope.conversation, messages, record, held)


def _as_json(shown: Shown) -> JsonObject:
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


def _show(shown: Shown) -> None:
    from context_engine.wording import clean

    facts = shown.conversation.facts
    count = facts.dialogue.message_count
    line(f"{facts.id}  {clean(facts.title)}  {count} messages, the last {len(shown.messages)}:")
    for one in shown.messages:
        console.print(_head(one, shown.held))
        _show_content(one)
    if shown.held is None or shown.at is None:
        return
    section = shown.held.section
    console.print()
    line(
        f"context {shown.at.context_id} was told {section.kept_messages} messages and a summary"
        f" of {section.compressed_messages} ({section.compressed_chars:,} of"
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
