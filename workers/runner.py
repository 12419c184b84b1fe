"""Runs the build worker from start to exit code, without faust's command line."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import structlog

from context_engine.errors import Unavailable
from workers.app import BuildApp, BuildWorkerConfig
from workers.build_agent import BuildAgent, Handler, RefusedHandler, Sender
from workers.health import Health
from workers.metrics import families
from workers.metrics.exporter import Told
from workers.process import ExitCode, run
from workers.watchdog import LoopGuard, PartitionWatch, Stalled, Watchdog, Watches

__all__ = ["ExitCode", "Limits", "run", "serve"]

log = structlog.get_logger(__name__)

ASK_SECONDS = 3.0
"""How long a broker may take to answer a worker that is about to leave."""
LAST_SECONDS = 2.0
"""How long what is left may take without it."""
LEFT_UNDONE = "what was not committed is answered again by the next worker"


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of the worker's life, in seconds."""

    start: float = 60.0
    drain: float = 10.0
    stop: float = 18.0
    stall: float = 60.0


async def serve(
    config: BuildWorkerConfig,
    handler: Handler,
    producer: Sender,
    *,
    stop: asyncio.Event,
    max_in_flight: int = 256,
    on_refused: RefusedHandler | None = None,
    on_ready: Callable[[], None] = lambda: None,
    limits: Limits = Limits(),
    health: Health | None = None,
) -> ExitCode:
    """Answer requests until `stop`, or until something ends it; the reason as a code.

    `producer` must be started, and is stopped by whoever started it. `on_ready` is called once,
    when partitions are assigned and requests are taken. `health` is told what becomes of it.
    """
    health = health or Health("build")
    requests = BuildAgent(handler, producer, max_in_flight=max_in_flight, on_refused=on_refused)
    app = BuildApp(config, requests)
    async with LoopGuard(hang_seconds=limits.stall):
        code = await _live(app, requests, stop, on_ready, limits, health)
        health.leaving()
        with _ForcedExit(after=limits.stop, code=code):
            in_order = await _leave(app, requests, limits)
    if not in_order:
        code = code or ExitCode.UNAVAILABLE
        log.error("build worker leaves without its broker", exit_code=int(code), next=LEFT_UNDONE)
        # A thread of faust's waits for the broker, and the interpreter would wait for it.
        _ForcedExit(after=LAST_SECONDS, code=code).__enter__()
    return code


async def _live(
    app: BuildApp,
    requests: BuildAgent,
    stop: asyncio.Event,
    on_ready: Callable[[], None],
    limits: Limits,
    health: Health,
) -> ExitCode:
    watchdog = Watchdog(requests, app.unfetched, stall_seconds=limits.stall)
    health.moves("requests", watchdog.fault)
    health.needs("partitions", app.check)
    _export(health, app, requests, watchdog)

    def taking() -> None:
        health.started()
        on_ready()

    tasks: dict[str, asyncio.Future[Any]] = {
        "stop": asyncio.ensure_future(stop.wait()),
        "failed": asyncio.ensure_future(requests.failed.wait()),
        "crashed": asyncio.ensure_future(app._crashed.wait()),
        "run": asyncio.ensure_future(_start_and_watch(app, watchdog, taking, limits)),
    }
    try:
        await asyncio.wait(tasks.values(), return_when=asyncio.FIRST_COMPLETED)
        return _reason_to_leave(app, requests, tasks)
    finally:
        for task in tasks.values():
            task.cancel()
        await asyncio.wait(tasks.values(), timeout=1.0)


def _export(health: Health, app: BuildApp, requests: BuildAgent, watchdog: Watchdog) -> None:
    async def waiting() -> Told:
        return {families.WAITING: {(): await app.unfetched() + requests.buffered}}

    health.metrics.value(families.IN_FLIGHT, lambda: requests.in_flight)
    health.metrics.reads(families.STILL, lambda: {("requests",): watchdog.still})
    health.metrics.asks(waiting)


async def _start_and_watch(
    app: BuildApp, watchdog: Watchdog, on_ready: Callable[[], None], limits: Limits
) -> None:
    try:
        async with asyncio.timeout(limits.start):
            await app.start()
            await app.ready.wait()
    except TimeoutError:
        raise Unavailable(
            "broker", f"no partitions of {app.config.topic} within {limits.start:.0f} s"
        ) from None
    log.info("build worker ready", topic=app.config.topic, group=app.config.group)
    on_ready()
    partitions = PartitionWatch(app.requests, app.places, stall_seconds=limits.stall)
    await Watches(watchdog, partitions).watch()


def _reason_to_leave(
    app: BuildApp, requests: BuildAgent, tasks: dict[str, asyncio.Future[Any]]
) -> ExitCode:
    if requests.failed.is_set():
        return _report(requests.failure, "a request could not be answered")
    if app.crashed:
        return _report(app.crash_reason, "faust crashed")
    if tasks["run"].done():
        return _report(tasks["run"].exception(), "the worker stands still")
    log.info("build worker was told to stop", in_flight=requests.in_flight)
    return ExitCode.OK


def _report(error: BaseException | None, what: str) -> ExitCode:
    match error:
        case Stalled():
            code = ExitCode.STALLED
        case Unavailable() | ConnectionError():
            code = ExitCode.UNAVAILABLE
        case _ if type(error).__module__ == "aiokafka.errors":
            code = ExitCode.UNAVAILABLE
        case _:
            code = ExitCode.FAILED
    detail = f"{type(error).__name__}: {error}" if error is not None else "no reason given"
    log.error("build worker leaves", reason=what, error=detail, exit_code=int(code))
    return code


async def _leave(app: BuildApp, requests: BuildAgent, limits: Limits) -> bool:
    """Finish and commit what runs, leave the group. False where the broker took no part in it.

    A broker that does not answer now takes no reply either: nothing is waited for.
    """
    there = True
    if app.ready.is_set() and not app.crashed:
        there = await _bounded("ask the broker", app.unfetched(), ASK_SECONDS)
        if there:
            bound = limits.drain + 2
            there = await _bounded("drain", app.build_consumer.wind_down(limits.drain), bound)
    await requests.close()
    return await _bounded("stop", app.stop(), limits.stop if there else LAST_SECONDS) and there


async def _bounded(what: str, work: Awaitable[object], seconds: float) -> bool:
    """Whether `work` came to its end."""
    try:
        async with asyncio.timeout(seconds):
            await work
    except TimeoutError:
        log.warning("build worker gave up waiting", step=what, seconds=seconds)
        return False
    except Exception as error:  # noqa: BLE001 - it leaves in any case, and says what failed
        log.warning("build worker left a step undone", step=what, error=repr(error))
        return False
    return True


class _ForcedExit:
    """Leaves the process hard if leaving in order takes too long."""

    def __init__(self, *, after: float, code: ExitCode) -> None:
        self._timer = threading.Timer(after, self._exit, args=(after, code))
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_exc: object) -> None:
        self._timer.cancel()

    @staticmethod
    def _exit(after: float, code: ExitCode) -> None:
        """The usual reason is a broker that is waited for."""
        print(
            f"build worker: did not stop within {after:.0f} s; leaving", file=sys.stderr, flush=True
        )
        os._exit(code or ExitCode.UNAVAILABLE)
