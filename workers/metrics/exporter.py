"""What one process exports: a registry of its own, read when somebody asks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from importlib.metadata import version

import structlog
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from workers.metrics.families import BUILD_INFO, FAMILIES, Family

log = structlog.get_logger(__name__)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

ASK_SECONDS = 5.0
"""How long what has to be asked for may take, of Prometheus's ten; then it is left out."""

BUCKETS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip
"""Upper bounds in seconds: a hit takes about a millisecond, a build ten at most."""

Values = Mapping[tuple[str, ...], float]
"""Values by the family's labels, in their order."""

Told = Mapping[Family, Values]

disable_created_metrics()  # type: ignore[no-untyped-call]  # a series of times for each series


class Metrics:
    """Counts that others keep are read; what has to be asked for is asked at each scrape."""

    def __init__(self, worker: str, *, served: bool = False) -> None:
        self.worker, self.served = worker, served
        """`served`: somebody can read them; else nothing needs to be counted for them."""
        self._registry = CollectorRegistry()
        self._reads: list[tuple[Family, Callable[[], Values]]] = []
        self._asks: list[Callable[[], Awaitable[Told]]] = []
        self._told: dict[Family, Values] = {}
        self._turn = asyncio.Lock()
        self._registry.register(_Reading(self._collected))
        ProcessCollector(registry=self._registry)
        self.reads(BUILD_INFO, lambda: {(worker, version("context-engine")): 1})

    def reads(self, family: Family, read: Callable[[], Values]) -> None:
        """Exports what `read` returns, at each scrape."""
        self._reads.append((self._mine(family), read))

    def value(self, family: Family, read: Callable[[], float]) -> None:
        """The same, of a family without labels."""
        self.reads(family, lambda: {(): read()})

    def asks(self, ask: Callable[[], Awaitable[Told]]) -> None:
        """Exports what `ask` returns within its bound. What it raises leaves its families out."""
        self._asks.append(ask)

    def counter(self, family: Family) -> Counter:
        """To be counted up where nobody counts yet."""
        return Counter(self._mine(family).name, family.help, family.labels, registry=self._registry)

    def histogram(self, family: Family) -> Histogram:
        mine = self._mine(family)
        return Histogram(
            mine.name, mine.help, mine.labels, registry=self._registry, buckets=BUCKETS
        )

    async def text(self) -> bytes:
        """Everything, in Prometheus's text format."""
        async with self._turn:
            found = await asyncio.gather(*map(_asked, self._asks))
            self._told = {family: values for told in found for family, values in told.items()}
            return generate_latest(self._registry)

    def _mine(self, family: Family) -> Family:
        if self.worker not in family.of or family not in FAMILIES:
            raise ValueError(f"{family.name} is not declared for {self.worker}: see families.py")
        return family

    def _collected(self) -> Iterable[Metric]:
        read = [(family, values()) for family, values in self._reads]
        for family, values in (*read, *self._told.items()):
            kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
            metric = kind(family.name, family.help, labels=family.labels)
            for labels, value in values.items():
                metric.add_metric(labels, value)
            yield metric


class _Reading:
    """A collector, as the registry wants one; it says nothing while it is registered."""

    def __init__(self, collected: Callable[[], Iterable[Metric]]) -> None:
        self.collect = collected

    def describe(self) -> Iterable[Metric]:
        return ()


async def _asked(ask: Callable[[], Awaitable[Told]]) -> Told:
    try:
        async with asyncio.timeout(ASK_SECONDS):
            return await ask()
    except Exception as error:  # noqa: BLE001 - any failure to ask leaves it out; others are told
        log.debug("metric cannot be asked for", error=type(error).__name__)
        return {}
