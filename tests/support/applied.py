"""When nothing travels any more: what a test needs that counts on what is cached to stay."""

from __future__ import annotations

import asyncio
import time

from context_engine.bootstrap import Parts
from context_engine.liveness import LIFE_MS, LOOK_SECONDS, left_of
from context_engine.ports import Place
from context_engine.settings import Settings
from events.topics import Topics

WAIT_SECONDS = 30.0


async def until_applied(settings: Settings, parts: Parts) -> None:
    """Waits until all that was committed or emitted before is applied, its evictions included.

    That is what a proof says whose pulse came later: it has more of its life left than it would
    have if it were older than this call.
    """
    places = [
        Place(topic.name, number)
        for topic in Topics.of(settings).changes()
        for number in range(topic.partitions)
    ]
    began = time.monotonic()
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            since = (time.monotonic() - began) * 1000
            found = await parts.liveness.proofs(places)
            if all(left_of(one, found.reigns) >= max(1, LIFE_MS - since) for one in found.each):
                return
            await asyncio.sleep(LOOK_SECONDS)
