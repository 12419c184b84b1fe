"""`ContextCache` in Redis or Valkey: entries, sessions and marks, each operation one script.

What is true is decided inside the scripts, by epoch, reign, clock and marks; see `look.lua` and
`fill.lua`. Unlinking is housekeeping: nothing is served or refused because of it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Self

from redis.asyncio import Redis
from redis.asyncio.cluster import RedisCluster
from redis.exceptions import ResponseError

from context_engine import keys
from context_engine.adapters.redis import packs
from context_engine.adapters.redis.batch import Command, Reply
from context_engine.adapters.redis.clients import connect, connect_cluster
from context_engine.adapters.redis.cluster import ClusterLink, key_of
from context_engine.adapters.redis.evict import Eviction
from context_engine.adapters.redis.link import Full, Link, bounded
from context_engine.adapters.redis.liveness import RedisLiveness
from context_engine.adapters.redis.servers import Server
from context_engine.errors import Unavailable
from context_engine.keys import Scope, Tag
from context_engine.ports import (
    Evicted,
    Look,
    Marked,
    Moment,
    NewEntry,
    Reign,
    Seen,
    SessionRecord,
    SessionWrite,
)
from context_engine.settings import Settings

MARKS_PATTERN = keys.marks_name("").replace("{}", "{*}")
"""Matches the name of every workspace's marks, and no other name."""

SCANNED = 1_000
"""Keys that one step of a walk looks at."""


class RedisCache:
    """The cache on one primary, or on those of a cluster. Bound to the event loop that first uses
    it.

    Each round trip ends within `settings.redis_timeout_seconds`. `source`: a URL, or a client of
    the caller's own, which must not decode replies.
    """

    def __init__(self, source: str | Redis | RedisCluster, settings: Settings) -> None:
        self._link = _link(source, settings)
        self._most_marks = settings.marks_cap
        self._life_ms = 2 * settings.cache_ttl_seconds * 1000
        self._single = packs.Single()
        self._looks = packs.Looks(self._life_ms)
        self.liveness = RedisLiveness(
            self._ask,
            self._link.beside,
            self.forget_everything,
            settings.redis_max_lag_seconds,
        )
        self._max_lag = settings.redis_max_lag_seconds

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._link.close()

    async def _ask(self, command: Command) -> Reply:
        return await self._link.batcher(key_of(command)).ask(self._single, None, command)

    async def session(self, scope: Scope) -> SessionRecord | None:
        if not scope.has_session:
            return None
        nothing = keys.marks_name(scope.workspace_id)
        return (await self.look(Look(scope, nothing, nothing, skip_entries=True))).session

    async def memory(self, scope: Scope) -> str | None:
        if not scope.has_session:
            return None
        names = (keys.marks_name(scope.workspace_id), keys.memory_name(scope))
        text: bytes | None = await self._ask(packs.call("memory", names, ()))
        return text.decode() if text is not None else None

    async def look(self, look: Look) -> Seen:
        workspace_id = look.scope.workspace_id
        batcher = self._link.batcher(keys.marks_name(workspace_id))
        return await batcher.ask(self._looks, workspace_id, look)

    async def fill(
        self, moment: Moment, entries: Sequence[NewEntry], session: SessionWrite | None
    ) -> bool:
        if entries:
            workspace_id = keys.workspace_in(entries[0].name)
        elif session is not None:
            workspace_id = session.scope.workspace_id
        else:
            return True
        command = packs.fill(workspace_id, moment, entries, session, self._life_ms)
        try:
            return bool(await self._ask(command))
        except Full:
            for entry in entries[-1:]:
                await self.release(entry.name)
            return False

    async def release(self, whole: str) -> None:
        await self._ask(("UNLINK", keys.lead_name(whole)))

    async def found(self, workspace_id: str, session: SessionWrite | None = None) -> None:
        command = packs.found(workspace_id, _epoch(), session, self._life_ms)
        try:
            await self._ask(command)
        except Full:
            return

    async def mark(
        self,
        workspace_id: str,
        tags: frozenset[Tag],
        *,
        create: bool,
        timeline: str | None = None,
    ) -> Marked:
        command = packs.mark(
            workspace_id,
            tags,
            epoch=_epoch() if create else "",
            life_ms=self._life_ms,
            most=self._most_marks,
            timeline=timeline,
        )
        marked = packs.marked(workspace_id, await self._ask(command))
        if not create:
            return marked
        name = keys.marks_name(workspace_id)
        return replace(marked, wait_ms=await self.liveness.settles_in(marked.reign, name))

    async def mark_many(self, changes: Sequence[tuple[str, frozenset[Tag]]]) -> Sequence[Marked]:
        marks = (self.mark(workspace_id, tags, create=False) for workspace_id, tags in changes)
        return await asyncio.gather(*marks)

    async def forget(self, workspace_id: str) -> None:
        await self._ask(("UNLINK", keys.marks_name(workspace_id)))

    async def forget_everything(self) -> frozenset[Reign]:
        reigns = set[Reign]()
        for _ in range(self._link.walks):
            for server, _, left in await self._link.walked(_forgetting):
                reigns.add(Reign(server.decode()))
                await asyncio.gather(*(self._ask(("UNLINK", _text(name))) for name in left))
        return frozenset(reigns)

    async def evict(self, workspace_id: str, tags: frozenset[Tag]) -> Evicted:
        return await Eviction(self._ask).of(keys.index_name(workspace_id, t) for t in sorted(tags))

    async def end_sessions(self, workspace_id: str, user_id: str | None = None) -> Evicted:
        if user_id is not None:
            return await Eviction(self._ask).of((keys.sessions_name(workspace_id, user_id),))
        # No character of an id is special in a pattern: those are encoded in names.
        return await Eviction(self._ask).of(
            await self._names(keys.sessions_name(workspace_id, "") + "*")
        )

    async def _names(self, pattern: str) -> list[str]:
        """The names that match, by a walk over all there are: for what is rare."""
        found: dict[str, None] = {}
        for server in await self._link.servers():
            cursor = -1
            while cursor != 0:
                async with bounded(self._link.timeout):
                    cursor, names = await server.scan(max(cursor, 0), match=pattern, count=SCANNED)
                found.update(dict.fromkeys(map(_text, names)))
        return list(found)

    async def ping(self) -> None:
        await self._link.ping()

    async def check(self) -> None:
        """Whether every primary can keep the promise; called at the start.

        Raises `Unavailable`, which says what to change.
        """
        for primary in await self._link.servers():
            await self._check(primary)

    async def _check(self, primary: Server) -> None:
        async with bounded(self._link.timeout):
            server = await primary.info()
            limits = await _limits(primary) if server.get("connected_slaves", 0) else None
        if server.get("cluster_enabled", 0) and isinstance(self._link, Link):
            raise Unavailable("redis", "a node of a cluster; set CONTEXT_REDIS_CLUSTER=true")
        if int(str(server["redis_version"]).split(".", 1)[0]) < 7:
            raise Unavailable("redis", "older than 7.0; use Redis 7 or newer, or Valkey")
        if server["role"] != "master":
            raise Unavailable("redis", "this is a replica; give the address of the primary")
        if limits is not None:
            _guarded(*limits, self._max_lag)


def _forgetting(cursor: str) -> Command:
    return packs.call("forget", (), (cursor, MARKS_PATTERN, SCANNED))


async def _limits(primary: Server) -> tuple[int, int] | None:
    """`min-replicas-to-write` and `min-replicas-max-lag`. None where one may not ask: hosted
    stores forbid it, and see to it themselves."""
    try:
        found = await primary.config_get("min-replicas-*")
    except ResponseError:
        return None
    kept = {_text(name): int(_text(value)) for name, value in found.items()}
    return kept.get("min-replicas-to-write", 0), kept.get("min-replicas-max-lag", 0)


def _guarded(to_write: int, max_lag: int, waited: float) -> None:
    """Raises `Unavailable` where a primary that is cut off goes on, or longer than is waited."""
    if to_write == 0 or max_lag == 0:
        zero = "to-write" if to_write == 0 else "max-lag"
        raise Unavailable(
            "redis",
            f"replicas are connected, but min-replicas-{zero} is 0, so that a primary that was cut"
            f" off would go on answering; set it to {1 if to_write == 0 else 10}",
        )
    if max_lag > waited:
        raise Unavailable(
            "redis",
            f"min-replicas-max-lag is {max_lag} s, for so long a primary that was cut off goes on"
            f" answering, but only {waited:g} s are waited out: lower it, or set"
            f" CONTEXT_REDIS_MAX_LAG_SECONDS to {max_lag}",
        )


def _link(source: str | Redis | RedisCluster, settings: Settings) -> Link | ClusterLink:
    timeout = settings.redis_timeout_seconds
    if isinstance(source, str):
        clustered = settings.redis_cluster
        source = connect_cluster(source, timeout) if clustered else connect(source, timeout)
    return (
        ClusterLink(source, timeout) if isinstance(source, RedisCluster) else Link(source, timeout)
    )


def _epoch() -> str:
    """From here, not from Lua: its random gave the same first number on two fresh servers."""
    return secrets.token_hex(16)


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
