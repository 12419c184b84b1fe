"""What SIGTERM and SIGINT do to a worker, from its first moment on.

Imports next to nothing: the imports of a worker take seconds on a busy machine, and it can be
told to stop in the middle of them.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

ASKED_TO_STOP = (signal.SIGTERM, signal.SIGINT)


def leave_at_once() -> None:
    """Either signal ends the process with code 0 from now on: nothing was begun yet."""
    for number in ASKED_TO_STOP:
        signal.signal(number, lambda *_: os._exit(0))


def stop_requested() -> asyncio.Event:
    """Either signal sets this event from now on, for as long as the running loop does."""
    import asyncio

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in ASKED_TO_STOP:
        loop.add_signal_handler(number, stop.set)
    return stop


def leaving() -> None:
    """Neither signal means anything from now on, for good: what is left to do is short.

    Without it one that comes late would end the process in the middle of its clean-up, and with
    another code than the one it leaves with.
    """
    import asyncio

    loop = asyncio.get_running_loop()
    for number in ASKED_TO_STOP:
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)
