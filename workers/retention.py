"""How long evidence is kept: snapshots past their days go, a bounded number at a time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Protocol

import structlog

log = structlog.get_logger(__name__)

BATCH = 500
"""Most snapshots that one statement removes."""

PAUSE_SECONDS = 1.0
"""Between two full batches: cleaning up leaves the database to whoever builds."""

INTERVAL_SECONDS = 600.0
"""Until one looks again, once nothing was left to remove or the database was away."""


class Evidence(Protocol):
    """What is needed of the place for snapshots."""

    async def clean(self, before: datetime, *, limit: int) -> int: ...


async def retain(
    evidence: Evidence,
    days: int,
    stop: asyncio.Event,
    *,
    pause: float = PAUSE_SECONDS,
    interval: float = INTERVAL_SECONDS,
) -> None:
    """Removes snapshots older than `days` until `stop`. Raises nothing: it tries again later."""
    removed = 0
    while not stop.is_set():
        wait = interval
        try:
            count = await evidence.clean(datetime.now(UTC) - timedelta(days=days), limit=BATCH)
        except Exception as error:  # noqa: BLE001 - publishing changes must not end for want of this
            log.warning("snapshots not cleaned; trying again later", reason=str(error))
            count = 0
        removed += count
        if count == BATCH:
            wait = pause
        elif removed:
            log.info("snapshots cleaned", rows=removed, older_than_days=days)
            removed = 0
        try:
            async with asyncio.timeout(wait):
                await stop.wait()
        except TimeoutError:
            continue
