"""`domain policy`: the row policies of a table."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from context_engine.errors import InvalidRequest
from workers.cli.domain.shared import (
    ADMIN,
    DEMO,
    Actor,
    Reader,
    TableId,
    Version,
    Workspace,
    with_services,
)
from workers.cli.domain.written import Before, Replaces, Stood, write
from workers.cli.shared import JsonFlag, show_json, stderr
from workers.cli.terminal import PLAIN

if TYPE_CHECKING:
    from pydantic import JsonValue

    from context_engine.adapters.sql.services import DomainServices
    from context_engine.models.base import JsonObject

policy = typer.Typer(no_args_is_help=True, help="Row policies of a table.")

SHOWN_BESIDE = ("tableId", "version")
"""What `get --json` shows beside the policies."""


@policy.command("get")
def policy_get(
    table_id: TableId, actor: Reader = ADMIN, workspace: Workspace = DEMO, as_json: JsonFlag = False
) -> None:
    """Prints the row policies of a table as the JSON that `set` takes, and on stderr its version.

    With --json the version stands beside them, which `set` passes over.

    Example: context-engine domain policy get --table tbl-tasks > policy.json
    """
    found = with_services(lambda s: s.policies.versioned(actor, workspace, table_id))
    stored = found.policies.model_dump(mode="json")
    if as_json:
        show_json({"tableId": table_id, "version": found.version, **stored})
        return
    show_json(stored)
    stderr.print(f"version {found.version}, for `policy set --expect`", **PLAIN)


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
    """Replaces the row policies of a table: all of them, so `get` them first.

    A predicate with a day and a link, for tasks that are due by today in Berlin (without a zone:
    in the user's) and belong to a running project:

    {"all": [{"cmp": {"ref": "field:fld-task-due", "op": "lte", "operand": {"now": {"unit":
    "today", "tz": "Europe/Berlin"}}}}, {"linkedAny": {"field": "fld-task-project", "pred":
    {"cmp": {"ref": "field:fld-project-status", "op": "eq", "operand": {"literal":
    "Running"}}}}}]}

    The demo's own, under which a viewer sees the tasks assigned to them or made by them:

    Example: echo '{"default": "show_all", "policies": [{"mode": "restrictive", "subjects":
    [{"type": "role", "id": "viewer"}], "pred": {"any": [{"cmp": {"ref": "sys:created_by",
    "op": "eq", "operand": {"user": "id"}}}, {"cmp": {"ref": "field:fld-task-assignee",
    "op": "eq", "operand": {"user": "id"}}}]}}]}' |
    context-engine domain policy set --table tbl-tasks -
    """
    wanted = _json_of(file)
    if isinstance(wanted, dict):
        wanted = {name: value for name, value in wanted.items() if name not in SHOWN_BESIDE}
        if not {"default", "policies"} <= wanted.keys():
            # What is left out would be taken away: nobody opens a table by a file of nothing.
            raise InvalidRequest(
                "name both default and policies; `policy get` shows them", field="FILE"
            )
    write(
        as_json,
        "policies of table",
        lambda s: s.policies.set(actor, workspace, table_id, wanted, expected_version=expect),
        Replaces(_stood(actor, workspace, table_id), _counted(wanted)),
    )


def _stood(actor: str, workspace: str, table_id: str) -> Before:
    async def before(services: DomainServices) -> Stood:
        found = await services.policies.versioned(actor, workspace, table_id)
        return Stood(_counted(found.policies.model_dump(mode="json")), found.version)

    return before


def _counted(policies: JsonValue) -> JsonObject:
    """What a write of policies tells of them; of what is not any, nothing: it is refused."""
    if not isinstance(policies, dict) or not isinstance(listed := policies.get("policies"), list):
        return {}
    return {"default": policies.get("default"), "policies": len(listed)}


def _json_of(file: Path) -> JsonValue:
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
        value: JsonValue = json.loads(text)
    except OSError as error:
        raise InvalidRequest(f"cannot be read: {file}: {error.strerror}", field="FILE") from error
    except ValueError as error:
        raise InvalidRequest(f"not readable as JSON ({error})", field="FILE") from error
    return value
