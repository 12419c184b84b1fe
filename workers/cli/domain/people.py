"""`domain user`, `domain conversation` and `domain message`: who is there, and what they say."""

from __future__ import annotations

from typing import Annotated

import typer

from workers.cli.domain.shared import ADMIN, DEMO, Actor, Reader, Workspace, with_services, write
from workers.cli.shared import JsonFlag, camel, console, show_json
from workers.cli.terminal import json_text

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
    if as_json:
        show_json([camel(one) for one in found])
        return
    for one in found:
        state = "" if one.active else "  not active"
        _line(f"{one.user_id}  {_quoted(one.name)}  {one.role}{state}")


@conversation.command("list")
def conversation_list(
    actor: Reader = ADMIN, workspace: Workspace = DEMO, as_json: JsonFlag = False
) -> None:
    """Lists the conversations that the actor takes part in.

    Example: context-engine domain conversation list --actor usr-ben
    """
    found = with_services(lambda s: s.conversations.list(actor, workspace))
    if as_json:
        show_json([camel(one) for one in found])
        return
    for one in found:
        _line(f"{one.id}  {_quoted(one.title)}  {one.message_count} messages")


def _line(text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def _quoted(text: str) -> str:
    return json_text(text)


@message.command("add")
def message_add(
    conversation: Annotated[str, typer.Argument(help="Conversation id.")],
    content: Annotated[str, typer.Argument(help="The text.")],
    role: Annotated[
        str, typer.Option(help="user, assistant or system; a tool's come from a product.")
    ] = "user",
    actor: Actor = ADMIN,
    workspace: Workspace = DEMO,
    as_json: JsonFlag = False,
) -> None:
    """Adds a message to a conversation that the actor takes part in.

    Example: context-engine domain message add cnv-launch "Is 2.3 frozen?" --actor usr-ben
    """
    write(as_json, lambda s: s.messages.add(actor, workspace, conversation, content, role=role))
