"""Apache Kafka itself, from Maven Central: one KRaft node, for the tests that must be sure."""

from __future__ import annotations

import shutil
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from workers.localstack.errors import PartFailed
from workers.localstack.maven import find_program, kafka_jars, run
from workers.localstack.part import HOST, Part, Progress, free_port, silent
from workers.localstack.probe import kafka_answers

FORMAT_SECONDS = 60.0
LOGGING = """\
rootLogger.level=WARN
rootLogger.appenderRef.out.ref=out
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d %p %m (%c)%n%throwable
"""


class MavenKafka(Part):
    """Apache Kafka by `mvn` and `java`. The jars (44 MB) stay in `cache` for the next time.

    Unlike the small broker it keeps its topics over a restart, and holds to every topic setting.
    """

    name: ClassVar[str] = "kafka"
    start_seconds: ClassVar[float] = 60.0
    stop_seconds: ClassVar[float] = 15.0

    def __init__(
        self, directory: Path, *, cache: Path | None = None, on_progress: Progress = silent
    ) -> None:
        super().__init__(directory, on_progress=on_progress)
        self._cache = cache
        self._jars = Path()
        self._controller_port = 0

    async def prepare(self) -> None:
        self._jars = await kafka_jars(self._cache, on_progress=self._say)
        self._controller_port = self._controller_port or free_port()
        properties = self._properties(self._controller_port)
        self._properties_path.write_text("".join(f"{k}={v}\n" for k, v in properties.items()))
        self._logging_path.write_text(LOGGING)
        if not (self._log_dir / "meta.properties").exists():
            await self._format()

    def command(self) -> Sequence[str]:
        # The collector that leaves the cores to others.
        return self._java("-Xmx512m", "-XX:+UseSerialGC", "kafka.Kafka", str(self._properties_path))

    async def answers(self) -> bool:
        return await kafka_answers(HOST, self.port)

    def _java(self, *words: str) -> list[str]:
        logging = f"-Dlog4j2.configurationFile={self._logging_path}"
        return [find_program("java"), "-cp", f"{self._jars}/*", logging, *words]

    @property
    def _log_dir(self) -> Path:
        return self.directory / "data"

    @property
    def _properties_path(self) -> Path:
        return self.directory / "server.properties"

    @property
    def _logging_path(self) -> Path:
        return self.directory / "log4j2.properties"

    def _properties(self, controller_port: int) -> Mapping[str, str]:
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{HOST}:{controller_port}",
            "listeners": f"PLAINTEXT://{HOST}:{self.port},CONTROLLER://{HOST}:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self._log_dir),
            "auto.create.topics.enable": "false",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "4",
            "broker.heartbeat.interval.ms": "500",
            "broker.session.timeout.ms": "2000",  # so long a killed broker is waited for
            "group.initial.rebalance.delay.ms": "0",
            "group.min.session.timeout.ms": "1000",
            "log.cleaner.dedupe.buffer.size": "4194304",
        }

    async def _format(self) -> None:
        # A leading "-" would be read as an option.
        cluster = "A" + urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]
        tool = f"kafka.tools.StorageTool format -t {cluster} -c".split()
        command = self._java("-XX:TieredStopAtLevel=1", *tool, str(self._properties_path))
        code, words = await run(command, self.directory, FORMAT_SECONDS)
        if code != 0:
            shutil.rmtree(self._log_dir, ignore_errors=True)
            raise PartFailed(self.name, f"formatting failed with code {code}", words)
