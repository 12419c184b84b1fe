"""`domain user`, `domain conversation` and `domain message`: who is there, and what they say."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from workers.cli.domain.members import member_line
from workers.cli.domain.shared import (
    ADMIN,
    DEMO,
    Actor,
    Reader,
    Workspace,
    show_list,
    with_services,
)
from workers.cli.domain.written import write
from workers.cli.shared import JsonFlag
from workers.cli.terminal import json_text, plural

user = typer.Typer(no_args_is_help=True, help="Users of a workspace.")
conversation = typer.Typer(no_args_is_help=True, help="Conversations of a user.")
message = typer.Typer(no_args_is_help=True, help="Messages of a conversation.")


@user.command("list")
def user_list(
    actor: Reader = ADMIN, workspace: Workspace = DEMO, as_json: JsonFlag = False
) -> None:
    """Lists the members of a workspace that the actor is in, with their roles.

    Example: context-engine domain user list
    """
    found = with_services(lambda s: s.members.list(actor, workspace))
    show_list(as_json, found, member_line, none="no members")


@conversation.command("list")
def conversation_list(
    actor: Reader = ADMIN, workspace: Workspace = DEMO, as_json: JsonFlag = False
) -> None:
    """Lists the conversations that the actor takes part in.

    Example: context-engine domain conversation list --actor usr-ben
    """
    found = with_services(lambda s: s.conversations.list(actor, workspace))
    show_list(
        as_json,
        found,
        lambda one: f"{one.id}  {json_text(one.title)}  {plural(one.message_count, 'message')}",
        none="no conversations",
    )


@message.command("add")
def message_add(
    conversation: Annotated[str, typer.Argument(help="Conversation id.")],
    content: Annotated[str, typer.Argument(help="The text.")],
    role: Annotated[
        Literal["user", "assistant", "system"],
        typer.Option(help="Whose words they are; a tool's come from a product."),
    ] = "user",
    actor: Actor = ADMIN,
    workspace: Workspace = DEMO,
    as_json: JsonFlag = False,
) -> None:
    """Adds a message to a conversation that the actor takes part in.

    Example: context-engine domain message add cnv-launch "Is 2.3 frozen?" --actor usr-ben
    """
    write(
        as_json,
        "message",
        lambda s: s.messages.add(actor, workspace, conversation, content, role=role),
    )
