"""The composition root: settings in, a wired engine out. Nothing else builds adapters.

Imports are where they are used: a worker's start is mostly imports, and while one that marks or
publishes starts, caches are bypassed. It needs no engine, and who marks needs no database.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, get_args
from urllib.parse import urlsplit

from context_engine import tracing
from context_engine.adapters.counted import CacheCounts, CountedCache
from context_engine.adapters.redis import RedisCache
from context_engine.changes import Kind
from context_engine.errors import Unavailable
from context_engine.liveness import Assumed, Liveness, Lookout
from context_engine.ports import (
    ContextCache,
    Domain,
    LivenessStore,
    Snapshots,
)
from context_engine.settings import Settings, load
from context_engine.turns import Turns

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine

    from context_engine.adapters.sql.outbox import SqlOutbox
    from context_engine.adapters.sql.services import DomainServices
    from context_engine.adapters.sql.snapshots import SqlSnapshots
    from context_engine.engine import ContextEngine


@dataclass(frozen=True, slots=True, kw_only=True)
class Marking:
    """What sets marks, and tells what of them is proven to stand."""

    settings: Settings
    cache: ContextCache
    liveness: LivenessStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Publishing(Marking):
    """The same, and what gives changes out and keeps evidence, without an engine."""

    snapshots: SqlSnapshots
    outbox: SqlOutbox


@dataclass(frozen=True, slots=True, kw_only=True)
class Answering(Marking):
    """What answers requests, wired once: an engine over a domain, evidence and a cache."""

    domain: Domain
    snapshots: Snapshots
    engine: ContextEngine
    counts: CacheCounts
    """What the engine found in the cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts(Answering):
    """The same over the reference domain, and what writes to that."""

    snapshots: SqlSnapshots
    database: AsyncEngine
    services: DomainServices
    outbox: SqlOutbox


def wire(
    config: Settings,
    domain: Domain,
    snapshots: Snapshots,
    cache: ContextCache,
    proofs: LivenessStore,
    liveness: Liveness,
) -> Answering:
    """The engine over these ports; connects to nothing."""
    from context_engine.adapters.traced import TracedDomain, TracedSnapshots
    from context_engine.builder import Builder, Limits
    from context_engine.engine import ContextEngine
    from context_engine.repository import ContextRepository, Lifetimes

    lifetimes = Lifetimes(
        cache=timedelta(seconds=config.cache_ttl_seconds),
        session=timedelta(seconds=config.session_ttl_seconds),
    )
    limits = Limits(
        messages=config.max_conversation_messages,
        compression_chars=config.compression_char_budget,
        tag_secret=config.tag_secret.get_secret_value(),
    )
    counted = CountedCache(cache)
    engine = ContextEngine(
        TracedDomain(domain) if tracing.on() else domain,
        ContextRepository(
            seen(counted), TracedSnapshots(snapshots) if tracing.on() else snapshots, lifetimes
        ),
        Builder(limits),
        liveness=liveness,
        bypass_builds=config.bypass_builds,
        turns=Turns(config.workspace_builds, config.max_in_flight // 2),
        build_timeout=config.build_timeout_seconds,
    )
    return Answering(
        settings=config,
        domain=domain,
        snapshots=snapshots,
        cache=cache,
        liveness=proofs,
        engine=engine,
        counts=counted.counts,
    )


@asynccontextmanager
async def over(
    domain: Domain, snapshots: Snapshots, config: Settings | None = None
) -> AsyncIterator[Answering]:
    """The engine over ports of one's own, and the Redis that the settings name.

    For a product whose domain lives elsewhere: no PostgreSQL is touched. Redis is closed at the
    end; the ports are their maker's to close. Raises `SettingsError`.
    """
    config = config or load()
    cache = RedisCache(config.redis_url, config)
    try:
        liveness = liveness_of(config, cache.liveness)
        yield wire(config, domain, snapshots, cache, cache.liveness, liveness)
    finally:
        await cache.close()


@asynccontextmanager
async def marking(config: Settings | None = None) -> AsyncIterator[Marking]:
    """The cache alone, closed at the end."""
    config = config or load()
    cache = RedisCache(config.redis_url, config)
    try:
        yield Marking(settings=config, cache=cache, liveness=cache.liveness)
    finally:
        await cache.close()


@asynccontextmanager
async def publishing(config: Settings | None = None) -> AsyncIterator[Publishing]:
    """Cache, outbox and evidence, closed at the end."""
    from context_engine.adapters.sql.engine import create_engine
    from context_engine.adapters.sql.outbox import SqlOutbox
    from context_engine.adapters.sql.snapshots import SqlSnapshots

    async with marking(config) as wired:
        database = create_engine(wired.settings)
        try:
            yield Publishing(
                settings=wired.settings,
                cache=wired.cache,
                liveness=wired.liveness,
                snapshots=SqlSnapshots(database),
                outbox=SqlOutbox(database),
            )
        finally:
            await database.dispose()


def seen(cache: ContextCache) -> ContextCache:
    """`cache`, each call of which is a span where this process makes any."""
    if not tracing.on():
        return cache
    from context_engine.adapters.traced import TracedCache

    return TracedCache(cache)


def liveness_of(config: Settings, store: LivenessStore) -> Liveness:
    """What says whether caches may be read: the proofs, unless the settings take it for granted."""
    return Assumed() if config.liveness == "assumed" else lookout(config, store)


def lookout(config: Settings, store: LivenessStore) -> Lookout:
    """Looks at the proofs of the change topics that the settings name."""
    return Lookout(store, [config.topic_domain_prefix + kind for kind in get_args(Kind)])


@asynccontextmanager
async def parts(config: Settings | None = None) -> AsyncIterator[Parts]:
    """Wires the reference domain's adapters and closes them at the end."""
    from context_engine.adapters.sql.engine import create_engine
    from context_engine.adapters.sql.outbox import SqlOutbox
    from context_engine.adapters.sql.reads import SqlDomain
    from context_engine.adapters.sql.services import DomainServices
    from context_engine.adapters.sql.snapshots import SqlSnapshots

    config = config or load()
    database = create_engine(config)
    snapshots = SqlSnapshots(database)
    cache = RedisCache(config.redis_url, config)
    domain = SqlDomain(database, count_cap=config.count_cap)
    try:
        liveness = liveness_of(config, cache.liveness)
        wired = wire(config, domain, snapshots, cache, cache.liveness, liveness)
        yield Parts(
            settings=config,
            domain=domain,
            snapshots=snapshots,
            cache=cache,
            engine=wired.engine,
            counts=wired.counts,
            database=database,
            services=DomainServices(
                database,
                seen(cache),
                enforce_seconds=config.enforce_seconds,
                entry_life=timedelta(seconds=config.cache_ttl_seconds),
                ids_as_given=True,
            ),
            outbox=SqlOutbox(database),
            liveness=cache.liveness,
        )
    finally:
        await cache.close()
        await database.dispose()


async def check(wired: Answering) -> None:
    """Asks each part once, so that a process that cannot work says so at its start.

    Raises `Unavailable`, which names the part and what to look at.
    """
    async with wired.domain.snapshot():
        pass
    await check_cache(wired)


async def check_cache(wired: Marking) -> None:
    """Whether the cache answers, and can keep the promise: its version, its role, its replicas.

    Raises `Unavailable`, which says what to change.
    """
    try:
        await wired.cache.ping()
    except Unavailable as away:
        reason = away.message.removeprefix(f"{away.part}: ")
        raise Unavailable(
            away.part,
            f"{_place(wired.settings.redis_url)} cannot be used ({reason}): check that it runs,"
            " and that CONTEXT_REDIS_URL has its address and password",
        ) from away
    if isinstance(wired.cache, RedisCache):
        await wired.cache.check()


def _place(url: str) -> str:
    """Where the store is, without the password."""
    parts = urlsplit(url)
    return parts.path if parts.scheme == "unix" else parts.netloc.rpartition("@")[2]


@contextmanager
def traced(config: Settings, service: str) -> Iterator[None]:
    """Has this process make spans where the settings ask for them, and sends the last at the end.

    Before anything is wired. Raises `NoExporter`.
    """
    if not config.tracing:
        yield
        return
    from context_engine.adapters.otel import exported

    with exported(service, os.environ) as tracer:
        tracing.use(tracer)
        try:
            yield
        finally:
            tracing.use(None)


@asynccontextmanager
async def domain_services(config: Settings | None = None) -> AsyncIterator[DomainServices]:
    """The domain services alone, for the tools of operators, who choose ids."""
    async with parts(config) as wired:
        yield wired.services
