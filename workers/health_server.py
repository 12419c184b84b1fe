"""A worker's health over HTTP; what it says is in `health`."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from context_engine.errors import Unavailable
from workers.health import Health, Report
from workers.metrics import CONTENT_TYPE

CLOSE_SECONDS = 1.0
"""How long an open connection may hold up the worker's end."""

UNCACHED = {"Cache-Control": "no-store"}


@asynccontextmanager
async def serving(health: Health, host: str, port: int) -> AsyncIterator[None]:
    """Answers on `port` for the length of the block. Raises `Unavailable` where it is taken."""
    logging.getLogger("aiohttp.server").addFilter(_no_bad_request)
    runner = web.AppRunner(_app(health), access_log=None, shutdown_timeout=CLOSE_SECONDS)
    await runner.setup()
    try:
        await _listen(runner, host, port)
        yield
    finally:
        await runner.cleanup()


def _no_bad_request(entry: logging.LogRecord) -> bool:
    """Leaves out what was no HTTP: it is answered 400, and a traceback of it says nothing more."""
    error = entry.exc_info[1] if entry.exc_info else None
    return not isinstance(error, HttpProcessingError)


async def _listen(runner: web.AppRunner, host: str, port: int) -> None:
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as error:
        raise Unavailable(
            "health",
            f"cannot listen on {host}:{port} ({error.strerror}): give another CONTEXT_HEALTH_PORT"
            " or CONTEXT_HEALTH_HOST, or leave the port out",
        ) from error


def _app(health: Health) -> web.Application:
    async def livez(_request: web.Request) -> web.Response:
        return _answer(health.live())

    async def readyz(_request: web.Request) -> web.Response:
        return _answer(await health.ready())

    async def metrics(_request: web.Request) -> web.Response:
        text = await health.metrics.text()
        return web.Response(body=text, headers={**UNCACHED, "Content-Type": CONTENT_TYPE})

    paths = {"/livez": livez, "/readyz": readyz, "/metrics": metrics}
    app = web.Application()
    app.add_routes([web.get(path, answer) for path, answer in paths.items()])
    return app


def _answer(report: Report) -> web.Response:
    body = {
        "worker": report.worker,
        "ok": report.ok,
        "failing": report.failing,
        "noted": report.noted,
        "passing": report.passing,
    }
    return web.json_response(body, status=200 if report.ok else 503, headers=UNCACHED)
