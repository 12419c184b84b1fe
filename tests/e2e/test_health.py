"""The workers' health as a probe sees it: from the start, with a part away, with all there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

import aiohttp
import pytest

from tests.support.bus import make_topics, own_names
from tests.support.stack import valkey_part
from tests.support.world import World
from workers.house import settings_of
from workers.localstack import Valkey
from workers.localstack.part import free_port
from workers.runner import ExitCode
from workers.supervisor import WORKERS, WorkerProcess

pytestmark = pytest.mark.timeout(120)

WAIT_SECONDS = 40.0


@pytest.fixture
async def valkey(tmp_path: Path) -> AsyncIterator[Valkey]:
    """One of this test's own, to be taken away."""
    part = valkey_part(tmp_path / "valkey")
    await part.start()
    yield part
    await part.kill()


@dataclass(frozen=True)
class Running:
    """The three workers, in a group of their own, and where each tells its health."""

    ports: dict[str, int]
    workers: dict[str, WorkerProcess]


@pytest.fixture
async def running(
    env: dict[str, str], world: World, valkey: Valkey, tmp_path: Path
) -> AsyncIterator[Running]:
    own = {**env, **own_names(), "CONTEXT_REDIS_URL": valkey.url}
    own["CONTEXT_BUILD_GROUP"] = own["CONTEXT_TOPIC_BUILD_REQUESTS"] = f"t{token_hex(4)}"
    await make_topics(settings_of(own))
    found = {name: free_port() for name in WORKERS}
    made = {
        name: WorkerProcess(name, own | {"CONTEXT_HEALTH_PORT": str(port)}, tmp_path / name)
        for name, port in found.items()
    }
    try:
        await asyncio.gather(*(worker.start() for worker in made.values()))
        yield Running(found, made)
        codes = await asyncio.gather(*(worker.stop() for worker in made.values()))
        assert codes == [ExitCode.OK] * len(made)
    finally:
        await asyncio.gather(*(worker.kill() for worker in made.values()))


async def ask(port: int, path: str) -> tuple[int, dict[str, str]]:
    """Status, and what fails."""
    async with (
        aiohttp.ClientSession() as http,
        http.get(f"http://127.0.0.1:{port}/{path}") as answer,
    ):
        return answer.status, (await answer.json())["failing"]


async def until(port: int, status: int) -> dict[str, str]:
    """What fails, once `/readyz` answers with `status`."""
    async with asyncio.timeout(WAIT_SECONDS):
        while (found := await ask(port, "readyz"))[0] != status:  # noqa: ASYNC110
            await asyncio.sleep(0.1)  # as a probe asks again: nothing tells when
    return found[1]


async def test_a_worker_is_ready_as_long_as_its_parts_are_there(
    running: Running, valkey: Valkey
) -> None:
    """Ready when it says so; a part that is away is named by those who need it, who stay alive."""
    ports = running.ports
    for port in ports.values():
        assert await ask(port, "livez") == (200, {})
        assert await ask(port, "readyz") == (200, {})
    await valkey.stop()
    for name in ("build", "invalidate"):
        assert list(await until(ports[name], 503)) == ["redis"]
        assert await ask(ports[name], "livez") == (200, {})
    assert await ask(ports["relay"], "readyz") == (200, {})
    await valkey.start()
    for port in ports.values():
        assert await until(port, 200) == {}


async def noted(port: int, names: list[str]) -> dict[str, str]:
    """What a worker that is ready notes, once that is about `names`."""
    async with aiohttp.ClientSession() as http, asyncio.timeout(WAIT_SECONDS):
        while True:
            async with http.get(f"http://127.0.0.1:{port}/readyz") as answer:
                told = await answer.json()
            assert (answer.status, told["ok"]) == (200, True)
            if list(told["noted"]) == names:
                assert told["passing"].count("liveness") == (not names)
                return dict(told["noted"])
            await asyncio.sleep(0.1)


async def test_a_worker_without_proof_is_ready_and_says_that_it_bypasses(running: Running) -> None:
    """It answers all the same, and a restart would not help; whoever looks is told."""
    concerned = [running.ports[name] for name in ("build", "invalidate")]
    for port in concerned:
        await noted(port, [])
    await running.workers["relay"].stop()
    for port in concerned:
        assert "caches are bypassed" in (await noted(port, ["liveness"]))["liveness"]
    await running.workers["relay"].start()
    for port in concerned:
        await noted(port, [])


@pytest.mark.any_broker
async def test_a_worker_that_starts_is_alive_and_not_ready(
    env: dict[str, str], tmp_path: Path
) -> None:
    """A probe does not have to guess how long a start takes."""
    port = free_port()
    nowhere = {"CONTEXT_REDIS_URL": "redis://127.0.0.1:1/0", "CONTEXT_HEALTH_PORT": str(port)}
    worker = WorkerProcess("invalidate", env | nowhere, tmp_path / "log")
    starting = asyncio.create_task(worker.start())
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            while True:
                try:
                    status, failing = await ask(port, "readyz")
                    break
                except aiohttp.ClientConnectionError:
                    await asyncio.sleep(0.05)  # not listening yet, and nothing tells when
        assert status == 503
        assert failing["worker"] == "starting"
        assert "redis" in failing
        assert (await ask(port, "livez"))[0] == 200
    finally:
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        await worker.kill()
