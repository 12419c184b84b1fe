"""`explain`: for operators, which rules let a user see something, or shut it out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Optional

import typer
from rich.text import Text

from workers.cli.shared import JsonFlag, config, console, run, show_json, stderr

if TYPE_CHECKING:
    from context_engine.access import Question, Step

Words = Optional[str]  # noqa: UP045 - typer reads this at run time
MANY: list[str] = []

NOTICE = (
    "For operators only: this tells what is hidden from what is missing, over the domain in"
    " PostgreSQL as it is now. Keep it from agents."
)
STYLES = {"lets in": "green", "narrows": "yellow", "shuts out": "red", "no effect": "dim"}


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

    For operators, over the domain in PostgreSQL. Missing things are said to be missing.

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
    stderr.print(NOTICE, style="yellow", markup=False, highlight=False, soft_wrap=True)
    if as_json:
        show_json(_as_json(question, steps))
        return
    width = max(map(len, STYLES))
    for one in steps:
        console.print(_line(one, width), soft_wrap=True)


async def _read(question: Question) -> tuple[Step, ...]:
    from context_engine import bootstrap
    from context_engine.adapters.sql.explain import explain as explained

    async with bootstrap.parts(config()) as wired:
        return await explained(wired.database, question)


def _line(one: Step, width: int) -> Text:
    """Ids and rules are written by users: nothing in them steers the terminal."""
    from context_engine.wording import clean

    return Text.assemble(
        (one.outcome.ljust(width), STYLES[one.outcome]),
        "  ",
        (clean(one.step), "bold"),
        "  ",
        clean(one.because),
    )


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
        "steps": [
            {"step": one.step, "outcome": one.outcome, "because": one.because} for one in steps
        ],
    }
