"""The demo's race: a right is taken back while a build stands between its reads and its store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from context_engine import bootstrap
from context_engine.adapters.redis import RedisCache
from context_engine.asked import Answer
from context_engine.engine import ContextEngine
from context_engine.models import AgentContext
from context_engine.ports import Moment, NewEntry, SessionWrite
from context_engine.settings import Settings
from workers.demo.stage import WAIT_SECONDS, Shown, Stage, expect, records

TABLE = "tbl-projects"


class HeldCache(RedisCache):
    """Holds a build once it has read everything, just before its answer is stored."""

    def __init__(self, url: str, settings: Settings) -> None:
        super().__init__(url, settings)
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()
        self.built_at: int | None = None
        self.stored: bool | None = None

    async def fill(
        self, moment: Moment, entries: Sequence[NewEntry], session: SessionWrite | None
    ) -> bool:
        self.built_at = moment.clock
        self.reached.set()
        await self.go_on.wait()
        self.stored = await super().fill(moment, entries, session)
        return self.stored


async def raced(stage: Stage) -> Shown:
    """A right is revoked during a build: what was read is not stored"""
    chloe, ana = stage.seeded.viewer_id, stage.seeded.admin_id
    request = stage.where(chloe, tableIds=[TABLE])
    started, lines = time.perf_counter(), list[str]()

    def saw(text: str) -> None:
        at = f"{(time.perf_counter() - started) * 1000:.0f} ms"
        lines.append(f"{at:<8}  {text}")

    settings = stage.parts.settings
    async with HeldCache(settings.redis_url, settings) as cache, asyncio.timeout(WAIT_SECONDS):
        slow = asyncio.create_task(_engine_over(stage, cache).build(request))
        await cache.reached.wait()
        saw(f"Chloe asks: a build read the clock, {cache.built_at}, then the database; it halts")
        written = await stage.services.grants.set(
            ana,
            stage.seeded.workspace_id,
            subject_type="user",
            subject_id=chloe,
            scope_id=TABLE,
            role="none",
        )
        clock = getattr(written.token, "clock", None)
        saw(f"Ana takes her right away: committed, marked with clock {clock}, acknowledged")
        cache.go_on.set()
        answer = await slow
        expect(cache.stored is False, "what was read before the revocation was stored")
        saw(
            f"the build goes on: {_seen(answer)} projects, for who asked before; the cache refuses"
            f" to store what was read at {cache.built_at}"
        )
        words, took = await stage.refused(request)
        saw(f"Chloe asks again: {words}")
    return Shown(lines, took)


def _engine_over(stage: Stage, cache: RedisCache) -> ContextEngine:
    """As a worker's, in this process, where it can be held."""
    parts = stage.parts
    liveness = bootstrap.lookout(parts.settings, parts.liveness)
    return bootstrap.wire(
        parts.settings, parts.domain, parts.snapshots, cache, parts.liveness, liveness
    ).engine


def _seen(answer: Answer) -> int:
    return records(AgentContext.model_validate_json(answer.context))
