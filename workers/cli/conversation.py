"""`conversation …`: a dialogue as people wrote it, and what a context held of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import ValidationError

from context_engine.errors import InvalidRequest, NotFound
from workers.cli.dialogue import AT_NOTICE, Shown, dialogue_json, show_dialogue
from workers.cli.domain.shared import ADMIN, DEMO
from workers.cli.evidence import Words, parsed, snapshot_of, warn_operator, with_parts
from workers.cli.shared import JsonFlag, show_json

if TYPE_CHECKING:
    from context_engine.bootstrap import Parts
    from context_engine.ports import SnapshotRecord

app = typer.Typer(no_args_is_help=True, help="Dialogues, beside what was told of them.")

MOST = 500
"""Messages that one call shows at most."""


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
        show_json(dialogue_json(shown))
    else:
        show_dialogue(shown)


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
