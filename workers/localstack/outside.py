"""A broker that someone else runs, in the shape of a part."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from workers.localstack.errors import LocalStackError, PartFailed
from workers.localstack.part import Part, Progress, silent
from workers.localstack.probe import kafka_answers


class OutsideKafka(Part):
    """Kafka at an address given, `host:port`. It is used, never started nor stopped."""

    name: ClassVar[str] = "kafka"

    def __init__(self, directory: Path, address: str, *, on_progress: Progress = silent) -> None:
        super().__init__(directory, on_progress=on_progress)
        self._host, _, port = address.strip().rpartition(":")
        if not self._host or not port.isdecimal():
            raise LocalStackError(f"kafka: {address!r} is no address; give one as host:port")
        self._port = int(port)

    @property
    def address(self) -> str:
        return f"{self._host}:{self._port}"

    async def prepare(self) -> None:
        raise self._not_ours("start")

    def command(self) -> Sequence[str]:
        raise self._not_ours("start")

    async def answers(self) -> bool:
        return await kafka_answers(self._host.strip("[]"), self._port)

    async def start(self) -> None:
        """Only see that it is there. Raises `PartFailed` when it does not answer."""
        if not await self.answers():
            raise PartFailed(self.name, f"no Kafka broker answers at {self.address}")
        self._say(f"kafka answers on {self.address}")

    async def stop(self) -> None:
        """Leaves it running: it belongs to someone else."""

    async def kill(self) -> None:
        raise self._not_ours("kill")

    def _not_ours(self, verb: str) -> LocalStackError:
        return LocalStackError(f"kafka: {self.address} is not ours to {verb}")
