"""What nobody can read, on the request topic and on a change topic, among good neighbours."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from uuid import uuid4

import pytest
from aiokafka import AIOKafkaProducer

from context_engine.keys import scope_of
from events.records import Headers, Position
from events.topics import MIB
from tests.faults.ledger import MARK
from tests.faults.run import Run, faults
from tests.faults.scene import Scene
from tests.faults.sent import Sent

pytestmark = pytest.mark.timeout(300)

LIMIT = MIB
LAPS = 5


def request(id: str, **more: Any) -> bytes:
    given = {"userId": "ana", "workspaceId": "w", **more}
    return json.dumps({"requestId": id, "input": given}).encode()


def bad_requests(id: str) -> dict[str, tuple[bytes | None, Headers]]:
    """Each kind by name: its value, and headers beside those of an event."""
    room = LIMIT - len(request(id, message="")) - 500
    return {
        "a tombstone": (None, ()),
        "no JSON": (b"{", ()),
        "not UTF-8": (b'{"requestId": "\xff"}', ()),
        "nested": (b"[" * 100_000 + b"]" * 100_000, ()),
        "no object": (b"7", ()),
        "an id too long": (request("x" * 201), ()),
        "a field of another type": (request(id, tableIds="t0"), ()),
        "at the size limit": (request(id, message="x" * room), ()),
        "duplicate headers": (b"{", (("ce_type", b"other"), ("ce_type", b"another"))),
        "headers not UTF-8": (b"{", (("trace", b"\xff\xfe"), ("empty", None))),
        "many headers": (b"{", tuple((f"h{n}", b"\xff" * 50) for n in range(5_000))),
        "a clock far off": (b"{", (("ce_time", b"9999-12-31T23:59:59Z"),)),
        "a clock that is none": (b"{", (("ce_time", b"yesterday"),)),
    }


BAD_CHANGES = {
    "a tombstone": None,
    "no JSON": b"{",
    "no change": b"{}",
    "big": b"x" * (LIMIT - 500),
}


async def test_poison(scene: Scene) -> None:
    """Every kind is buried with its reason, on both kinds of topic; what is sent beside it, in
    the same partitions, is answered."""
    async with faults(scene, "poison of every kind") as run:
        run.final_refusals = None
        buried: list[tuple[str, Sent]] = []
        topic = scene.topics.change("membership").name
        for _ in range(LAPS):
            for kind in bad_requests(""):
                sent = run.ledger.ask(uuid4().hex)
                value, extra = bad_requests(sent.id)[kind]
                await run.traffic.put(sent, value, key=sent.id.encode(), extra=extra)
                buried.append((kind, sent))
            for kind, value in BAD_CHANGES.items():
                sent = run.ledger.ask(uuid4().hex)
                await run.traffic.put(
                    sent, value, key=sent.id.encode(), topic=topic, type="domain.member.changed"
                )
                buried.append((f"change: {kind}", sent))
            await asyncio.sleep(0.5)
        everything = await run.ledger.until(lambda: all(sent.has("dead") for _, sent in buried), 60)
        missing = sorted({kind for kind, sent in buried if not sent.has("dead")})
        run.check(everything, f"not buried: {missing}")
        silent = sorted({k for k, sent in buried if not _reason(sent)})
        run.check(not silent, f"buried without a reason: {silent}")
        run.note(f"{len({kind for kind, _ in buried})} kinds, {len(buried)} records")


def _reason(sent: Sent) -> str:
    return next((one.code for one in sent.outcomes if one.kind == "dead"), "")


async def test_clocks_far_off(scene: Scene) -> None:
    """Good requests and changes whose senders' clocks are years off are handled as any other."""
    async with faults(scene, "clock headers far off") as run:
        async with AIOKafkaProducer(bootstrap_servers=scene.settings.kafka_bootstrap) as raw:
            for at_ms in (0, 1, 4_102_444_800_000, 253_402_300_799_000):
                for ce_time in (b"1970-01-01T00:00:00Z", b"9999-12-31T23:59:59Z"):
                    await _good(run, scene, raw, at_ms, ce_time)
        await run.ledger.settled(30)


async def _good(run: Run, scene: Scene, raw: AIOKafkaProducer, at_ms: int, ce_time: bytes) -> None:
    sent = run.ledger.ask(uuid4().hex)
    headers = [
        ("ce_id", sent.id.encode()), ("ce_source", b"faults"), ("ce_specversion", b"1.0"),
        ("ce_type", b"context.build.requested"), ("ce_time", ce_time), (MARK, sent.id.encode()),
    ]  # fmt: skip
    key = scope_of("w", "ana", "clock", None).key.encode()
    topic = scene.topics.build_requests.name
    done = await raw.send_and_wait(
        topic, request(sent.id, sessionId="clock"), key=key, headers=headers, timestamp_ms=at_ms
    )
    run.ledger.taken(sent, Position(topic, done.partition, done.offset))
