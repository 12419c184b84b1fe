"""Ending what takes long to start: at once when told to stop, and never half way through."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine

from workers.signals import ASKED_TO_STOP, leaving


async def cut_short(work: Coroutine[object, object, int], told: int) -> int:
    """The result of `work`, or `told` where SIGTERM or SIGINT came first.

    The first signal cancels `work`, wherever it stands, and its clean-up is waited for; what
    comes after is ignored, for good: the process is about to leave, and nobody in a hurry shall
    leave servers behind.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    asked = False

    def ask() -> None:
        nonlocal asked
        if not asked:
            asked = True
            task.cancel()

    for number in ASKED_TO_STOP:
        loop.add_signal_handler(number, ask)
    try:
        return await task
    except asyncio.CancelledError:
        if not asked:
            raise
        return told
    finally:
        if asked:
            leaving()


async def to_the_end(clean_up: Awaitable[object]) -> None:
    """Awaits `clean_up`, which has a bound of its own, even while this is cancelled."""
    task = asyncio.ensure_future(clean_up)
    cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            cancelled = True
        except Exception:  # noqa: BLE001 - told below, once it is known whether we go on
            break
    if cancelled:
        raise asyncio.CancelledError
    task.result()
