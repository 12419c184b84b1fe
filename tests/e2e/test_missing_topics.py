"""Topics that are not there: said at the start, and never what a worker waits on in silence."""

from __future__ import annotations

import secrets
import time
from pathlib import Path

import pytest

from context_engine.errors import Unavailable
from events.producer import Producer, UnknownPartition
from events.records import OutgoingRecord
from events.topics import Topics, ensure
from tests.support.bus import own_names
from tests.support.stack import kafka_choice
from workers.house import settings_of
from workers.localstack import LocalStack
from workers.supervisor import WorkerProcess

pytestmark = pytest.mark.timeout(120)

MISSING = (
    ("build", "CONTEXT_TOPIC_BUILD_REQUESTS"),
    ("build", "CONTEXT_TOPIC_READY"),
    ("relay", "CONTEXT_TOPIC_DOMAIN_PREFIX"),
    ("invalidate", "CONTEXT_TOPIC_EVICTIONS"),
)


@pytest.fixture
async def env(stack: LocalStack) -> dict[str, str]:
    """A house whose topics are all there."""
    env = stack.env() | own_names()
    await ensure(stack.kafka_bootstrap, Topics.of(settings_of(env)))
    return env


@pytest.mark.parametrize(("worker", "setting"), MISSING)
@pytest.mark.parametrize("name", ["a b!", "missing."])
async def test_a_worker_does_not_start_without_its_topics(
    env: dict[str, str], database_url: str, worker: str, setting: str, name: str, tmp_path: Path
) -> None:
    """It leaves with 69 and says which topic, and what to run, instead of calling itself ready."""
    named = {setting: name + secrets.token_hex(4), "CONTEXT_DATABASE_URL": database_url}
    process = WorkerProcess(worker, env | named, tmp_path / "log")
    with pytest.raises(Unavailable) as fault:
        await process.start()
    assert "exit code 69" in fault.value.message
    assert f"topic '{named[setting]}" in fault.value.message
    assert "is not there; run `context-engine topics`" in fault.value.message


@pytest.mark.skipif(kafka_choice() == "small", reason="the small broker makes what is asked about")
async def test_a_reply_topic_that_is_gone_is_a_typed_refusal(stack: LocalStack) -> None:
    """Within seconds, from a broker that makes no topics by itself."""
    producer = Producer(stack.kafka_bootstrap, client_id="test")
    await producer.start()
    began = time.monotonic()
    try:
        with pytest.raises(UnknownPartition, match="is not there"):
            await producer.send(OutgoingRecord(f"gone.{secrets.token_hex(4)}", b"k", b"v"))
    finally:
        await producer.stop()
    assert time.monotonic() - began < 8
