"""Getting Apache Kafka from Maven Central, and the two programs that this needs."""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from workers.localstack.errors import LocalStackError, PartFailed
from workers.localstack.part import Progress, silent

KAFKA_VERSION = "4.3.1"
JAVA_AT_LEAST = 17
DOWNLOAD_SECONDS = 300.0
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
COPY_JARS = ["dependency:copy-dependencies", "-DoutputDirectory=jars", "-DincludeScope=runtime"]


async def kafka_jars(cache: Path | None = None, *, on_progress: Progress = silent) -> Path:
    """The directory of Kafka's jars (44 MB), downloaded once into `cache`.

    Without `cache` it is ~/.cache/context-engine. Raises `LocalStackError` when Java or Maven is
    missing, `PartFailed` when the download fails.
    """
    await _require_java()
    root = cache or Path.home() / ".cache" / "context-engine"
    jars = root / f"kafka-{KAFKA_VERSION}"
    if not jars.exists():
        on_progress(f"kafka: getting Apache Kafka {KAFKA_VERSION} by Maven")
        await _download(jars)
    return jars


async def _download(jars: Path) -> None:
    """Into a directory beside, then renamed: what is there is whole."""
    maven = find_program("mvn")
    jars.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=jars.parent, prefix="kafka-") as made:
        (Path(made) / "pom.xml").write_text(POM)
        code, words = await run([maven, "-q", "-B", *COPY_JARS], Path(made), DOWNLOAD_SECONDS)
        if code != 0:
            raise PartFailed("kafka", f"mvn failed with code {code}", words)
        _put(Path(made) / "jars", jars)


def _put(made: Path, jars: Path) -> None:
    try:
        made.rename(jars)
    except OSError:
        if not jars.exists():  # else another process has just put it there
            raise


async def _require_java() -> None:
    _, words = await run([find_program("java"), "-version"], Path("/"), VERSION_SECONDS)
    found = re.search(r'version "(\d+)', words)
    if found is None or int(found[1]) < JAVA_AT_LEAST:
        has = f"Java {found[1]}" if found else "a Java of unknown version"
        raise LocalStackError(
            f"kafka: {has} is on the PATH; Apache Kafka needs {JAVA_AT_LEAST} or newer"
        )


def find_program(name: str) -> str:
    """The path of `java` or `mvn`. Raises `LocalStackError` when it is not there."""
    path = shutil.which(name)
    if path is None:
        raise LocalStackError(
            f"kafka: {name} is not on the PATH; Apache Kafka from Maven needs Java"
            f" {JAVA_AT_LEAST} or newer and Maven"
        )
    return path


async def run(command: Sequence[str], directory: Path, seconds: float) -> tuple[int, str]:
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
