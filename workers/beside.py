"""A worker's work, and what runs at its side."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from workers.process import ExitCode


async def beside(work: Awaitable[ExitCode], *others: Awaitable[None]) -> ExitCode:
    """`work`, with others at its side until it ends.

    One that fails ends it all, loudly: nobody would notice otherwise that it stands still.
    """
    main = asyncio.ensure_future(work)
    tasks = (main, *map(asyncio.ensure_future, others))
    try:
        for task in asyncio.as_completed(tasks):
            await task
            if main.done():
                break
        return main.result()
    finally:
        for one in tasks:
            one.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
