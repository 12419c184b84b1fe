"""What the domain commands share: their options, a run over the services, how lists are shown."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Literal, Optional, TypeVar, get_args

import typer
from typer.models import OptionInfo

from workers.cli.shared import camel, config, console, run, show_json, stderr
from workers.cli.terminal import PLAIN

if TYPE_CHECKING:
    from context_engine.adapters.sql.services import DomainServices

T = TypeVar("T")

Actor = Annotated[str, typer.Option("--actor", help="User who writes; checked as any other.")]
Reader = Annotated[str, typer.Option("--actor", help="User who looks, and sees what is theirs.")]
Workspace = Annotated[str, typer.Option("--workspace", help="Workspace id.")]
TableId = Annotated[str, typer.Option("--table", help="Table id.")]
Version = Annotated[
    Optional[int],  # noqa: UP045 - typer reads this at run time
    typer.Option("--expect", help="Refuse unless this is the version found; lists show it."),
]
Text = Optional[str]  # noqa: UP045
OwnId = Annotated[Text, typer.Option("--id", help="An id of your own.")]
RoleName = Literal["none", "viewer", "commenter", "editor", "builder", "admin"]
MemberRole = Literal["none", "viewer", "commenter", "editor", "builder", "admin", "defer"]


def choice(option: str, help: str, values: object) -> OptionInfo:
    """An option of many `values`, a `Literal`: too long for the narrow column of the types."""
    *others, last = get_args(values)
    told = f"{help}: {', '.join(others)} or {last}."
    made: OptionInfo = typer.Option(option, help=told, metavar=option.strip("-").upper())
    return made


ADMIN, DEMO = "usr-ana", "ws-delivery"
"""Who and where, unless told: the admin of the demo workspace."""


def with_services(work: Callable[[DomainServices], Awaitable[T]]) -> T:
    """Runs `work` over the services of this process."""
    from context_engine import bootstrap

    async def go() -> T:
        async with bootstrap.domain_services(config()) as services:
            return await work(services)

    return run(go())


def show_list(
    as_json: bool,
    found: Sequence[T],
    line: Callable[[T], str],
    *,
    none: str,
    of: Callable[[T], dict[str, object]] = camel,
) -> None:
    """A line for each, or a JSON array; of an empty list stderr says that there is `none`."""
    if as_json:
        show_json([of(one) for one in found])
    elif not found:
        stderr.print(none, **PLAIN)
    for one in () if as_json else found:
        console.print(line(one), **PLAIN)
