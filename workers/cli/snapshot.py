"""`snapshot …`: what the engine told an agent, when, for whom, and how that changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import ValidationError
from rich.table import Table
from rich.text import Text

from workers.cli.evidence import (
    FOR_OPERATORS,
    ContextId,
    Operator,
    Words,
    clock,
    denial_json,
    denials_of,
    line,
    moment,
    parsed,
    said,
    snapshot_of,
    versions_json,
    warn_operator,
    with_parts,
)
from workers.cli.shared import JsonFlag, console, leave, show_json, stderr
from workers.cli.snapshot_diff import diff_json, pairs, show_diff

if TYPE_CHECKING:
    from context_engine.bootstrap import Parts
    from context_engine.errors import InvalidRequest
    from context_engine.evidence import ContextDiff, Denied
    from context_engine.models.base import JsonObject
    from context_engine.ports import SnapshotLine, SnapshotRecord

app = typer.Typer(no_args_is_help=True, help="Evidence: what the engine told an agent.")

MOST = 1_000
"""Snapshots that one page lists at most."""


@app.command("list")
def list_(
    workspace: Annotated[Words, typer.Option(help="Only this workspace.")] = None,
    user: Annotated[Words, typer.Option(help="Only what was told for this user.")] = None,
    since: Annotated[
        Words, typer.Option(help="Not older: 2026-05-01, 2026-05-01T09:30 (local), or 90m, 2d ago.")
    ] = None,
    before: Annotated[
        Words, typer.Option(help="The next page: what is older than this context id.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=MOST, help="How many at most.")] = 20,
    as_json: JsonFlag = False,
) -> None:
    """Lists what the engine told agents, the newest first. Cached answers repeat a context id.

    Example: context-engine snapshot list --workspace ws-delivery --user usr-ana --since 2h
    """

    oldest = moment(since)

    async def found(wired: Parts) -> list[SnapshotLine]:
        after = (await snapshot_of(wired, before)).context_id if before is not None else None
        return list(
            await wired.snapshots.list(
                workspace, user_id=user, since=oldest, before=after, limit=limit
            )
        )

    lines = with_parts(found)
    if as_json:
        show_json([_line_json(one) for one in lines])
        return
    if not lines:
        line("nothing is kept that fits; leave an option out, or build a context first")
        return
    console.print(_listed(lines, one_workspace=workspace is not None))
    if len(lines) == limit:
        line(f"older ones: add --before {lines[-1].context_id}")


def _listed(lines: list[SnapshotLine], *, one_workspace: bool) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("told", no_wrap=True)
    table.add_column("source", no_wrap=True)
    table.add_column("context, for whom; hash, request; summary", overflow="fold")
    for one in lines:
        whom = one.user_id if one_workspace else f"{one.user_id} in {one.workspace_id}"
        about = Text.assemble(
            (one.context_id, "bold"), "  ", said(whom), "\n",
            (one.context_hash[:12], "cyan"), "  ", said(one.request_id or "", "dim"), "\n",
            said(_first_words(one.summary)),
        )  # fmt: skip
        table.add_row(clock(one.generated_at), one.source, about)
    return table


def _first_words(summary: str) -> str:
    """Of what it says of this context: each begins with the sentence on what a context is not."""
    from context_engine.wording import LANGUAGES, boundary

    first, _, rest = summary.partition("\n")
    return rest if first in {boundary(language) for language in LANGUAGES} else summary


def _line_json(one: SnapshotLine) -> JsonObject:
    return {
        "contextId": one.context_id,
        "contextHash": one.context_hash,
        "workspaceId": one.workspace_id,
        "userId": one.user_id,
        "source": one.source,
        "requestId": one.request_id,
        "generatedAt": one.generated_at.isoformat(),
        "summaryStart": one.summary,
    }


# -- show --------------------------------------------------------------------------------------


@app.command("show")
def show(context_id: ContextId, operator: Operator = False, as_json: JsonFlag = False) -> None:
    """Shows a context as it was told, from which versions it was made, and why it is as it is.

    Example: context-engine snapshot show latest --operator
    """

    async def found(wired: Parts) -> tuple[SnapshotRecord, tuple[Denied, ...] | None]:
        record = await snapshot_of(wired, context_id)
        parsed(record)  # damaged evidence is refused before anything of it is shown
        return record, await denials_of(wired, record) if operator else None

    record, denials = with_parts(found)
    if operator:
        warn_operator()
    if as_json:
        show_json(_record_json(record, denials))
    else:
        _show(record, denials)


def _record_json(record: SnapshotRecord, denials: tuple[Denied, ...] | None) -> JsonObject:
    context = parsed(record)
    shown: JsonObject = {
        "contextId": record.context_id,
        "contextHash": record.context_hash,
        "workspaceId": record.workspace_id,
        "userId": record.user_id,
        "scopeKey": record.scope_key,
        "source": record.source,
        "generatedAt": record.generated_at.isoformat(),
        "requestId": record.request_id,
        "traceId": record.trace_id,
        "versions": versions_json(record, context),
        "compression": record.compression,
        "context": context,
    }
    if denials is not None:
        listed = [denial_json(one) for one in denials]
        shown["operator"] = {"notice": FOR_OPERATORS, "denials": [*listed]}
    return shown


def _show(record: SnapshotRecord, denials: tuple[Denied, ...] | None) -> None:
    from context_engine.models import AgentContext
    from workers.show import context_panel

    try:
        context = AgentContext.model_validate_json(record.context)
    except ValidationError:
        leave(_other_contract(record))
    head = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    head.add_column(style="dim", no_wrap=True)
    head.add_column(overflow="fold")
    head.add_row("context", record.context_id)
    head.add_row("told", clock(record.generated_at))
    head.add_row("for", said(f"{record.user_id} in {record.workspace_id}"))
    for name, value in (("request", record.request_id), ("trace", record.trace_id)):
        if value:
            head.add_row(name, said(value))
    head.add_row("versions", said(pairs(versions_json(record, parsed(record)))))
    if record.compression:
        head.add_row("dialogue", Text(pairs(record.compression)))
    console.print(head)
    console.print(context_panel(context))
    if denials is not None:
        _show_denials(denials)


def _other_contract(record: SnapshotRecord) -> InvalidRequest:
    from context_engine.errors import InvalidRequest

    return InvalidRequest(
        f"{record.context_id} follows another version of the contract; show it with --json",
        field="CONTEXT",
    )


def _show_denials(denials: tuple[Denied, ...]) -> None:
    table = Table(title="rules that denied, for operators", title_justify="left")
    for name in ("what", "rule", "read by the build of"):
        table.add_column(name, overflow="fold")
    for one in denials:
        table.add_row(said(one.what), said(one.rule), one.read_by)
    if denials:
        console.print(table)
    else:
        line("no rule denied anything that was asked for")


# -- diff --------------------------------------------------------------------------------------


@app.command("diff")
def diff(
    old: Annotated[
        str, typer.Argument(metavar="OLD", help="The earlier one: a context id, or `latest~1`.")
    ],
    new: Annotated[
        str, typer.Argument(metavar="NEW", help="The later one: a context id, or `latest`.")
    ],
    operator: Operator = False,
    as_json: JsonFlag = False,
) -> None:
    """Compares two contexts section by section: what appeared, went and changed, and why.

    Example: context-engine snapshot diff latest~1 latest --operator
    """
    from context_engine.evidence import compare

    async def found(wired: Parts) -> tuple[SnapshotRecord, SnapshotRecord, ContextDiff]:
        records = [await snapshot_of(wired, id) for id in (old, new)]
        rules = [await denials_of(wired, one) if operator else () for one in records]
        one, other = records
        return one, other, compare(parsed(one), parsed(other), (rules[0], rules[1]))

    one, other, differs = with_parts(found)
    if operator:
        warn_operator()
    if (one.user_id, one.workspace_id) != (other.user_id, other.workspace_id):
        stderr.print("these were told to different users, or of different workspaces")
    if as_json:
        show_json(diff_json(one, other, differs, operator=operator))
    else:
        show_diff(one, other, differs)
