"""Ann's context in a workspace, and whether it is served."""

from __future__ import annotations

from context_engine.errors import Unavailable
from context_engine.keys import Scope
from context_engine.ports import Marked, SessionWrite
from tests.support.cache import TABLE, RedisStore, entry, scope, whole_name


def ann(workspace: str) -> Scope:
    return scope("ann", workspace=workspace)


async def keep(store: RedisStore, workspace: str) -> None:
    """Fills ann's whole context with a payload that names the workspace."""
    who = ann(workspace)
    moment = await store.moment(who)
    new = entry(whole_name(who), moment, payload=workspace.encode())
    assert await store.cache.fill(moment, [new], SessionWrite(who, b"{}", "h", 60))


async def is_hit(store: RedisStore, workspace: str) -> bool:
    """And nobody else's. A store that is away has no hit."""
    try:
        seen = await store.look(ann(workspace))
    except Unavailable:
        return False
    assert seen.whole is None or seen.whole.payload == workspace.encode()
    return seen.whole is not None


async def change(store: RedisStore, workspace: str) -> Marked:
    return await store.cache.mark(workspace, frozenset({TABLE}), create=True)
