"""What every worker is as a process: a loop, and an exit code. Imports no framework, which would
take a second of every start."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable, Coroutine
from enum import IntEnum
from typing import Any

from context_engine.errors import Unavailable
from workers.watchdog import STALLED_EXIT_CODE


class ExitCode(IntEnum):
    """Why the worker left; the numbers are those of sysexits.h."""

    OK = 0
    UNAVAILABLE = 69  # the broker cannot be reached, or no longer, at the end neither
    FAILED = 70  # a request met an unexpected error, or faust crashed
    STALLED = STALLED_EXIT_CODE  # work was there and nothing moved


def run(main: Coroutine[Any, Any, int]) -> int:
    """Run `main` on uvloop where it is there; its result is the exit code.

    A part that is away at the start is told on stderr, and the code is UNAVAILABLE.
    """
    try:
        import uvloop

        new_loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    except ImportError:
        new_loop = asyncio.new_event_loop
    try:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            return runner.run(main)
    except Unavailable as error:
        print(f"cannot start: {error.message}", file=sys.stderr, flush=True)
        return ExitCode.UNAVAILABLE


def settle() -> None:
    """What a process has loaded by the time that it is ready stays to its end: the collector need
    not go through it again. Each of its full rounds would stop the loop for 50 to 90 ms."""
    gc.collect()
    gc.freeze()
