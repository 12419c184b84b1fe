"""An engine over a loaded workspace, with a cache and sessions, beside what they should say."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.adapters.memory import MemoryCache, MemorySnapshots
from context_engine.adapters.sql.reads import SqlDomain
from context_engine.builder import Builder, Limits
from context_engine.coordinates import kept
from context_engine.engine import ContextEngine, Options
from context_engine.errors import NotFound
from context_engine.keys import Coordinates, scope_of
from context_engine.liveness import Assumed
from context_engine.models import AgentContext, ContextBuildInput
from context_engine.ports import Look, SessionWrite
from context_engine.repository import ContextRepository, Lifetimes
from tests.support.oracle.canaries import canaries_in
from tests.support.oracle.draws import NOW
from tests.support.oracle.expected import expected
from tests.support.oracle.model import Workspace
from tests.support.oracle.request import COORDINATES, Request, Sessions
from tests.support.oracle.shape import NOT_FOUND, Told, told
from tests.support.world import SECRET

PATIENCE_SECONDS = 60.0
"""What is compared is the answer; a machine that stands still for a while is no finding."""

Answer = tuple[Told, str, Told]
"""What was said, in plain shape and in every byte; and what should have been."""


@dataclass
class House:
    workspace: Workspace
    engine: ContextEngine
    cache: MemoryCache
    sessions: Sessions = field(default_factory=Sessions)
    memories: dict[tuple[str, ...], list[str]] = field(default_factory=dict)
    """The canaries of the last summary in each session."""

    @classmethod
    async def over(cls, database: AsyncEngine, workspace: Workspace) -> House:
        cache = MemoryCache(now=lambda: int(NOW.timestamp() * 1000))
        # As a domain service does: without marks nothing is kept.
        await cache.mark(workspace.id, frozenset(), create=True)
        repository = ContextRepository(cache, MemorySnapshots(), Lifetimes())
        engine = ContextEngine(
            SqlDomain(database, count_cap=workspace.bounds.count),
            repository,
            Builder(Limits(messages=workspace.bounds.messages, tag_secret=SECRET)),
            liveness=Assumed(),
            build_timeout=PATIENCE_SECONDS,
            now=lambda: NOW,
        )
        return cls(workspace, engine, cache)

    async def remember(self, session_id: str, at: Request) -> None:
        """Gives a user a session from a time when everything in it was in sight."""
        scope = scope_of("w", at.user_id, session_id, None)
        seen = await self.cache.look(Look(scope, "none", "none", skip_entries=True))
        assert seen.moment is not None
        values = {name: getattr(at, name) for name in COORDINATES}
        session = SessionWrite(scope, kept(Coordinates("w", at.user_id, **values)), "then", 60)
        await self.cache.fill(seen.moment, [], session)
        self.sessions.seed((at.user_id, "session", session_id), at, "then")

    async def asked(self, request: Request) -> AsyncIterator[Answer]:
        """The answer, and in a session the one to the same again, which inherits other things."""
        for _ in range(1 if request.scope is None else 2):
            yield await self._answered(request)

    async def _answered(self, request: Request) -> Answer:
        found = self.sessions.effective(request)
        wanted = expected(self.workspace, found, NOW)
        asked = ContextBuildInput.model_validate(request.given)
        try:
            answer = await self.engine.build(asked, Options(strict=request.strict))
        except NotFound as refused:
            return NOT_FOUND, repr(refused) + str(refused), wanted
        context = AgentContext.model_validate_json(answer.context)
        said = told(context)
        if answer.source == "cache" and said["session"]:
            said["session"]["last_hash"] = found.kept.last_hash  # that of its build stays
        if wanted != NOT_FOUND:
            self.sessions.keep(found, context.context_hash)
        said["stored"], wanted["stored"] = await self._memory(request, wanted)
        return said, answer.context.decode(), wanted

    async def _memory(self, request: Request, wanted: Told) -> tuple[list[str], list[str]]:
        """The canaries of the session's stored text, and those that should be in it."""
        if request.scope is None:
            return [], []
        scope = scope_of("w", request.user_id, request.session_id, request.conversation_id)
        text = await self.cache.memory(scope)
        if wanted != NOT_FOUND and (session := wanted.get("session")) and session["memory"]:
            self.memories[request.scope] = session["memory"]
        return list(canaries_in(text or "")), self.memories.get(request.scope, [])
