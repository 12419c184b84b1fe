"""Health: what is live, what is ready, and what the answer says."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator

import aiohttp
import pytest

from context_engine.errors import Unavailable
from context_engine.settings import Settings
from workers import health as module
from workers import health_server
from workers.health import Health, Pulse, served
from workers.localstack.part import free_port
from workers.supervisor import _health


async def answers() -> None:
    """A part that is there."""


async def away() -> None:
    raise Unavailable("redis", "nobody answers at 127.0.0.1:1")


async def breaks() -> None:
    raise ZeroDivisionError("a secret")


async def hangs() -> None:
    await asyncio.get_running_loop().create_future()


@pytest.fixture
def settings() -> Settings:
    return Settings(tag_secret="s" * 32, health_port=free_port())


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def test_a_worker_is_ready_between_its_start_and_its_leaving() -> None:
    """Whatever its parts say: before, it takes nothing yet; after, nothing any more."""
    health = Health("build")
    health.needs("redis", answers)
    assert (await health.ready()).failing == {"worker": "starting"}
    health.started()
    report = await health.ready()
    assert (report.ok, report.failing, report.passing) == (True, {}, ("worker", "redis"))
    health.leaving()
    assert (await health.ready()).failing == {"worker": "leaving"}
    assert health.live().ok


async def test_what_is_not_ready_is_named_with_its_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each part by itself, the slow one within a bound, an unforeseen error by its kind only."""
    monkeypatch.setattr(module, "CHECK_SECONDS", 0.05)
    health = Health("build")
    for name, check in {"a": answers, "b": away, "c": breaks, "d": hangs}.items():
        health.needs(name, check)
    health.started()
    report = await health.ready()
    assert report.passing == ("worker", "a")
    assert report.failing == {
        "b": "redis: nobody answers at 127.0.0.1:1",
        "c": "cannot be asked (ZeroDivisionError)",
        "d": "no answer within 0.05 s",
    }


async def test_what_is_noted_keeps_a_worker_ready() -> None:
    """Told beside what fails, with its reason; a name that passes is among the others."""
    health = Health("build")
    health.needs("redis", answers)
    health.notes("liveness", away)
    health.notes("disk", answers)
    health.started()
    report = await health.ready()
    assert (report.ok, report.failing) == (True, {})
    assert report.noted == {"liveness": "redis: nobody answers at 127.0.0.1:1"}
    assert report.passing == ("worker", "redis", "disk")


async def test_a_part_that_is_away_does_not_make_a_worker_dead() -> None:
    """Or an outage of the database would restart every worker."""
    health = Health("build")
    health.needs("redis", away)
    assert health.live().ok


async def test_a_loop_that_does_not_turn_is_not_live() -> None:
    """And is live again with its next turn."""
    pulse = Pulse(0.05)
    health = Health("relay")
    health.moves("outbox", pulse.fault)
    assert health.live().ok
    await asyncio.sleep(0.06)
    assert health.live().failing == {"outbox": "no turn for 0 s"}
    pulse.beat()
    assert health.live().ok


async def test_both_are_served_with_a_body_that_says_why(
    settings: Settings, http: aiohttp.ClientSession
) -> None:
    """200 or 503, the same JSON."""
    async with served(settings, "relay") as health:
        health.needs("redis", away)
        health.started()
        address = f"http://{settings.health_host}:{settings.health_port}"
        async with http.get(f"{address}/livez") as live:
            assert live.status == 200
            assert await live.json() == {
                "worker": "relay",
                "ok": True,
                "failing": {},
                "noted": {},
                "passing": ["loop"],
            }
        async with http.get(f"{address}/readyz") as ready:
            assert ready.status == 503
            assert (await ready.json())["failing"] == {
                "redis": "redis: nobody answers at 127.0.0.1:1"
            }


async def test_a_request_that_is_no_http_is_not_logged(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever reaches the port could fill the log with tracebacks."""
    async with served(settings, "relay"):
        for said in (b"\x16\x03\x01\x00\xff\r\n\r\n", b"GET /livez HTTP/9.9.9\r\n\r\n"):
            reader, writer = await asyncio.open_connection(
                settings.health_host, settings.health_port
            )
            writer.write(said)
            answer = await reader.read()
            assert answer.startswith(b"HTTP/1.0 400")
            writer.close()
    assert caplog.text == ""


async def test_nothing_is_served_unless_a_port_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default opens no port."""
    monkeypatch.setattr(health_server.web, "AppRunner", None)
    async with served(Settings(tag_secret="s" * 32), "build") as health:
        health.started()


async def test_a_taken_port_is_named_with_its_setting(settings: Settings) -> None:
    """The worker says so and leaves, instead of living unseen."""
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", settings.health_port))
        stranger.listen()
        with pytest.raises(Unavailable, match=rf"{settings.health_port}.*CONTEXT_HEALTH_PORT"):
            async with served(settings, "build"):
                pytest.fail("it must not start")


@pytest.mark.parametrize(("running", "code"), [(True, 0), (False, 1)])
async def test_the_check_of_the_image_fails_on_what_is_not_ready(
    settings: Settings, running: bool, code: int
) -> None:
    """It prints the answer, for whoever looks at the container."""
    async with served(settings, "build") as health:
        if running:
            health.started()
        asked, said = await healthcheck(settings)
    assert asked == code
    assert json.loads(said)["ok"] is running


async def test_the_check_of_the_image_fails_where_nobody_answers(settings: Settings) -> None:
    """One line, no traceback."""
    code, said = await healthcheck(settings)
    assert code == 1
    assert said.startswith("no answer at 127.0.0.1:")
    assert len(said.splitlines()) == 1


async def healthcheck(settings: Settings) -> tuple[int | None, str]:
    """Exit code and output of the image's check."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "workers.healthcheck"),
        *(f"{settings.health_host}:{settings.health_port}", "/readyz"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    return process.returncode, said.decode()


def test_workers_started_together_share_no_port() -> None:
    """Each serves on the port after the one before; without a port, none."""
    assert [_health(8080, number) for number in range(2)] == [
        {"CONTEXT_HEALTH_PORT": "8080"},
        {"CONTEXT_HEALTH_PORT": "8081"},
    ]
    assert _health(None, 1) == {}
