"""`build` and `emit`: one request, one change, by hand."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from workers.cli.shared import JsonFlag, config, console, leave, run, show_json

if TYPE_CHECKING:
    from pydantic import ValidationError

    from context_engine.errors import InvalidRequest

Text = Optional[str]  # noqa: UP045 - typer reads this at run time
MANY: list[str] = []
LEAST_SECONDS = 0.1


def build(
    user: Annotated[str, typer.Option(help="User for whom the agent acts.")],
    workspace: Annotated[str, typer.Option(help="Workspace id.")],
    table: Annotated[
        list[str], typer.Option(help="Table id, repeatable; the first is the one asked for.")
    ] = MANY,
    view: Annotated[Text, typer.Option(help="View id, of one of the tables.")] = None,
    project: Annotated[Text, typer.Option(help="Project id.")] = None,
    task: Annotated[Text, typer.Option(help="Task id, in the project if one is named.")] = None,
    team: Annotated[Text, typer.Option(help="Team id.")] = None,
    organization: Annotated[Text, typer.Option(help="Organization id.")] = None,
    workflow: Annotated[Text, typer.Option(help="Workflow id.")] = None,
    conversation: Annotated[Text, typer.Option(help="Conversation id: its turns come along.")] = (
        None
    ),
    session: Annotated[
        Text, typer.Option(help="Session id, of your own choice; it keeps the coordinates.")
    ] = None,
    agent: Annotated[
        list[str], typer.Option(help="Agent id, repeatable, outermost first; rights narrow.")
    ] = MANY,
    message: Annotated[Text, typer.Option(help="The user's current message.")] = None,
    locale: Annotated[Text, typer.Option(help="Language of the engine's words: en, zh-CN.")] = None,
    timezone: Annotated[Text, typer.Option(help="IANA zone, such as Europe/Berlin.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Never from a cache.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Every coordinate must be in sight.")
    ] = False,
    after: Annotated[
        list[str],
        typer.Option(
            help="Token of a write (its `afterTokens`), repeatable: the answer has it in it."
        ),
    ] = MANY,
    max_age_ms: Annotated[
        Optional[int],  # noqa: UP045 - typer reads this at run time
        typer.Option(min=0, help="From a cache only if built within so many milliseconds."),
    ] = None,
    ttl_ms: Annotated[
        Optional[int],  # noqa: UP045 - typer reads this at run time
        typer.Option(min=1, help="Not built once the request has waited so many milliseconds."),
    ] = None,
    timeout: Annotated[
        float, typer.Option(min=LEAST_SECONDS, help="Seconds to wait for the answer.")
    ] = 15.0,
    as_json: JsonFlag = False,
) -> None:
    """Asks for one context over the bus and shows it.

    A coordinate that is left out is inherited from the session, if one is named.

    Example: context-engine build --user usr-ana --workspace ws-delivery --table tbl-tasks
    """
    from pydantic import ValidationError

    from context_engine.models import ContextBuildInput, invalid
    from events.client import ContextClient
    from events.messages import BuildOptions, ContextReady
    from workers.show import context_panel

    given = {
        "tableIds": table, "viewId": view, "projectId": project, "taskId": task,
        "teamId": team, "organizationId": organization, "workflowId": workflow,
        "conversationId": conversation, "sessionId": session, "agentStack": agent,
        "message": message, "locale": locale, "timezone": timezone,
    }  # fmt: skip
    fields = {name: value for name, value in given.items() if value not in (None, [])}
    try:
        request = ContextBuildInput.model_validate(
            {"userId": user, "workspaceId": workspace, **fields}
        )
        options = BuildOptions(
            fresh=fresh, strict=strict, after=tuple(after), max_age_ms=max_age_ms, ttl_ms=ttl_ms
        )
    except ValidationError as error:
        leave(invalid(error))

    async def ask() -> ContextReady:
        async with ContextClient(config()) as client:
            return await client.request(request, options=options, timeout=timeout)

    ready = run(ask())
    if as_json:
        show_json(ready.model_dump(mode="json"))
    else:
        console.print(context_panel(ready.context))


def emit(
    change: Annotated[
        str,
        typer.Argument(help="A domain change as JSON, or - for standard input."),
    ],
    as_json: JsonFlag = False,
) -> None:
    """Emits one domain change to its topic; it takes back what it makes untrue.

    Example: context-engine emit '{"type":"member.changed","workspaceId":"ws-delivery",
    "userId":"usr-ana","op":"updated"}'
    """
    from pydantic import ValidationError

    from context_engine.changes import domain_change
    from events.client import ContextClient
    from events.records import Position

    text = sys.stdin.read() if change == "-" else change
    try:
        parsed = domain_change.validate_json(text)
    except ValidationError as error:
        leave(_no_change(error))

    async def send() -> Position:
        async with ContextClient(config()) as client:
            return await client.emit(parsed)

    position = run(send())
    if as_json:
        show_json(
            {
                "topic": position.topic,
                "partition": position.partition,
                "offset": position.offset,
                "afterTokens": [position.token],
            }
        )
    else:
        console.print(f"published; build --after {position.token} sees it", markup=False)


def _no_change(error: ValidationError) -> InvalidRequest:
    """Its first fault; where that is the type, the one that was meant."""
    from context_engine.changes import change_types
    from context_engine.errors import InvalidRequest
    from context_engine.models import invalid
    from context_engine.nearest import among

    fault = error.errors(include_url=False)[0]
    if fault["type"] != "union_tag_invalid":
        return invalid(error)
    given = fault["ctx"]["tag"]
    return InvalidRequest(f"no such change: {among(given, change_types())}", field="type")
