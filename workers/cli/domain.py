"""`domain …`: the domain services, by hand. Every write prints its token and its changes."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Optional, TypedDict, TypeVar

import typer
from pydantic import JsonValue

from context_engine.adapters.sql.services import DomainServices, Record, Unmarked, Written
from context_engine.errors import InvalidRequest
from context_engine.models.base import JsonObject
from workers.cli.shared import JsonFlag, config, console, run, show_json

T = TypeVar("T")

Actor = Annotated[str, typer.Option("--actor", help="User who writes; checked as any other.")]
Workspace = Annotated[str, typer.Option("--workspace", help="Workspace id.")]
TableId = Annotated[str, typer.Option("--table", help="Table id.")]
Version = Annotated[
    Optional[int],  # noqa: UP045 - typer reads this at run time
    typer.Option("--expect", help="Refuse unless this is the version found."),
]
Cells = Annotated[
    list[str], typer.Option("--set", help="FIELD=VALUE, the value as JSON or plain text.")
]
Text = Optional[str]  # noqa: UP045

ADMIN, DEMO = "usr-ana", "ws-delivery"
"""Who and where, unless told: the admin of the demo workspace."""

app = typer.Typer(no_args_is_help=True, help="The domain services, by hand.")
member = typer.Typer(no_args_is_help=True, help="Members of a workspace.")
grant = typer.Typer(no_args_is_help=True, help="Roles on a table, or a team's on the workspace.")
record = typer.Typer(no_args_is_help=True, help="Records of a table.")
message = typer.Typer(no_args_is_help=True, help="Messages of a conversation.")
table = typer.Typer(no_args_is_help=True, help="Tables in sight.")
policy = typer.Typer(no_args_is_help=True, help="Row policies of a table.")
for _name, _group in (
    ("member", member), ("grant", grant), ("record", record),
    ("message", message), ("table", table), ("policy", policy),
):  # fmt: skip
    app.add_typer(_group, name=_name)


@app.command("seed")
def seed_(as_json: JsonFlag = False) -> None:
    """Makes the demo workspace, unless it is there.

    Example: context-engine domain seed
    """
    from workers.seed import seed

    made = _with(seed)
    if as_json:
        show_json(asdict(made))
        return
    word = "made" if made.created else "was there already"
    console.print(f"{made.workspace_id} {word}: admin {made.admin_id}, viewer {made.viewer_id}")
    console.print(f"tables {', '.join(made.table_ids)}", highlight=False)


# -- members and grants ------------------------------------------------------------------------

UserId = Annotated[str, typer.Argument(help="User id.")]
RoleName = Annotated[
    str, typer.Option("--role", help="none, viewer, commenter, editor, builder or admin.")
]


@member.command("add")
def member_add(
    user: UserId,
    role: RoleName = "viewer",
    actor: Actor = ADMIN,
    workspace: Workspace = DEMO,
    as_json: JsonFlag = False,
) -> None:
    """Adds a user to a workspace; the role may also be `defer`, for that of the teams.

    Example: context-engine domain member add usr-gus --role viewer
    """
    _write(as_json, lambda s: s.members.add(actor, workspace, user, role=role))


@member.command("set")
def member_set(
    user: UserId,
    role: RoleName,
    actor: Actor = ADMIN,
    workspace: Workspace = DEMO,
    expect: Version = None,
    as_json: JsonFlag = False,
) -> None:
    """Changes a member's role.

    Example: context-engine domain member set usr-ben --role viewer
    """
    _write(
        as_json, lambda s: s.members.set(actor, workspace, user, role=role, expected_version=expect)
    )


@member.command("remove")
def member_remove(
    user: UserId, actor: Actor = ADMIN, workspace: Workspace = DEMO, as_json: JsonFlag = False
) -> None:
    """Ends a membership, with the user's grants, teams and projects there.

    Example: context-engine domain member remove usr-finn
    """
    _write(as_json, lambda s: s.members.remove(actor, workspace, user))


User = Annotated[Text, typer.Option("--user", help="The user whose grant it is.")]
Team = Annotated[Text, typer.Option("--team", help="The team whose grant it is.")]
OnTable = Annotated[Text, typer.Option("--table", help="Where it holds; else the workspace.")]


@grant.command("set")
def grant_set(
    role: RoleName,
    user: User = None,
    team: Team = None,
    table_id: OnTable = None,
    actor: Actor = ADMIN,
    workspace: Workspace = DEMO,
    as_json: JsonFlag = False,
) -> None:
    """Gives a user or a team a role on a table; `none` shuts them out.

    Example: context-engine domain grant set --user usr-ben --table tbl-incidents --role none
    """
    ends = _ends(user, team, table_id, workspace)
    _write(as_json, lambda s: s.grants.set(actor, workspace, **ends, role=role))


@grant.command("remove")
def grant_remove(
    user: User = None,
    team: Team = None,
    table_id: OnTable = None,
    actor: Actor = ADMIN,
    workspace: Workspace = DEMO,
    as_json: JsonFlag = False,
) -> None:
    """Removes a grant; the next wider one decides again.

    Example: context-engine domain grant remove --user usr-ben --table tbl-incidents
    """
    ends = _ends(user, team, table_id, workspace)
    _write(as_json, lambda s: s.grants.remove(actor, workspace, **ends))


class Ends(TypedDict):
    """Whose grant, and where it holds."""

    subject_type: str
    subject_id: str
    scope_type: str
    scope_id: str


def _ends(user: Text, team: Text, table_id: Text, workspace: str) -> Ends:
    if (user is None) == (team is None):
        raise InvalidRequest("name one of --user and --team")
    return {
        "subject_type": "user" if user is not None else "team",
        "subject_id": user or team or "",
        "scope_type": "workspace" if table_id is None else "table",
        "scope_id": table_id or workspace,
    }


# -- records -----------------------------------------------------------------------------------

RecordIds = Annotated[list[str], typer.Argument(help="Record ids.")]


@record.command("create")
def record_create(
    table_id: TableId,
    cells: Cells,
    id: Annotated[Text, typer.Option("--id", help="An id of your own.")] = None,
    actor: Actor = ADMIN,
    workspace: Workspace = DEMO,
    as_json: JsonFlag = False,
) -> None:
    """Makes a record.

    Example: context-engine domain record create --table tbl-tasks --set fld-task-title="Try it"
    """
    values = _cells(cells)
    _write(as_json, lambda s: s.records.create(actor, workspace, table_id, values, id=id))


@record.command("update")
def record_update(
    record_id: Annotated[str, typer.Argument(help="Record id.")],
    table_id: TableId,
    cells: Cells,
    actor: Actor = ADMIN,
    workspace: Workspace = DEMO,
    expect: Version = None,
    as_json: JsonFlag = False,
) -> None:
    """Writes some cells of a record; `FIELD=null` empties one.

    Example: context-engine domain record update rec-tasks-0001 --table tbl-tasks
    --set fld-task-assignee=usr-chloe
    """
    values = _cells(cells)
    _write(
        as_json,
        lambda s: s.records.update(
            actor, workspace, table_id, record_id, values, expected_version=expect
        ),
    )


@record.command("delete")
def record_delete(
    record_ids: RecordIds,
    table_id: TableId,
    actor: Actor = ADMIN,
    workspace: Workspace = DEMO,
    as_json: JsonFlag = False,
) -> None:
    """Deletes records.

    Example: context-engine domain record delete rec-tasks-0001 rec-tasks-0002 --table tbl-tasks
    """
    _write(as_json, lambda s: s.records.delete(actor, workspace, table_id, record_ids))


@record.command("restore")
def record_restore(
    record_ids: RecordIds,
    table_id: TableId,
    actor: Actor = ADMIN,
    workspace: Workspace = DEMO,
    as_json: JsonFlag = False,
) -> None:
    """Brings deleted records back.

    Example: context-engine domain record restore rec-tasks-0001 --table tbl-tasks
    """
    _write(as_json, lambda s: s.records.restore(actor, workspace, table_id, record_ids))


@record.command("list")
def record_list(
    table_id: TableId,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 20,
    after: Annotated[Text, typer.Option(help="Go on after this id.")] = None,
    actor: Actor = ADMIN,
    workspace: Workspace = DEMO,
    as_json: JsonFlag = False,
) -> None:
    """Lists the records in the actor's sight.

    Example: context-engine domain record list --table tbl-tasks --actor usr-chloe
    """
    found = _with(lambda s: s.records.list(actor, workspace, table_id, limit=limit, after=after))
    if as_json:
        show_json([asdict(one) for one in found])
        return
    for one in found:
        console.print(_line(one), markup=False, highlight=False, no_wrap=True, overflow="ellipsis")


def _line(one: Record) -> str:
    """One record on one line; control characters of cells must not reach the terminal."""
    return f"{one.id}  v{one.version}  {json.dumps(one.cells, ensure_ascii=True)}"


def _cells(assignments: Iterable[str]) -> dict[str, JsonValue]:
    cells: dict[str, JsonValue] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals or not name:
            raise InvalidRequest("write FIELD=VALUE", field="--set")
        try:
            cells[name] = json.loads(text)
        except json.JSONDecodeError:
            cells[name] = text
    return cells


# -- tables, policies, messages ----------------------------------------------------------------


@table.command("list")
def table_list(
    actor: Actor = ADMIN, workspace: Workspace = DEMO, as_json: JsonFlag = False
) -> None:
    """Lists the tables in the actor's sight, with the actor's permission on each.

    Example: context-engine domain table list --actor usr-eva
    """
    found = _with(lambda s: s.tables.list(actor, workspace))
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
    _write(
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
    _write(as_json, lambda s: s.messages.add(actor, workspace, conversation, content, role=role))


# -- running and showing -----------------------------------------------------------------------


def _with(work: Callable[[DomainServices], Awaitable[T]]) -> T:
    """Runs `work` over the services of this process."""
    from context_engine import bootstrap

    async def go() -> T:
        async with bootstrap.domain_services(config()) as services:
            return await work(services)

    return run(go())


def _write(
    as_json: bool, work: Callable[[DomainServices], Awaitable[Written | Sequence[Written]]]
) -> None:
    """Shows what was written, and the token and changes of the call, the same for all of it."""
    done = _with(work)
    answers = [done] if isinstance(done, Written) else list(done)
    if as_json:
        show_json([_as_json(one) for one in answers])
        return
    for one in answers:
        console.print(f"{one.id}  version {one.version}", markup=False, highlight=False)
    for one in answers[:1]:
        for token in one.tokens:
            word = "NOT MARKED" if isinstance(token, Unmarked) else "marked"
            console.print(f"{word}  {json.dumps(asdict(token))}", markup=False, highlight=False)
        for change in one.changes:
            text = change.model_dump_json(exclude_none=True)
            console.print(text, markup=False, highlight=False, soft_wrap=True)


def _as_json(one: Written) -> JsonObject:
    return {
        "id": one.id,
        "version": one.version,
        "marked": one.marked,
        "tokens": [asdict(token) for token in one.tokens],
        "changes": [change.model_dump(mode="json", exclude_none=True) for change in one.changes],
    }
