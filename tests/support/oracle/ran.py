"""Under which rights the tools of a dialogue ran: noted as the product does, by the engine."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine import access
from context_engine.adapters.sql.reads import SqlDomain
from context_engine.errors import NotFound
from context_engine.keys import Coordinates
from context_engine.reading import visible
from tests.support.oracle.draws import NOW
from tests.support.oracle.model import Message, Workspace


def ran_earlier(workspace: Workspace) -> bool:
    """Whether any tool ran while the rights were others."""
    return workspace.earlier is not None and any(_over_tables(workspace, earlier=True))


async def rights_noted(
    database: AsyncEngine, workspace: Workspace, *, earlier: bool
) -> dict[str, dict[str, str]]:
    """By message: the rights of the user it ran for, in the workspace that is loaded.

    Nothing for what could not have run: the product refuses to keep it.
    """
    found: dict[Coordinates, dict[str, str]] = {}
    noted = {}
    for message in _over_tables(workspace, earlier=earlier):
        at = Coordinates(
            workspace.id,
            message.on_behalf_of or "",
            table_ids=message.table_ids,
            agent_stack=message.under or (),
        )
        if at not in found:
            found[at] = await _rights(database, at)
        noted[message.id] = found[at]
    return noted


async def _rights(database: AsyncEngine, at: Coordinates) -> dict[str, str]:
    try:
        async with SqlDomain(database).snapshot() as reads:
            return access.rights_of(await visible(reads, at, now=NOW), at.table_ids)
    except NotFound:
        return {}


def _over_tables(workspace: Workspace, *, earlier: bool) -> Iterator[Message]:
    for talk in workspace.conversations:
        for one in talk.messages:
            then = one.earlier and workspace.earlier is not None
            if one.table_ids and one.under is not None and then == earlier:
                yield one
