"""One suite for every part of the local stack: start, stop, crash, come back, die with us."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support.stack import PARTS
from workers.localstack import (
    LocalStack,
    LocalStackError,
    OutsideKafka,
    Part,
    PartFailed,
    SmallKafka,
    Valkey,
)
from workers.localstack.stack import stack_home

WAIT_SECONDS = 10.0

pytestmark = pytest.mark.timeout(180)
"""Apache Kafka is started up to three times in a test, in a container twice as slowly."""


@pytest.fixture
def home() -> Iterator[Path]:
    """A directory that PostgreSQL, as another user than root, can reach: pytest's own is shut."""
    with stack_home(None) as path:
        yield path


# Beside the suite on Apache Kafka only the broker itself is another.
OTHERS = [pytest.param(name, marks=pytest.mark.any_broker) for name in PARTS if name != "kafka"]


@pytest.fixture(params=["kafka", *OTHERS])
async def part(request: pytest.FixtureRequest, home: Path) -> AsyncIterator[Part]:
    made = PARTS[request.param](home / request.param)
    yield made
    await made.kill()


async def test_it_answers_when_start_returns_and_is_gone_after_stop(part: Part) -> None:
    """No caller has to wait or to ask again."""
    await part.start()
    assert await part.answers()
    assert part.running
    await part.stop()
    assert not await part.answers()
    assert part.pid is None


@pytest.mark.parametrize("end", ["stop", "kill"])
async def test_it_comes_back_on_the_same_port(part: Part, end: str) -> None:
    """Clients that hold the address find it again, after a stop and after a crash."""
    await part.start()
    port = part.port
    await getattr(part, end)()
    await part.start()
    assert part.port == port
    assert await part.answers()


async def test_a_port_that_was_taken_meanwhile_is_named(part: Part) -> None:
    """A restart never moves to another port in silence, nor takes a stranger for the server."""
    await part.start()
    await part.stop()
    with socket.socket() as stranger:
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        stranger.bind(("127.0.0.1", part.port))
        stranger.listen()
        with pytest.raises(PartFailed) as caught:
            await part.start()
    assert caught.value.part == part.name
    assert caught.value.log_tail
    assert not part.running


async def test_starting_twice_changes_nothing(part: Part) -> None:
    """The second call finds it running."""
    await part.start()
    pid = part.pid
    await part.start()
    assert part.pid == pid


async def test_the_secrets_are_not_on_the_command_line(part: Part) -> None:
    """Those are for everyone on the machine to read."""
    await part.start()
    assert "secret" not in " ".join(part.command())


@pytest.mark.any_broker
async def test_a_broker_that_is_not_there_is_named(tmp_path: Path) -> None:
    """An address given is checked at the start."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    with pytest.raises(PartFailed, match=f"no Kafka broker answers at 127.0.0.1:{port}"):
        await OutsideKafka(tmp_path, f"127.0.0.1:{port}").start()


@pytest.mark.any_broker
async def test_a_broker_of_someone_else_is_used_and_left_alone(home: Path) -> None:
    """Stopping the stack does not stop it, and killing it is refused."""
    own = SmallKafka(home / "own")
    await own.start()
    try:
        outside = OutsideKafka(home / "outside", own.address)
        await outside.start()
        await outside.stop()
        with pytest.raises(LocalStackError, match="not ours to kill"):
            await outside.kill()
        assert await own.answers()
    finally:
        await own.stop()


@pytest.mark.any_broker
async def test_a_failed_part_takes_the_others_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """No server and no directory outlives a start that failed."""
    seen: list[LocalStack] = []
    made = LocalStack._of_parts.__func__

    def remember(*arguments: object) -> LocalStack:
        seen.append(made(LocalStack, *arguments[1:]))
        return seen[0]

    monkeypatch.setattr(LocalStack, "_of_parts", classmethod(remember))
    monkeypatch.setattr(Valkey, "command", lambda self: ["/bin/false"])
    with pytest.raises(PartFailed, match="valkey: left with code 1"):
        async with LocalStack.start():
            pytest.fail("it must not start")
    (stack,) = seen
    assert not any(part.running for part in stack.parts)
    assert not stack.directory.exists()


@pytest.mark.any_broker
async def test_a_kept_directory_keeps_the_database_and_the_secrets(home: Path) -> None:
    """`context-engine dev` finds yesterday's workspace."""
    async with LocalStack.start(home / "kept") as first:
        secret = first.tag_secret
        password = first.database_url.split("@")[0]
    async with LocalStack.start(home / "kept") as second:
        assert second.tag_secret == secret
        assert second.database_url.split("@")[0] == password


OWNER = """
import asyncio, sys
from workers.localstack import LocalStack
async def main():
    async with LocalStack.start() as stack:
        print(stack.directory, *(part.pid for part in stack.parts), flush=True)
        await asyncio.sleep(60)
asyncio.run(main())
"""


@pytest.mark.any_broker
async def test_the_servers_die_with_a_parent_that_was_killed() -> None:
    """Nothing is left running, whatever happens to the process that started it."""
    owner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OWNER, stdout=asyncio.subprocess.PIPE
    )
    assert owner.stdout is not None
    async with asyncio.timeout(30):
        directory, *pids = (await owner.stdout.readline()).decode().split()
    owner.send_signal(signal.SIGKILL)
    await owner.wait()
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            while any(_alive(int(pid)) for pid in pids):  # noqa: ASYNC110
                await asyncio.sleep(0.02)  # another process has no event
    finally:
        shutil.rmtree(directory)


def _alive(pid: int) -> bool:
    """Alive, and not a zombie that nobody has buried."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text().rsplit(")", 1)[1].split()[0] != "Z"
