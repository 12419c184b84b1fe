"""Ann's context, and whether it is served."""

from __future__ import annotations

from context_engine.ports import SessionWrite
from tests.support.cache import (
    RedisStore,
    entry,
    scope,
    whole_name,
)

ANN = scope("ann")


async def keep(store: RedisStore, user: str) -> None:
    """Fills the user's whole context with a payload that names the user."""
    who = scope(user)
    moment = await store.moment(who)
    new = entry(whole_name(who), moment, payload=f"for {user}".encode())
    assert await store.cache.fill(moment, [new], SessionWrite(who, user.encode(), "h", 60))


async def is_hit(store: RedisStore, user: str = "ann") -> bool:
    seen = await store.look(scope(user))
    assert seen.whole is None or seen.whole.payload == f"for {user}".encode()
    return seen.whole is not None
