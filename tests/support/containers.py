"""The stack's parts in containers, by testcontainers: the same shape, on a Docker engine here.

Each part keeps its container, so that stop, kill and start act as on a machine that restarts:
same port, same data. Containers are removed when the session ends.
"""

from __future__ import annotations

import asyncio
import secrets
import signal
from abc import abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import docker
from docker.errors import APIError, DockerException, ImageNotFound
from testcontainers.core.container import DockerContainer

from workers.localstack import LocalStack, LocalStackError, Part, PartFailed, Postgres, Valkey
from workers.localstack.part import (
    HOST,
    LOG_TAIL_LINES,
    POLL_SECONDS,
    LeftEarly,
    Progress,
)
from workers.localstack.probe import kafka_answers
from workers.localstack.stack import stack_home

KAFKA_IMAGE = "apache/kafka:4.3.1"
VALKEY_IMAGE = "valkey/valkey:9"
POSTGRES_IMAGE = "postgres:18"

_made: list[DockerContainer] = []


class InContainer(Part):
    """A part whose server runs in a container, published on 127.0.0.1 under the part's port."""

    image: ClassVar[str]
    inner_port: ClassVar[int]
    start_seconds: ClassVar[float] = 50.0
    stop_seconds: ClassVar[float] = 15.0
    _container: DockerContainer | None = None

    @abstractmethod
    def container(self) -> DockerContainer:
        """The container as it is to be made: image, environment, command."""

    @property
    def wrapped(self) -> Any:
        """The engine's own container. The part must have been started once."""
        assert self._container is not None, "start() comes first"
        return self._container.get_wrapped_container()

    @property
    def inner_address(self) -> tuple[str, int]:
        """Where other containers reach it."""
        self.wrapped.reload()
        (network,) = self.wrapped.attrs["NetworkSettings"]["Networks"].values()
        return network["IPAddress"], self.inner_port

    @property
    def running(self) -> bool:
        return self._state().get("Running", False)

    @property
    def pid(self) -> int | None:
        return self._state().get("Pid") or None

    async def prepare(self) -> None:
        """Nothing: all of it is in the image."""

    def command(self) -> Sequence[str]:
        """What runs in the container; empty before the first start."""
        attributes = self.wrapped.attrs if self._container is not None else {}
        return [attributes.get("Path", ""), *attributes.get("Args", ())]

    def log_tail(self) -> str:
        if self._container is None:
            return ""
        return self.wrapped.logs(tail=LOG_TAIL_LINES).decode(errors="replace")

    def run(self, *command: str, user: str = "") -> None:
        """Runs a command inside. Raises `PartFailed`."""
        code, words = self.wrapped.exec_run(list(command), user=user)
        if code != 0:
            raise PartFailed(self.name, f"{command[0]} failed: {words.decode(errors='replace')}")

    def _state(self) -> dict[str, Any]:
        if self._container is None:
            return {}
        self.wrapped.reload()
        return self.wrapped.attrs["State"]

    async def _start_once(self) -> None:
        try:
            await asyncio.to_thread(self._make_or_start)
        except APIError as error:
            raise LeftEarly(self.name, str(error.explanation), self.log_tail()) from error
        try:
            async with asyncio.timeout(self.start_seconds):
                while not await self.answers():
                    if not self.running:
                        raise LeftEarly(self.name, "left before it answered", self.log_tail())
                    await asyncio.sleep(POLL_SECONDS)
        except BaseException as error:
            await self._end(signal.SIGKILL)
            if isinstance(error, TimeoutError):
                reason = f"did not answer on {self.address} within {self.start_seconds:.0f} s"
                raise PartFailed(self.name, reason, self.log_tail()) from error
            raise

    def _make_or_start(self) -> None:
        if self._container is not None:
            self.wrapped.start()
            return
        made = self.container()
        # Past `with_bind_ports`, which publishes on every interface.
        made.ports[f"{self.inner_port}/tcp"] = (HOST, self.port)  # type: ignore[assignment]
        _made.append(made)
        made.start()
        self._container = made

    async def _end(self, with_signal: signal.Signals) -> None:
        if not self.running:
            return
        if with_signal is signal.SIGKILL:
            await asyncio.to_thread(self.wrapped.kill)
            await asyncio.to_thread(self.wrapped.wait)
        else:  # the image knows its signal
            await asyncio.to_thread(self.wrapped.stop, timeout=int(self.stop_seconds))


class ContainerKafka(InContainer):
    """Apache Kafka, one KRaft node; set up as the one from Maven."""

    name: ClassVar[str] = "kafka"
    image: ClassVar[str] = KAFKA_IMAGE
    inner_port: ClassVar[int] = 9092

    def container(self) -> DockerContainer:
        return DockerContainer(self.image, env=_kafka_environment(self.address))

    async def answers(self) -> bool:
        return await kafka_answers(HOST, self.port)


def _kafka_environment(address: str) -> dict[str, str]:
    return {
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_LISTENERS": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://{address}",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "KAFKA_HEAP_OPTS": "-Xmx512m",
        "KAFKA_JVM_PERFORMANCE_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "4",
        "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_NUM_PARTITIONS": "4",
        "KAFKA_BROKER_HEARTBEAT_INTERVAL_MS": "500",
        "KAFKA_BROKER_SESSION_TIMEOUT_MS": "2000",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
        "KAFKA_GROUP_MIN_SESSION_TIMEOUT_MS": "1000",
    }


class ContainerValkey(InContainer, Valkey):
    """Valkey; its settings come in by its standard input, not its command line."""

    image: ClassVar[str] = VALKEY_IMAGE
    inner_port: ClassVar[int] = 6379

    def container(self) -> DockerContainer:
        start = "exec valkey-server - <<END\n$VALKEY_SETTINGS\nEND"
        settings = f'requirepass {self._password}\nsave ""\nappendonly no\nbind *'
        return DockerContainer(
            self.image, command=["sh", "-c", start], env={"VALKEY_SETTINGS": settings}
        )


class ContainerPostgres(InContainer, Postgres):
    """PostgreSQL with the settings of the local stack's, so that sorting and time are the same."""

    image: ClassVar[str] = POSTGRES_IMAGE
    inner_port: ClassVar[int] = 5432

    def container(self) -> DockerContainer:
        kept = {name: value for name, value in self._settings.items() if name not in OF_THE_HOST}
        return DockerContainer(
            self.image,
            command=["postgres", *(f"--{name}={value}" for name, value in kept.items())],
            env={
                "POSTGRES_PASSWORD": self._password,
                "POSTGRES_INITDB_ARGS": "--locale-provider=builtin --builtin-locale=C.UTF-8"
                " --locale=C -E UTF8 --no-sync",
            },
        )

    def stand_by(self) -> None:
        """Its next start is in recovery."""
        self.run("sh", "-c", 'touch "$PGDATA/standby.signal"', user="postgres")


OF_THE_HOST = ("listen_addresses", "unix_socket_directories")
"""Settings of the local stack's PostgreSQL that have no place in a container."""


@asynccontextmanager
async def containers() -> AsyncIterator[LocalStack]:
    """The whole stack in containers; all of it answers when the block begins."""
    with stack_home(None) as home:
        stack = LocalStack(
            directory=home,
            kafka=ContainerKafka(home / "kafka"),
            valkey=ContainerValkey(home / "valkey", secrets.token_urlsafe(24)),
            postgres=ContainerPostgres(home / "postgres", secrets.token_urlsafe(24)),
            tag_secret=secrets.token_urlsafe(24),
        )
        async with asyncio.TaskGroup() as starting:
            for part in stack.parts:
                starting.create_task(part.start())
        yield stack


def pull(say: Progress) -> None:
    """Fetches the images that are missing. Raises `LocalStackError` where there is no engine."""
    try:
        client = docker.from_env()
        try:
            for image in (KAFKA_IMAGE, VALKEY_IMAGE, POSTGRES_IMAGE):
                try:
                    client.images.get(image)
                except ImageNotFound:
                    say(f"pulling {image}")
                    client.images.pull(image)
        finally:
            client.close()
    except DockerException as error:
        raise LocalStackError(
            f"no Docker engine to start containers with ({error}); start one, or set DOCKER_HOST"
        ) from error


def remove() -> None:
    """Removes every container that was made, with its data."""
    while _made:
        _made.pop().stop()
