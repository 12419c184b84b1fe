"""A workspace in PostgreSQL and its cache in Valkey, with every step of everyone at a barrier."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine import keys
from context_engine.adapters.redis import RedisCache
from context_engine.adapters.sql.outbox import SqlOutbox
from context_engine.adapters.sql.reads import SqlDomain
from context_engine.adapters.sql.services import DomainServices
from context_engine.adapters.sql.snapshots import SqlSnapshots
from context_engine.builder import Builder, Limits
from context_engine.engine import ContextEngine, Options
from context_engine.errors import NotFound
from context_engine.invalidation import Invalidator
from context_engine.liveness import Assumed, Liveness, Lookout
from context_engine.models import AgentContext, ContextBuildInput
from context_engine.repository import ContextRepository, Lifetimes
from context_engine.settings import Settings
from events.records import RawMessage
from events.topics import Topics
from tests.support.barriers import Barriers, HeldCache, HeldDomain, HeldOutbox, Killed
from tests.support.kept import ANA, BOB, furnish
from tests.support.pipe import Pipe
from tests.support.world import SECRET
from workers.backoff import Patience
from workers.change_applier import ChangeApplier
from workers.consumption import Consumption, next_offsets
from workers.heartbeat import Heart
from workers.proving import Prover
from workers.relay import Relay, relay

TTL = timedelta(seconds=300)
Marks = Literal["service", "consumer"]
"""Who marks a change: its service, or the consumer because the service died before it could."""


@dataclass
class Race:
    """Workspace `w` of ADMIN ana and VIEWER bob, who asks for table `t`, of ten records.

    One process each: builder, writer, relay, consumer; `other` builds in another process.
    """

    settings: Settings
    database: AsyncEngine
    barriers: Barriers
    cache: HeldCache
    other_cache: HeldCache
    ttl: timedelta = TTL
    liveness: Liveness | None = None

    def __post_init__(self) -> None:
        self.services = DomainServices(self.database, self.cache, ids_as_given=True)
        self.topics = Topics.of(self.settings)
        self.pipe = Pipe(frozenset(topic.name for topic in self.topics.changes()))
        self.outbox = HeldOutbox(SqlOutbox(self.database), self.barriers)
        self.relay = Relay(self.outbox, self.pipe, self.topics)
        self.consumer = self.consumer_over(self.cache)
        self.engine = self.engine_over(self.cache, self.barriers)
        self.other = self.engine_over(self.other_cache, Barriers())

    def engine_over(self, cache: RedisCache, barriers: Barriers, **more: Any) -> ContextEngine:
        """A builder's engine."""
        return ContextEngine(
            HeldDomain(SqlDomain(self.database), barriers),
            ContextRepository(cache, SqlSnapshots(self.database), Lifetimes(cache=self.ttl)),
            Builder(Limits(tag_secret=SECRET)),
            **{"liveness": self.liveness or Assumed(), **more},
        )

    def consumer_over(self, cache: RedisCache) -> ChangeApplier:
        """A consumer that has just started."""
        prover = Prover(cache.liveness, self.pipe, self.ttl)
        return ChangeApplier(Invalidator(cache), prover, self.pipe, self.topics, self.settings)

    def heart_over(self, cache: RedisCache) -> Heart:
        return Heart(cache.liveness, cache, self.outbox, self.pipe, self.topics)

    def lookout_over(self, cache: RedisCache) -> Lookout:
        return Lookout(cache.liveness, sorted(self.pipe.changes))

    # -- readers --

    async def ask(
        self,
        engine: ContextEngine | None = None,
        options: Options | None = None,
        **where: Any,
    ) -> tuple[AgentContext, str]:
        """Bob's context of `t`, and where it came from."""
        given = {"userId": BOB, "workspaceId": "w", "tableIds": ["t"], **where}
        request = ContextBuildInput.model_validate(given)
        answer = await (engine or self.engine).build(request, options or Options())
        return AgentContext.model_validate_json(answer.context), answer.source

    async def name(self, engine: ContextEngine | None = None, **where: Any) -> str:
        """What a request that arrives now is told of the table's name; `gone` for not found."""
        return (await self.said(engine, **where))[0]

    async def said(self, engine: ContextEngine | None = None, **where: Any) -> tuple[str, str]:
        """The name, and where it came from."""
        try:
            context, source = await self.ask(engine, **where)
        except NotFound:
            return "gone", "refused"
        assert context.table is not None
        return context.table.name, source

    async def kept(self) -> None:
        """From here on the cache serves the context."""
        await self.name()
        assert (await self.said())[1] == "cache"

    async def holds_entries(self) -> bool:
        """Whether a context's bytes still lie in the store, served or not."""
        return bool(await self.cache._link.redis.keys("*whole:*"))

    # -- writers --

    async def writes(self, write: Awaitable[object], marked_by: Marks = "service") -> None:
        """A write that is done: acknowledged, or committed by a service that died before its
        mark, and applied by the consumer since."""
        if marked_by == "service":
            await write
            return
        await self.writes_and_dies(write)
        await self.passes_on()

    async def writes_and_dies(self, write: Awaitable[object]) -> None:
        """Between its commit and its mark."""
        self.barriers.close("after the commit", kills=True)
        with suppress(Killed):
            await write
            raise AssertionError("it lived")

    def rename(self, name: str) -> Coroutine[Any, Any, object]:
        return self.services.tables.rename(ANA, "w", "t", name=name)

    def grant(self, role: str) -> Coroutine[Any, Any, object]:
        """Gives bob a role on the table; `none` takes it away."""
        return self.services.grants.set(
            ANA, "w", subject_type="user", subject_id=BOB, scope_id="t", role=role
        )

    # -- relay and consumer, step by step or as they run --

    async def relays(self) -> None:
        await self.relay.publish()

    async def consumes(self, *batch: RawMessage) -> None:
        """The next batch, or that one; its position moves afterwards."""
        found = list(batch) or await self.pipe.poll(0.01)
        await self.consumer.apply(found)
        await self.pipe.commit(next_offsets(found))

    async def passes_on(self) -> None:
        """What is committed is published, and applied."""
        await self.relays()
        await self.consumes()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Relay, heart and consumer at work in tasks of their own; killed at the end."""
        stop = asyncio.Event()
        consumption = Consumption(self.pipe, self.consumer, Patience(10.0))
        tasks = [
            asyncio.create_task(relay(self.relay, self.outbox, stop, Patience(10.0))),
            asyncio.create_task(self.heart_over(self.other_cache).run(stop)),
            asyncio.create_task(consumption.run(stop)),
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.outbox.close()


@asynccontextmanager
async def race_over(
    database: AsyncEngine,
    redis_url: str,
    settings: Settings,
    *,
    furnished: bool = False,
    **more: Any,
) -> AsyncIterator[Race]:
    """A race over a workspace, which may be in the database already; what was written so far is
    published and applied, and the store knows of which database it is."""
    barriers = Barriers()
    settings = settings.model_copy(update={"redis_timeout_seconds": 5.0})
    async with (
        HeldCache.over(redis_url, settings, barriers) as cache,
        HeldCache.over(redis_url, settings, Barriers()) as other,
    ):
        waiting = await SqlOutbox(database).unpublished(1_000)
        assert waiting is not None
        assert waiting.timeline is not None
        await cache.liveness.begin(waiting.timeline)
        if furnished:
            await cache.mark("w", frozenset(), create=True)
        else:
            await furnish(DomainServices(database, cache, ids_as_given=True))
        race = Race(settings, database, barriers, cache, other, **more)
        await race.relays()
        await race.consumes()
        cache.taken.clear()
        yield race


NOBODYS = frozenset({keys.schema("somewhere else")})
"""A tag that no context carries."""
