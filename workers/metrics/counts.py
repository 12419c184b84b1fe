"""What the parts of a worker count already, as it is exported."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from context_engine.adapters.counted import CacheCounts
from context_engine.ports import LivenessStore, OutboxSource
from context_engine.settings import Settings
from events.backlog import Backlog
from workers.freshness import backlog_of, look
from workers.health import Pulse
from workers.metrics import families
from workers.metrics.exporter import Metrics, Told, Values
from workers.sightings import Counts
from workers.watchdog import Progress, Watchdog

if TYPE_CHECKING:
    from context_engine.engine import ContextEngine


def answers(metrics: Metrics, engine: ContextEngine, counts: CacheCounts) -> None:
    """What the engine found in its cache, and what it answered past it."""
    layers = {"whole": counts.whole, "surface": counts.surface, "session": counts.session}

    def reads() -> Values:
        told: dict[tuple[str, ...], float] = {}
        for name, layer in layers.items():
            told[name, "hit"], told[name, "miss"] = layer.hits, layer.misses
        return told

    def past() -> Values:
        return {(reason,): count for reason, count in engine.past_the_cache.items()}

    metrics.reads(families.READS, reads)
    metrics.reads(families.BYPASSES, past)


def changes(metrics: Metrics, progress: Progress, watchdog: Watchdog, counts: CacheCounts) -> None:
    """How a consumer of changes gets on, and what these took back."""
    metrics.value(families.CHANGES, lambda: progress.finished_total)
    metrics.value(families.CHANGES_IN_FLIGHT, lambda: progress.in_flight)
    metrics.reads(families.STILL, lambda: {("changes",): watchdog.still})
    metrics.value(families.EVICTIONS, lambda: counts.evicted)
    metrics.value(families.SESSIONS_ENDED, lambda: counts.sessions_ended)


def outbox(metrics: Metrics, source: OutboxSource, pulse: Pulse) -> None:
    """What waits to be published, and whether the loop that does it turns."""

    async def lag() -> Told:
        oldest = await source.lag()
        return {families.OUTBOX_OLDEST: {(): oldest.total_seconds() if oldest else 0.0}}

    metrics.asks(lag)
    metrics.reads(families.STILL, lambda: {("outbox",): pulse.still})


def audit(metrics: Metrics, counts: Counts) -> None:
    """What an audit came to so far."""

    def results() -> Values:
        return {
            ("same",): counts.same,
            ("explained",): counts.explained,
            ("unexplained",): counts.unexplained,
            ("skipped",): counts.skipped,
        }

    metrics.value(families.AUDIT_SERVED, lambda: counts.served)
    metrics.reads(families.AUDITED, results)


class ChangeLag:
    """What waits in each partition of the change topics, asked of the broker at each scrape.

    It asks for every partition, whoever has it: a consumer that is gone tells nothing of its own.
    The connection is made at the first scrape, and made anew after a failure.
    """

    def __init__(self, settings: Settings, store: LivenessStore) -> None:
        self._settings, self._store = settings, store
        self._connection = AsyncExitStack()
        self._backlog: Backlog | None = None

    async def __call__(self) -> Told:
        """Raises `Unavailable`."""
        try:
            if self._backlog is None:
                backlog = backlog_of(self._settings)
                self._backlog = await self._connection.enter_async_context(backlog)
            found = await look(self._backlog, self._store)
        except BaseException:
            await self.close()
            raise
        lag: dict[tuple[str, ...], float] = {}
        oldest: dict[tuple[str, ...], float] = {}
        proven: dict[tuple[str, ...], float] = {}
        for one in found.partitions:
            place = (one.topic, str(one.partition))
            lag[place], proven[place] = one.lag, one.live
            if one.oldest_ms is not None or not one.lag:
                oldest[place] = (one.oldest_ms or 0) / 1000
        return {families.LAG: lag, families.OLDEST: oldest, families.PROVEN: proven}

    async def close(self) -> None:
        self._backlog = None
        await self._connection.aclose()
