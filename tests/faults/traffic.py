"""Requests, changes and domain writes with known ids, at a rate, whatever becomes of them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from uuid import uuid4

from context_engine.adapters.sql.services import DomainServices
from context_engine.changes import MemberChanged
from context_engine.errors import Rejected, Unavailable
from context_engine.keys import scope_of
from events import cloudevents, messages
from events.producer import Producer
from events.records import OutgoingRecord
from events.topics import Topics
from tests.faults.ledger import MARK, Ledger
from tests.faults.scene import USERS
from tests.faults.sent import Sent

SOURCE = "faults"
SESSIONS = 96
TABLES = ("t0", "t1")
MOST_UNSENT = 2_000
"""Sends that wait for the broker at once: while it is away no more is asked."""


class Traffic:
    """Sends at a steady rate, and does not wait for answers: the rate is the world's."""

    def __init__(
        self, ledger: Ledger, producer: Producer, topics: Topics, services: DomainServices
    ) -> None:
        self._ledger, self._producer = ledger, producer
        self._topics, self._services = topics, services
        self._tasks: set[asyncio.Task[None]] = set()
        self._loops: list[asyncio.Task[None]] = []
        self._unexpected: list[BaseException] = []
        self._number = 0
        self.not_written = 0
        """Domain writes that their service refused or could not make."""

    def start(self, requests: float, changes: float, writes: float, *, fresh: int = 5) -> None:
        """So many of each a second; one request in `fresh` never out of a cache."""
        steps: list[tuple[float, Callable[[], Awaitable[object]]]] = [
            (requests, lambda: self.request(fresh=self._number % fresh == 0)),
            (changes, self.change),
            (writes, self.write),
        ]
        self._loops = [asyncio.create_task(self._go(*one)) for one in steps if one[0]]

    async def stop(self) -> None:
        """Sends no more; waits for what is on its way. Raises what nobody expected of a send."""
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        self._loops = []
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=60)
        for error in self._unexpected:
            raise error

    async def _go(self, rate: float, step: Callable[[], Awaitable[object]]) -> None:
        began, done = time.monotonic(), 0
        while True:
            while done < (time.monotonic() - began) * rate:
                done += 1
                if len(self._tasks) < MOST_UNSENT:
                    task = asyncio.ensure_future(self._one(step()))
                    self._tasks.add(task)
                    task.add_done_callback(self._done)
            await asyncio.sleep(min(0.05, 1 / rate))

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._unexpected.append(error)

    @staticmethod
    async def _one(step: Awaitable[object]) -> None:
        await step

    # -- requests --

    async def request(
        self,
        *,
        fresh: bool = False,
        session: str | None = None,
        table: str | None = None,
        partition: int | None = None,
        workspace: str = "w",
        **options: object,
    ) -> Sent:
        """One request, as a user whose answer is told from every other's; sent when it returns."""
        self._number += 1
        number, id = self._number, uuid4().hex
        user = USERS[number % len(USERS)]
        session = session or f"s{number % SESSIONS}"
        table = table or TABLES[number // 2 % len(TABLES)]
        given: dict[str, object] = {
            "userId": user, "workspaceId": workspace, "sessionId": session,
        }  # fmt: skip
        if workspace == "w":
            given["tableIds"] = [table]
        own = {"n": id} if number % 3 == 0 else {}
        if own:
            given["metadata"] = own
        expects: dict[str, object] = {
            "user.id": user, "workspace.id": workspace, "session.id": session,
            "metadata.values": own, "table.id": given.get("tableIds") and table,
        }  # fmt: skip
        sent = self._ledger.ask(id, expects)
        data = {"requestId": id, "input": given, "options": {"fresh": fresh, **options}}
        key = scope_of(workspace, user, session, None).key.encode()
        await self.put(sent, json.dumps(data).encode(), key=key, partition=partition)
        return sent

    async def put(
        self,
        sent: Sent,
        value: bytes | None,
        *,
        key: bytes,
        topic: str | None = None,
        type: str = messages.BUILD_REQUESTED,
        partition: int | None = None,
        extra: tuple[tuple[str, bytes | None], ...] = (),
    ) -> None:
        """Sends a record that bears the id; where nobody acknowledges it, that is noted."""
        headers, _ = cloudevents.encode(
            type=type, source=SOURCE, id=sent.id, data=b"", extra=((MARK, sent.id.encode()), *extra)
        )
        name = topic or self._topics.build_requests.name
        try:
            place = await self._producer.send(OutgoingRecord(name, key, value, headers, partition))
        except (Unavailable, asyncio.CancelledError) as error:
            self._ledger.taken(sent, None)
            if isinstance(error, asyncio.CancelledError):
                raise
        else:
            self._ledger.taken(sent, place)

    # -- changes --

    async def change(self) -> Sent:
        """A change straight onto its topic, as a product with its own outbox sends it."""
        change = MemberChanged(workspace_id="w", user_id="eve", op="updated")
        sent = self._ledger.ask(change.change_id)
        await self.put(
            sent,
            change.model_dump_json().encode(),
            key=b"w",
            topic=self._topics.topic_for(change).name,
            type=messages.change_type(change),
        )
        return sent

    async def write(self) -> None:
        """A domain write, whose change the relay publishes."""
        role = ("viewer", "editor")[int(time.monotonic() * 10) % 2]
        try:
            written = await self._services.members.set("ana", "w", "bob", role=role)
        except (Rejected, Unavailable):
            self.not_written += 1
            return
        for change in written.changes:
            self._ledger.ask(change.change_id, ours=False)
