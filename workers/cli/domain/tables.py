"""`domain table`, `domain policy` and `domain message`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from pydantic import JsonValue

from context_engine.errors import InvalidRequest
from workers.cli.domain.shared import (
    ADMIN,
    DEMO,
    Actor,
    TableId,
    Version,
    Workspace,
    with_services,
    write,
)
from workers.cli.shared import JsonFlag, console, show_json

table = typer.Typer(no_args_is_help=True, help="Tables in sight.")
policy = typer.Typer(no_args_is_help=True, help="Row policies of a table.")
message = typer.Typer(no_args_is_help=True, help="Messages of a conversation.")


@table.command("list")
def table_list(
    actor: Actor = ADMIN, workspace: Workspace = DEMO, as_json: JsonFlag = False
) -> None:
    """Lists the tables in the actor's sight, with the actor's permission on each.

    Example: context-engine domain table list --actor usr-eva
    """
    found = with_services(lambda s: s.tables.list(actor, workspace))
    if as_json:
        show_json([{"id": t.id, "name": t.name, "permission": t.permission} for t in found])
        return
    for one in found:
        name = json.dumps(one.name, ensure_ascii=False)
        console.print(f"{one.id}  {name}  {one.permission}", markup=False, highlight=False)


@policy.command("set")
def policy_set(
    table_id: TableId,
    file: Annotated[
        Path, typer.Argument(help="Policies as JSON, or - for standard input.", allow_dash=True)
    ],
    actor: Actor = ADMIN,
    workspace: Workspace = DEMO,
    expect: Version = None,
    as_json: JsonFlag = False,
) -> None:
    """Replaces the row policies of a table.

    Example: echo '{"default": "show_all", "policies": []}' |
    context-engine domain policy set --table tbl-tasks -
    """
    wanted = _json_of(file)
    write(
        as_json,
        lambda s: s.policies.set(actor, workspace, table_id, wanted, expected_version=expect),
    )


def _json_of(file: Path) -> JsonValue:
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
        value: JsonValue = json.loads(text)
    except (OSError, ValueError) as error:
        raise InvalidRequest(f"not readable as JSON ({error})", field="FILE") from error
    return value


@message.command("add")
def message_add(
    conversation: Annotated[str, typer.Argument(help="Conversation id.")],
    content: Annotated[str, typer.Argument(help="The text.")],
    role: Annotated[str, typer.Option(help="user, assistant or system.")] = "user",
    actor: Actor = ADMIN,
    workspace: Workspace = DEMO,
    as_json: JsonFlag = False,
) -> None:
    """Adds a message to a conversation that the actor takes part in.

    Example: context-engine domain message add cnv-launch "Is 2.3 frozen?" --actor usr-ben
    """
    write(as_json, lambda s: s.messages.add(actor, workspace, conversation, content, role=role))
