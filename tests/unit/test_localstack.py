"""The local stack where nothing is started: choices, messages, secrets."""

from __future__ import annotations

import importlib.util
import stat
from pathlib import Path

import pytest

from tests.support.stack import Databases, kafka_choice
from workers.localstack import (
    LocalStack,
    LocalStackError,
    OutsideKafka,
    PartFailed,
    Postgres,
    SmallKafka,
    UnsupportedPlatform,
    maven,
)
from workers.localstack.stack import _secrets


def test_a_missing_package_names_the_addresses_to_give_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the servers' packages do not exist, the message says what to set."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UnsupportedPlatform) as caught:
        Postgres(tmp_path, "secret")._find_programs(-1)
    for name in ("CONTEXT_KAFKA_BOOTSTRAP", "CONTEXT_REDIS_URL", "CONTEXT_DATABASE_URL"):
        assert name in caught.value.message


def test_the_error_of_a_part_carries_the_end_of_its_log(tmp_path: Path) -> None:
    """The reason that the server itself gave is in the message; the whole log is not."""
    part = SmallKafka(tmp_path)
    part.log_path.write_text("".join(f"line {n}\n" for n in range(100)))
    error = PartFailed(part.name, "left", part.log_tail())
    assert "line 99" in error.message
    assert "line 79\n" not in error.message


@pytest.mark.parametrize("address", ["", "host", "host:", ":9092", "host:port"])
def test_what_is_no_address_is_refused(tmp_path: Path, address: str) -> None:
    """Before anything is asked of it."""
    with pytest.raises(LocalStackError, match="host:port"):
        OutsideKafka(tmp_path, address)


async def test_an_unknown_broker_is_refused_before_anything_starts(tmp_path: Path) -> None:
    """A spelling mistake does not quietly become the small broker."""
    with pytest.raises(LocalStackError, match="'appache' is none of small, maven and host:port"):
        async with LocalStack.start(tmp_path, kafka="appache"):
            pass


def test_secrets_are_made_once_and_shut(tmp_path: Path) -> None:
    """A kept directory keeps its secrets, for its owner's eyes."""
    path = tmp_path / "secrets.json"
    made = _secrets(path)
    assert _secrets(path) == made
    assert len(set(made.values())) == len(made)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_maven_without_java_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The demand names the version."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LocalStackError, match=r"java is not on the PATH.*17 or newer"):
        await maven.kafka_jars(tmp_path)


@pytest.mark.parametrize("choice", ["dokcer", "appache"])
def test_a_choice_that_does_not_exist_stops_the_test_run(
    choice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never a silent fall back to another broker than the one asked for."""
    monkeypatch.setenv("CONTEXT_TEST_KAFKA", choice)
    with pytest.raises(pytest.UsageError, match=f"CONTEXT_TEST_KAFKA=.?{choice}"):
        kafka_choice()


def test_containers_without_an_engine_say_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first test, not in the middle of one."""
    from tests.support import containers

    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    with pytest.raises(LocalStackError, match=r"no Docker engine.*DOCKER_HOST"):
        containers.pull(print)


def test_a_database_url_keeps_credentials_and_port() -> None:
    """Only the name of the database changes."""
    server = "postgresql+asyncpg://postgres:s%40cret@127.0.0.1:5432/postgres"
    assert Databases(server).url("other") == server.removesuffix("postgres") + "other"
