"""A worker over HTTP: `/livez` says that it moves, `/readyz` that it can do its work, `/metrics`
what it did.

The first two answer 200 or 503 with the same JSON:
`{"worker", "ok", "failing": {name: why}, "noted": {name: what}, "passing"}`. What is noted is not
as it should be, and no reason to send work elsewhere.
Live means: the event loop turns (it is what answers) and work that waits gets done. Who is not
live is of no use any more and is to be replaced; a worker notices this itself and leaves. Ready
means: started, partitions assigned, every part that it needs answers. Who is not ready waits for
someone else, and a restart would not help.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

from context_engine.errors import Unavailable
from context_engine.settings import Settings
from workers.metrics import Metrics
from workers.metrics.exporter import Told
from workers.metrics.families import READY

CHECK_SECONDS = 2.0
"""How long one part may take to answer before it counts as away."""

Check = Callable[[], Awaitable[object]]
"""Asks one part for a sign of life. Raises `Unavailable`, whose message says what is wrong."""

Fault = Callable[[], str | None]
"""Why the worker does not move, in words; None while it does."""

Found = dict[str, str | None]
"""For each name why it is not as it should be; None where it is."""

Phase = Literal["starting", "running", "leaving"]


@dataclass(frozen=True, slots=True)
class Report:
    """One look at a worker: what fails and why, and what does not."""

    worker: str
    failing: dict[str, str]
    passing: tuple[str, ...]
    noted: dict[str, str] = field(default_factory=dict)
    """What is not as it should be and keeps nobody from working."""

    @property
    def ok(self) -> bool:
        return not self.failing


class Health:
    """What a worker says of itself; it tells as it starts, works and leaves.

    Not ready before `started` and after `leaving`, whatever the checks say.
    """

    def __init__(self, worker: str, *, served: bool = False) -> None:
        self.worker = worker
        self.metrics = Metrics(worker, served=served)
        self.metrics.asks(self._told)
        self._phase: Phase = "starting"
        self._moving: dict[str, Fault] = {}
        self._needed: dict[str, Check] = {}
        self._noted: dict[str, Check] = {}

    def moves(self, name: str, fault: Fault) -> None:
        """Live only while `fault` finds none."""
        self._moving[name] = fault

    def needs(self, name: str, check: Check) -> None:
        """Ready only while `check` passes."""
        self._needed[name] = check

    def notes(self, name: str, check: Check) -> None:
        """Ready whatever `check` finds; what it finds is told."""
        self._noted[name] = check

    def started(self) -> None:
        """Takes work from now on."""
        self._phase = "running"

    def leaving(self) -> None:
        """Takes no more work."""
        self._phase = "leaving"

    def live(self) -> Report:
        """Whether the worker moves. The loop turns: somebody is running this."""
        found = {name: fault() for name, fault in self._moving.items()}
        return self._report({"loop": None, **found})

    async def ready(self) -> Report:
        """Asks every part at once, each within `CHECK_SECONDS`."""
        needed, noted = await asyncio.gather(_asked(self._needed), _asked(self._noted))
        phase = None if self._phase == "running" else self._phase
        return self._report({"worker": phase, **needed}, noted)

    async def _told(self) -> Told:
        report = await self.ready()
        failing = {**report.failing, **report.noted}
        return {READY: {(name,): name not in failing for name in (*failing, *report.passing)}}

    def _report(self, found: Found, noted: Found | None = None) -> Report:
        noted = noted or {}
        return Report(
            self.worker,
            failing=_told(found),
            passing=tuple(name for name, why in (found | noted).items() if why is None),
            noted=_told(noted),
        )


class Pulse:
    """Beaten at each turn of a loop that always turns; still for too long, it is a fault."""

    def __init__(self, still_seconds: float) -> None:
        self._still_seconds = still_seconds
        self.beat()

    def beat(self) -> None:
        """One turn."""
        self._beat_at = time.monotonic()

    @property
    def still(self) -> float:
        """Seconds since the last turn."""
        return time.monotonic() - self._beat_at

    def fault(self) -> str | None:
        """A `Fault`."""
        still = self.still
        return None if still < self._still_seconds else f"no turn for {still:.0f} s"


def _told(found: Found) -> dict[str, str]:
    return {name: why for name, why in found.items() if why is not None}


async def _asked(checks: Mapping[str, Check]) -> Found:
    said = await asyncio.gather(*map(_why_not, checks.values()))
    return dict(zip(checks, said, strict=True))


async def _why_not(check: Check) -> str | None:
    """Why a part is not there, in words; None if it is."""
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            await check()
    except Unavailable as away:
        return away.message
    except TimeoutError:
        return f"no answer within {CHECK_SECONDS:g} s"
    except Exception as error:  # noqa: BLE001 - any failure to ask is the finding
        return f"cannot be asked ({type(error).__name__})"
    return None


@asynccontextmanager
async def served(settings: Settings, worker: str) -> AsyncIterator[Health]:
    """The worker's health and metrics, served for the length of the block if the settings name a
    port.

    Raises `Unavailable` where the port is taken.
    """
    health = Health(worker, served=settings.health_port is not None)
    if settings.health_port is None:
        yield health
        return
    # A tenth of a worker's start, and of no use to one that serves nothing.
    from workers.health_server import serving

    async with serving(health, settings.health_host, settings.health_port):
        yield health
