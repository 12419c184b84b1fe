"""The build worker's machinery with a handler for tests: `python -m tests.support.machine_worker`.

Echoes each request under its key. The value says what else happens, if the environment variable
`MACHINE_TRAPS` is set: `block` is never answered, `slow` after a second, `fail` raises. Without
it all are answered.
"""

from __future__ import annotations

import asyncio
import os
import sys

from events.producer import Producer
from events.records import OutgoingRecord, RawMessage
from workers import runner
from workers.app import BuildWorkerConfig
from workers.build_agent import Outcome
from workers.signals import stop_requested

SLOW_SECONDS = 1.0


async def main() -> int:
    bootstrap = os.environ["CONTEXT_KAFKA_BOOTSTRAP"]
    replies = os.environ["MACHINE_REPLIES"]
    traps = "MACHINE_TRAPS" in os.environ

    async def handle(raw: RawMessage) -> Outcome:
        match raw.value if traps else None:
            case b"block":
                await asyncio.get_running_loop().create_future()
            case b"slow":
                await asyncio.sleep(SLOW_SECONDS)
            case b"fail":
                raise ValueError("a trap")
        return [OutgoingRecord(replies, raw.key, raw.value)]

    producer = Producer(bootstrap, client_id="machine", timeout=10)
    await producer.start()
    try:
        return await runner.serve(
            BuildWorkerConfig(
                bootstrap,
                topic=os.environ["MACHINE_REQUESTS"],
                group=os.environ["MACHINE_GROUP"],
            ),
            handle,
            producer,
            stop=stop_requested(),
            on_ready=lambda: print("ready", flush=True),
        )
    finally:
        await producer.stop()


if __name__ == "__main__":
    sys.exit(runner.run(main()))
