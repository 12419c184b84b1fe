"""What an audit sees of the house: requests, answers and changes, as they pass by."""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from pydantic import ValidationError

from context_engine import keys
from context_engine.changes import domain_change
from context_engine.errors import Unavailable
from context_engine.invalidation import tags_touched
from context_engine.settings import Settings
from events.answers import ready_in
from events.messages import BuildRequest, ContextReady
from events.records import RawMessage
from events.subscription import Subscription
from events.tail import Tail
from events.topics import Topic, Topics

MOST: Final = 10_000
"""Requests and changes that are remembered."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it came, and when: milliseconds since 1970, by the broker or its sender."""

    request: BuildRequest
    at_ms: int


@dataclass(frozen=True, slots=True)
class Happened:
    """A change, with the tags that it touches as they leave the engine."""

    id: str
    type: str
    workspace_id: str
    tags: frozenset[str]
    at_ms: int


@dataclass(slots=True)
class Counts:
    """What an audit came to so far."""

    served: int = 0
    """Contexts seen on the topic."""
    rebuilt: int = 0
    same: int = 0
    explained: int = 0
    unexplained: int = 0
    skipped: int = 0
    """Samples whose request was not seen."""


@dataclass(slots=True)
class Sightings:
    """What was seen lately: requests by id, changes, and one answer at random since the last."""

    asked: OrderedDict[str, Asked] = field(default_factory=OrderedDict)
    happened: deque[Happened] = field(default_factory=lambda: deque(maxlen=MOST))
    counts: Counts = field(default_factory=Counts)
    _sample: ContextReady | None = None
    _among: int = 0

    def saw(self, one: Asked | Happened | ContextReady) -> None:
        match one:
            case Asked():
                self.asked[one.request.request_id] = one
                if len(self.asked) > MOST:
                    self.asked.popitem(last=False)
            case Happened():
                self.happened.append(one)
            case ContextReady():
                self.counts.served += 1
                self._among += 1
                if random.randrange(self._among) == 0:  # noqa: S311 - a sample, no secret
                    self._sample = one

    def sample(self) -> ContextReady | None:
        """One of the answers since the last sample, each as likely as the others."""
        found, self._sample, self._among = self._sample, None, 0
        return found


@asynccontextmanager
async def watching(settings: Settings, workspace_id: str | None) -> AsyncIterator[Sightings]:
    """Sees requests, answers and changes from now on. Raises `Unavailable`, and `Missed`: an
    audit that did not see everything explains nothing."""
    topics, seen = Topics.of(settings), Sightings()

    def subscription(
        read: Callable[[RawMessage], Asked | Happened | ContextReady | None], *names: Topic
    ) -> Subscription[Asked | Happened | ContextReady]:
        largest = max(topic.max_message_bytes for topic in names)
        tail = Tail(settings.kafka_bootstrap, [one.name for one in names], max_bytes=largest)
        return Subscription(tail, read)

    reading = Reading(settings.tag_secret.get_secret_value(), workspace_id)
    sources = (
        subscription(reading.request, topics.build_requests),
        subscription(reading.change, *topics.changes()),
        subscription(reading.ready, topics.ready),
    )
    try:
        async with AsyncExitStack() as started, asyncio.TaskGroup() as tasks:
            for source in sources:
                await started.enter_async_context(source)
            following = [tasks.create_task(_follow(source, seen)) for source in sources]
            yield seen
            for task in following:
                task.cancel()
    except* Unavailable as group:
        raise group.exceptions[0] from None


async def _follow(source: Subscription[Asked | Happened | ContextReady], seen: Sightings) -> None:
    async for one in source:
        seen.saw(one)


@dataclass(frozen=True, slots=True)
class Reading:
    """Reads the messages of a workspace, or of all; others, and what says nothing, are None."""

    secret: str
    workspace_id: str | None

    def request(self, raw: RawMessage) -> Asked | None:
        try:
            request = BuildRequest.model_validate_json(raw.value or b"")
        except ValidationError:
            return None
        return Asked(request, raw.timestamp) if self._of(request.input.workspace_id) else None

    def ready(self, raw: RawMessage) -> ContextReady | None:
        ready = ready_in(raw)
        return ready if ready is not None and self._of(ready.context.workspace.id) else None

    def change(self, raw: RawMessage) -> Happened | None:
        try:
            change = domain_change.validate_json(raw.value or b"")
        except ValidationError:
            return None
        workspace_id = change.workspace_id
        if not self._of(workspace_id):
            return None
        tags = keys.seal(self.secret, workspace_id, tags_touched(change))
        return Happened(change.change_id, change.type, workspace_id, frozenset(tags), raw.timestamp)

    def _of(self, workspace_id: str) -> bool:
        return self.workspace_id in (None, workspace_id)
