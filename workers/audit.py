"""A sampler beside production: contexts as they were served, and as they are built just after.

It takes answers at random, builds each again from the database, past every cache and keeping
nothing, and compares. A difference is explained by a change that was seen in between and that the
context depends on, by its own tags. One that no change explains is a stale answer, or a write
that went past the domain services.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from context_engine import bootstrap
from context_engine.adapters.memory import MemoryCache, MemorySnapshots
from context_engine.engine import Options
from context_engine.errors import NotFound
from context_engine.evidence import compare
from context_engine.liveness import LIFE_MS, Assumed
from context_engine.models import AgentContext, ContextBuildInput
from context_engine.models.base import JsonObject
from context_engine.ports import Domain
from context_engine.settings import Settings
from events.messages import BuildRequest, ContextReady
from workers.sightings import Asked, Happened, Sightings

GRACE_SECONDS: Final = LIFE_MS / 1000
"""How long a change may take from its commit to its topic: judged once that is over."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A served context that is not what was built just after."""

    asked: Asked
    served: AgentContext
    built: AgentContext | None
    """None where the rebuild refused: `not_found`."""

    @property
    def sections(self) -> tuple[str, ...]:
        """Names of those that differ."""
        if self.built is None:
            return ("not_found",)
        old, new = (one.model_dump(mode="json") for one in (self.served, self.built))
        differs = compare(old, new)
        return (
            *(str(one.path[0]) for one in differs.head),
            *(one.name for one in differs.sections),
        )

    def explained(self, happened: Iterator[Happened]) -> tuple[str, ...]:
        """What may have made it: changes since the request, of tags that one of both carries.

        One that was seen up to `LIFE_MS` before it may not have been acknowledged by then. A
        section that was away for a moment explains it too.
        """
        tags = {*self.served.tags, *(self.built.tags if self.built is not None else ())}
        since = self.asked.at_ms - LIFE_MS
        changes = tuple(
            f"{one.type} {one.id}"
            for one in happened
            if one.at_ms >= since
            and one.workspace_id == self.served.workspace.id
            and not tags.isdisjoint(one.tags)
        )
        both = (self.served, self.built)
        traces = (one.trace.sections for one in both if one is not None)
        away = {n for trace in traces for n, one in trace.items() if one.status == "unavailable"}
        return changes + tuple(f"{name} was unavailable" for name in sorted(away))


class Auditor:
    """Rebuilds samples and judges what differs."""

    def __init__(self, settings: Settings, domain: Domain, sightings: Sightings) -> None:
        self._settings, self._domain, self._sightings = settings, domain, sightings
        self._differences: deque[tuple[float, Difference]] = deque()

    async def audit(self, ready: ContextReady) -> None:
        """Builds again what was served. Raises `Unavailable`."""
        counts = self._sightings.counts
        asked = self._sightings.asked.get(ready.request_id)
        if asked is None:
            counts.skipped += 1
            return
        built = await self.rebuilt(asked.request, ready.context)
        counts.rebuilt += 1
        if built is not None and built.context_hash == ready.context_hash:
            counts.same += 1
            return
        due = asyncio.get_running_loop().time() + GRACE_SECONDS
        self._differences.append((due, Difference(asked, ready.context, built)))

    async def rebuilt(self, request: BuildRequest, served: AgentContext) -> AgentContext | None:
        """The same from the database as it is now; nothing of it is kept anywhere."""
        engine = bootstrap.wire(
            self._settings,
            self._domain,
            MemorySnapshots(),
            cache := MemoryCache(),
            cache.liveness,
            Assumed(),
        ).engine
        options = Options(fresh=True, strict=request.options.strict)
        try:
            answer = await engine.build(settled(request.input, served), options)
        except NotFound:
            return None
        return AgentContext.model_validate_json(answer.context)

    def judged(self, *, all: bool = False) -> Iterator[tuple[Difference, tuple[str, ...]]]:
        """Differences whose time has come, and what explains each: nothing, if it is stale."""
        now, counts = asyncio.get_running_loop().time(), self._sightings.counts
        while self._differences and (all or self._differences[0][0] <= now):
            _, difference = self._differences.popleft()
            explained = difference.explained(iter(self._sightings.happened))
            if explained:
                counts.explained += 1
            else:
                counts.unexplained += 1
            yield difference, explained


def settled(request: ContextBuildInput, served: AgentContext) -> ContextBuildInput:
    """The request with what it inherited then, which its session may not keep any more."""
    there = {
        "conversationId": served.conversation,
        "projectId": served.project,
        "viewId": served.view,
        "taskId": served.task,
        "teamId": served.team,
        "organizationId": served.organization,
        "workflowId": served.workflow,
    }
    inherited: JsonObject = {
        name: section.id
        for name, section in there.items()
        if name in served.trace.inherited and section is not None
    }
    if "tableIds" in served.trace.inherited:
        inherited["tableIds"] = [table.id for table in served.tables]
    said = request.model_dump(mode="json", exclude_unset=True, by_alias=True)
    return ContextBuildInput.model_validate({**said, **inherited})
