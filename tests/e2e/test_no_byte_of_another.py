"""Nothing that a user's request leads to tells what is out of that user's sight.

Real workers over a workspace in which every name, option and value is a canary: replies, dead
letters, announcements, logs, metrics and health are read byte by byte. Nor does anything that is
written hold a password, or what a user said but to whom it answers.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any

import aiohttp
import pytest

from context_engine import bootstrap
from context_engine.keys import scope_of
from events import cloudevents, messages
from events.messages import ContextEvicted
from events.producer import Producer
from events.records import Headers, OutgoingRecord, RawMessage
from events.topics import Topics
from tests.support.bus import Reader, make_topics, own_names, reader
from tests.support.canaries import ANA, BOB, Aviary, canaries_in
from workers.house import settings_of
from workers.localstack import LocalStack
from workers.localstack.part import free_port
from workers.supervisor import WORKERS, WorkerProcess

pytestmark = [pytest.mark.any_broker, pytest.mark.timeout(120)]

GRANTED: dict[str, dict[str, Any]] = {
    "table": {"tableIds": ["seen"]},
    "all": {
        "tableIds": ["seen", "broken"], "viewId": "all", "projectId": "project", "taskId": "task",
        "conversationId": "talk", "workflowId": "flow", "agentStack": ["agent"],
        "sessionId": "s", "message": "What is hidden?", "metadata": {"mine": "yes"},
    },
    "session": {"sessionId": "s"},
    "absent": {
        "tableIds": ["seen"], "viewId": "narrow", "projectId": "closed", "taskId": "dark-task",
        "teamId": "team", "organizationId": "org", "workflowId": "nowhere",
    },
    "view of others": {"viewId": "own"},
}  # fmt: skip
DENIED: dict[str, dict[str, Any]] = {
    "dark table": {"tableIds": ["seen", "dark"]},
    "dark view": {"tableIds": ["dark"], "viewId": "darks"},
    "their talk": {"conversationId": "theirs"},
    "malformed": {"tableIds": "dark"},
    "too long": {"tableIds": ["dark"], "taskId": "x" * 201},
    "another workspace": {"workspaceId": "nowhere"},
    "fault": {"tableIds": ["faulty"]},
}
STRICT = {"strict view": {"viewId": "narrow"}, "strict project": {"projectId": "closed"}}
REFUSED = {"sessionId": "refused"}
"""A session in which nothing is answered."""
ELSEWHERE: Headers = (("kafka_replyTopic", b"domain.record-edit"),)


@dataclass
class Line:
    """The three workers over topics of their own, and all that was said on these."""

    aviary: Aviary
    topics: Topics
    producer: Producer
    said: Reader
    ports: dict[str, int]
    workers: list[WorkerProcess]
    secrets: list[bytes]
    """Passwords, and the key of the tags."""

    async def ask(
        self, name: str, who: str, where: dict[str, Any], extra: Headers = (), **options: bool
    ) -> str:
        """Sends a request; its id."""
        id = f"{name}-{token_hex(4)}"
        given = {"userId": who, "workspaceId": "w", **where}
        data = json.dumps({"requestId": id, "input": given, "options": options}).encode()
        headers, value = cloudevents.encode(
            type=messages.BUILD_REQUESTED, source="test", id=id, data=data, extra=extra
        )
        topic = self.topics.build_requests.name
        await self.producer.send(OutgoingRecord(topic, id.encode(), value, headers))
        return id

    async def answered(self, ids: set[str]) -> list[RawMessage]:
        """The replies to these requests, and their dead letters."""
        ready = self.topics.ready.name

        def all_of(seen: list[RawMessage]) -> bool:
            return ids <= {_key(raw) for raw in seen if raw.topic == ready}

        return [raw for raw in await self.said.until(all_of) if _key(raw) in ids]

    async def contexts(self, ids: set[str]) -> set[str]:
        """Those of these requests that are answered with a context, and not a failure."""
        replies = await self.answered(ids)
        ready = ("ce_type", messages.READY.encode())
        return {_key(raw) for raw in replies if ready in raw.headers}

    async def announced(self, change_ids: set[str]) -> None:
        """Waits until the evictions of all these changes are told."""
        topic = self.topics.evictions.name

        def all_of(seen: list[RawMessage]) -> bool:
            told = (raw.value or b"" for raw in seen if raw.topic == topic)
            return change_ids <= {ContextEvicted.model_validate_json(v).change_id for v in told}

        await self.said.until(all_of)

    async def concerned(self) -> set[str]:
        """Whose contexts were taken back, by all that was announced so far."""
        told = await self.said.everything()
        topic = self.topics.evictions.name
        values = (raw.value or b"" for raw in told if raw.topic == topic)
        return {key for v in values for key in ContextEvicted.model_validate_json(v).scope_keys}

    async def health(self) -> list[str]:
        """The bodies of every worker's `/livez`, `/readyz` and `/metrics`."""
        async with aiohttp.ClientSession() as http:
            found = []
            for port in self.ports.values():
                for path in ("livez", "readyz", "metrics"):
                    async with http.get(f"http://127.0.0.1:{port}/{path}") as answer:
                        assert answer.status == 200
                        found.append(await answer.text())
        return found

    async def written(self) -> dict[str, bytes]:
        """What each worker wrote in its whole life, by its name: stdout, then stderr. Ends them."""
        await asyncio.gather(*(worker.stop() for worker in self.workers))
        found = {}
        for worker in self.workers:
            assert worker.process is not None
            assert worker.process.stdout is not None
            assert worker.log is not None
            found[worker.name] = await worker.process.stdout.read() + worker.log.read_bytes()
        return found


def _key(raw: RawMessage) -> str:
    return (raw.key or b"").decode(errors="replace")


def _bytes(raw: RawMessage) -> list[bytes]:
    """Everything that a reader of the topic gets."""
    return [raw.key or b"", raw.value or b"", *(v or b"" for _, v in raw.headers)]


@pytest.fixture
async def line(
    stack: LocalStack, redis_url: str, database_url: str, tmp_path: Path
) -> AsyncIterator[Line]:
    name = token_hex(4)
    env = {
        **stack.env(), **own_names(), "CONTEXT_DATABASE_URL": database_url,
        "CONTEXT_LOG_FORMAT": "json", "CONTEXT_LOG_LEVEL": "debug",
        "CONTEXT_REDIS_URL": redis_url, "CONTEXT_BUILD_GROUP": f"t{name}",
        "CONTEXT_TOPIC_BUILD_REQUESTS": f"t{name}.asked", "CONTEXT_TOPIC_READY": f"t{name}.ready",
    }  # fmt: skip
    settings = settings_of(env)
    topics = await make_topics(settings)
    ports = {worker: free_port() for worker in WORKERS}
    running = [
        WorkerProcess(one, env | {"CONTEXT_HEALTH_PORT": str(port)}, tmp_path / f"{one}.log")
        for one, port in ports.items()
    ]
    listed = [topic.name for topic in topics.all()]
    async with AsyncExitStack() as open_:
        parts = await open_.enter_async_context(bootstrap.parts(settings))
        aviary = Aviary(parts.services, parts.database)
        producer = Producer(settings.kafka_bootstrap, client_id="test")
        open_.push_async_callback(producer.stop)
        for worker in running:
            open_.push_async_callback(worker.stop)
        starting = (worker.start() for worker in running)
        await asyncio.gather(producer.start(), aviary.furnish(), *starting)
        said = await open_.enter_async_context(reader(settings.kafka_bootstrap, *listed))
        urls = (settings.redis_url, settings.database_url.get_secret_value())
        passwords = [url.rpartition("@")[0].rpartition(":")[2] for url in urls]
        secrets = [*filter(None, passwords), settings.tag_secret.get_secret_value()]
        assert min(map(len, secrets)) >= 8, "a short one may be found by chance"
        known = [secret.encode() for secret in secrets]
        yield Line(aviary, topics, producer, said, ports, running, known)


async def test_no_byte_of_what_is_out_of_sight_leaves(line: Line) -> None:
    """Granted, denied, malformed and misdirected requests, before and after changes by others:
    Bob hears the canaries in his sight, logs, health and announcements none, Ana hers; and no
    announcement says that what he was refused has changed."""
    asked: set[str] = set()
    for _ in range(2):
        let_in = {await line.ask(name, BOB, where) for name, where in GRANTED.items()}
        refused = {await line.ask(name, BOB, where | REFUSED) for name, where in DENIED.items()}
        refused |= {
            await line.ask(name, BOB, where | REFUSED, strict=True)
            for name, where in STRICT.items()
        }
        refused.add(await line.ask("elsewhere", BOB, GRANTED["all"], ELSEWHERE))
        asked |= let_in | refused
        assert await line.contexts(let_in | refused) == let_in
        changes = await line.aviary.change()
        await line.announced({change.change_id for change in changes})
    hers = {await line.ask("dark", ANA, {"tableIds": ["dark"], "projectId": "closed"})}
    replies = await line.answered(asked)
    heard = canaries_in(*(part for raw in replies for part in _bytes(raw)))
    shown, hidden = line.aviary.shown, line.aviary.hidden
    assert heard & hidden == set()
    assert line.topics.build_requests.dead_letters.name in {raw.topic for raw in replies}
    assert len(heard & shown) > 30, "what is in sight is told"
    told = await line.answered(hers)
    assert canaries_in(*(part for raw in told for part in _bytes(raw))) & hidden, "they would show"
    others = [raw for raw in await line.said.everything() if _key(raw) not in asked | hers]
    kinds = {raw.topic for raw in others}
    announced = await line.concerned()
    assert scope_of("w", BOB, "s", None).key in announced
    assert scope_of("w", BOB, "refused", None).key not in announced, "a denial falls unheard"
    assert len(kinds) > 4, "changes of every kind"
    requests = line.topics.build_requests.name
    of_others = [part for raw in others if raw.topic != requests for part in _bytes(raw)]
    assert canaries_in(*of_others) == set()
    health = [text.encode() for text in await line.health()]
    logs = await line.written()
    told_of_garbage = b"a stored rule cannot be used"
    assert told_of_garbage in logs["build"], "what it says of what is broken is read too"
    assert canaries_in(*health, *logs.values()) == set()
    on_topics = [part for raw in await line.said.everything() for part in _bytes(raw)]
    _without_secrets(line.secrets, *health, *logs.values(), *on_topics)
    _in_json(logs, asked | hers)


def _without_secrets(secrets: list[bytes], *written: bytes) -> None:
    """Nor with what a user said, unless it is on the topics."""
    assert [one for one in secrets for text in written if one in text] == []


def _in_json(logs: dict[str, bytes], asked: set[str]) -> None:
    """Every line but the one that says `ready` is an object with an action; those about a request
    have its id, each request that was taken has one, and none has what was asked."""
    told: set[str] = set()
    for name, text in logs.items():
        for line in text.decode().splitlines():
            if line == f"{name} ready":
                continue
            fields = json.loads(line)
            assert {"event", "level", "timestamp"} <= fields.keys(), line
            if fields["event"].startswith("request "):
                told.add(fields["request_id"])
        assert b"What is hidden?" not in text
    assert asked <= told
