"""`explain`: for operators, which rules let a user see something, or shut it out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Optional

import typer
from rich.text import Text

from workers.cli.shared import Exit, JsonFlag, config, console, run, show_json, stderr
from workers.cli.terminal import json_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from context_engine.access import Question, Step

Words = Optional[str]  # noqa: UP045 - typer reads this at run time
MANY: list[str] = []

NOTICE = (
    "For operators only: this tells what is hidden from what is missing, over the domain in"
    " PostgreSQL as it is now. Keep it from agents."
)
STYLES = {"lets in": "green", "narrows": "yellow", "shuts out": "red", "no effect": "dim"}
INDENT = max(map(len, STYLES)) + 2
"""Columns before the words of a step: those of the outcome."""


def explain(
    user: Annotated[str, typer.Option(help="User whose sight it is.")],
    table: Annotated[str, typer.Option(help="Table id.")],
    workspace: Annotated[str, typer.Option(help="Workspace id.")] = "ws-delivery",
    view: Annotated[Words, typer.Option(help="View id, of the table.")] = None,
    field: Annotated[Words, typer.Option(help="Field id, of the table.")] = None,
    record: Annotated[Words, typer.Option(help="Record id, of the table.")] = None,
    agent: Annotated[
        list[str], typer.Option(help="Agent id, repeatable, outermost first; rights narrow.")
    ] = MANY,
    as_json: JsonFlag = False,
) -> None:
    """Says why a user sees a table or not: which grant, team, policy or filter decided what.

    For operators, over the domain in PostgreSQL. Policies are counted as `domain policy get` lists
    them. Exits with 0 whatever the verdict, and with 65 where something that was named is not
    there at all.

    Example: context-engine explain --user usr-chloe --table tbl-tasks --view viw-tasks-board
    """
    from context_engine.access import Question

    question = Question(
        user_id=user,
        workspace_id=workspace,
        table_id=table,
        view_id=view,
        field_id=field,
        record_id=record,
        agent_stack=tuple(agent),
    )
    steps = run(_read(question))
    stderr.print(NOTICE, style="yellow", markup=False, highlight=False)
    if as_json:
        show_json(_as_json(question, steps))
    else:
        for one in steps:
            _show(one)
    _leave_if_missing(steps)


async def _read(question: Question) -> tuple[Step, ...]:
    from context_engine import bootstrap
    from context_engine.adapters.sql.explain import explain as explained

    async with bootstrap.parts(config()) as wired:
        return await explained(wired.database, question)


def _leave_if_missing(steps: tuple[Step, ...]) -> None:
    missing = _missing(steps)
    for because in missing:
        stderr.print("[red]not_found[/red] ", end="")
        stderr.print(because, markup=False, highlight=False)
    if missing:
        raise typer.Exit(Exit.REJECTED)


def _missing(steps: tuple[Step, ...]) -> list[str]:
    return list(dict.fromkeys(one.because for one in steps if one.missing))


def _show(one: Step) -> None:
    """The outcome in a column of its own; the words beside it, wrapped, and nothing cut."""
    first, *others = _lines(one)
    head = Text.assemble((one.outcome.ljust(INDENT), STYLES[one.outcome]), first)
    if len(head) > console.width:
        head = Text(one.outcome, STYLES[one.outcome])
        others = [first, *others]
    console.print(head)
    for other in others:
        for line in other.wrap(console, console.width - INDENT):
            line.rstrip()
            console.print(Text(" " * INDENT).append_text(line))


def _lines(one: Step) -> Iterator[Text]:
    """Ids and rules are written by users: nothing in them steers the terminal."""
    from context_engine.wording import clean

    together = Text.assemble((clean(one.step), "bold"), "  ", clean(one.because))
    if INDENT + len(together) <= console.width:
        yield together
    else:
        yield Text(clean(one.step), "bold")
        yield Text(clean(one.because))
    if one.rule is not None:
        yield Text(json_text(one.rule))


def _as_json(question: Question, steps: tuple[Step, ...]) -> dict[str, object]:
    verdicts = [one for one in steps if one.step.startswith("verdict: ")]
    return {
        "notice": NOTICE,
        "userId": question.user_id,
        "workspaceId": question.workspace_id,
        "tableId": question.table_id,
        "viewId": question.view_id,
        "fieldId": question.field_id,
        "recordId": question.record_id,
        "agentStack": list(question.agent_stack),
        "inSight": all(one.outcome == "lets in" for one in verdicts),
        "missing": _missing(steps),
        "steps": [
            {"step": one.step, "outcome": one.outcome, "because": one.because, "rule": one.rule}
            for one in steps
        ],
    }
