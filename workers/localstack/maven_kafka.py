"""Apache Kafka itself, from Maven Central: one KRaft node, for the tests that must be sure."""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from workers.localstack.errors import LocalStackError, PartFailed
from workers.localstack.part import HOST, Part, Progress, free_port, silent
from workers.localstack.probe import kafka_answers

KAFKA_VERSION = "4.3.1"
JAVA_AT_LEAST = 17
DOWNLOAD_SECONDS = 300.0
FORMAT_SECONDS = 60.0
VERSION_SECONDS = 20.0

POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>local</groupId><artifactId>kafka</artifactId><version>1</version>
  <dependencies><dependency>
    <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId>
    <version>{KAFKA_VERSION}</version>
  </dependency></dependencies>
</project>
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
        root = cache or Path.home() / ".cache" / "context-engine"
        self._jars = root / f"kafka-{KAFKA_VERSION}"
        self._controller_port = 0

    async def prepare(self) -> None:
        await require_java_and_maven()
        if not self._jars.exists():
            self._say(f"kafka: getting Apache Kafka {KAFKA_VERSION} by Maven")
            await self._download()
        self._controller_port = self._controller_port or free_port()
        properties = self._properties(self._controller_port)
        self._properties_path.write_text("".join(f"{k}={v}\n" for k, v in properties.items()))
        if not (self._log_dir / "meta.properties").exists():
            await self._format()

    def command(self) -> Sequence[str]:
        logging = f"-Dlog4j2.configurationFile={self._log4j_path}"
        tuning = ["-Xmx512m", "-XX:+UseSerialGC"]  # the collector that leaves the cores alone
        return [
            *_java(),
            *tuning,
            logging,
            *self._class_path,
            "kafka.Kafka",
            str(self._properties_path),
        ]

    async def answers(self) -> bool:
        return await kafka_answers(HOST, self.port)

    @property
    def _class_path(self) -> list[str]:
        return ["-cp", f"{self._jars}/*"]

    @property
    def _log_dir(self) -> Path:
        return self.directory / "data"

    @property
    def _properties_path(self) -> Path:
        return self.directory / "server.properties"

    @property
    def _log4j_path(self) -> Path:
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

    async def _download(self) -> None:
        """Into a directory beside, then renamed: what is there is whole."""
        self._jars.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self._jars.parent, prefix="kafka-") as made:
            (Path(made) / "pom.xml").write_text(POM)
            goal = [
                "dependency:copy-dependencies",
                "-DoutputDirectory=jars",
                "-DincludeScope=runtime",
            ]
            command = [_program("mvn"), "-q", "-B", *goal]
            code, words = await _run(command, Path(made), DOWNLOAD_SECONDS)
            if code != 0:
                raise PartFailed(self.name, f"mvn failed with code {code}", words)
            try:
                (Path(made) / "jars").rename(self._jars)
            except OSError:
                if not self._jars.exists():  # else another process has just put it there
                    raise

    async def _format(self) -> None:
        self._log4j_path.write_text(
            "rootLogger.level=WARN\nrootLogger.appenderRef.out.ref=out\n"
            "appender.out.type=Console\nappender.out.name=out\n"
            "appender.out.layout.type=PatternLayout\n"
            "appender.out.layout.pattern=%d %p %m (%c)%n%throwable\n"
        )
        cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        tool = [
            "kafka.tools.StorageTool",
            "format",
            "-t",
            cluster,
            "-c",
            str(self._properties_path),
        ]
        command = [*_java(), "-XX:TieredStopAtLevel=1", *self._class_path, *tool]
        code, words = await _run(command, self.directory, FORMAT_SECONDS)
        if code != 0:
            shutil.rmtree(self._log_dir, ignore_errors=True)
            raise PartFailed(self.name, f"formatting failed with code {code}", words)


async def require_java_and_maven() -> None:
    """Raise `LocalStackError`, naming the remedy, unless Java 17+ and Maven are on the PATH."""
    _program("mvn")
    _, words = await _run([*_java(), "-version"], Path.cwd(), VERSION_SECONDS)
    found = re.search(r'version "(\d+)', words)
    if found is None or int(found[1]) < JAVA_AT_LEAST:
        has = f"Java {found[1]} is" if found else "a Java that does not tell its version is"
        raise LocalStackError(
            f"kafka: {has} on the PATH; Apache Kafka needs {JAVA_AT_LEAST} or newer"
        )


def _java() -> list[str]:
    return [_program("java")]


def _program(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise LocalStackError(
            f"kafka: {name} is not on the PATH; Apache Kafka from Maven needs Java"
            f" {JAVA_AT_LEAST} or newer and Maven"
        )
    return path


async def _run(command: Sequence[str], directory: Path, seconds: float) -> tuple[int, str]:
    """Run to the end within `seconds`. Returns the exit code and what it wrote."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=directory,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(seconds):
            words, _ = await process.communicate()
    except TimeoutError as error:
        raise PartFailed("kafka", f"{command[0]} took longer than {seconds:.0f} s") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode or 0, words.decode(errors="replace").strip()
