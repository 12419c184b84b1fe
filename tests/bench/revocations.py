"""From a revocation's acknowledgement to the refusal by another process: never anything served."""

from __future__ import annotations

import os
import time

from events.client import ContextClient
from tests.bench.house import BenchHouse
from tests.bench.report import Goal, Measure
from tests.support.revocations import revocations

TRIES = int(os.environ.get("BENCH_TRIES", "10000"))
USERS = 16


async def taken_back(house: BenchHouse) -> list[Measure]:
    """All three workers as processes, live; rights are given and taken from this one."""
    async with house.workers(), ContextClient(house.settings) as client:
        asked = await revocations(house.world, house.parts.services, client, users=USERS)
        await asked.tried(USERS)
        started = time.perf_counter()
        found = await asked.tried(TRIES)
        took = time.perf_counter() - started
    return [
        Measure(
            f"served after a revocation's acknowledgement, {found.tries:,} tries",
            found.served,
            "times",
            goal=Goal("<=", 0),
        ),
        Measure("  out of the cache just before", found.cached / found.tries, "of tries"),
        Measure("  a try: two writes, 6 to 12 requests", took / found.tries * 1000, "ms"),
    ]
