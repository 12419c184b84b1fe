"""The façade: coordinates in, an answer out. Workers and embedders call `ContextEngine.build`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from uuid import uuid4

from context_engine import access, keys, tokens
from context_engine.asked import DEFAULTS, Answer, Asked, Options
from context_engine.assembly import assemble
from context_engine.builder import Builder
from context_engine.built import Surfaced
from context_engine.coordinates import Effective, effective, kept
from context_engine.errors import NotFound, Unavailable
from context_engine.faults import Faults
from context_engine.keeping import Keeper
from context_engine.keys import Rendering, Scope
from context_engine.liveness import Liveness, Proven
from context_engine.models.input import ContextBuildInput
from context_engine.ports import Domain, Entry, Moment, Seen
from context_engine.rendering import answered, denial
from context_engine.repository import ContextRepository, Names, Remarks, names_of

__all__ = ["Answer", "ContextEngine", "Options", "moment_of"]

RETRY_SECONDS = (0.05, 0.1, 0.2, 0.5, 1.0)
"""Waits between attempts while a part is away; the last repeats until the build's bound."""


class ContextEngine:
    """Decides whose context it is, answers from what is proven fresh, else builds it."""

    def __init__(
        self,
        domain: Domain,
        repository: ContextRepository,
        builder: Builder,
        *,
        liveness: Liveness,
        bypass_builds: int = 8,
        build_timeout: float = 10.0,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._domain, self._repository, self._builder = domain, repository, builder
        self._liveness, self._bypasses = liveness, asyncio.Semaphore(bypass_builds)
        self._keeper = Keeper(repository)
        self._build_timeout, self._now = build_timeout, now
        self._faults = Faults()

    async def build(
        self,
        request: ContextBuildInput,
        options: Options = DEFAULTS,
        *,
        request_id: str | None = None,
        trace_id: str | None = None,
    ) -> Answer:
        """The context of `request`, proven fresh and permitted.

        Raises `NotFound` for what is fatal when out of sight, out of the cache too, `Unavailable`
        when the database or the evidence store stays away for the whole of the build's bound.
        """
        asked, seen = await self._ask(request, options, request_id, trace_id)
        if seen is not None and seen.whole is not None:
            return _cached(seen.whole, seen.now_ms)
        return await self._within_bound(asked, seen)

    async def _ask(
        self,
        request: ContextBuildInput,
        options: Options,
        request_id: str | None,
        trace_id: str | None,
    ) -> tuple[Asked, Seen | None]:
        """Resolves the effective coordinates, and looks by the keys that are made over them.

        A session most often keeps what the request says, or nothing: so the first look takes
        that for granted, and is the only one if it holds.
        """
        scope = keys.scope_of(
            request.workspace_id, request.user_id, request.session_id, request.conversation_id
        )
        own = effective(request, None)
        names = self._names(scope, request, own, options)
        asked = Asked(request, options, scope, own, names, Remarks(), None, request_id, trace_id)
        seen = await self._look(asked, assumed=True)
        session = seen.session if seen is not None else None
        if session is None:
            return asked, seen
        asked = replace(asked, last_hash=session.last_context_hash)
        if session.coordinates == kept(own.at):
            return asked, seen
        found = effective(request, session.coordinates)
        names = self._names(scope, request, found, options)
        asked = replace(asked, effective=found, names=names)
        return asked, seen if options.fresh else await self._look(asked, assumed=False)

    def _names(
        self, scope: Scope, request: ContextBuildInput, found: Effective, options: Options
    ) -> Names:
        limits = self._builder.limits
        how = Rendering(request.locale, request.timezone, limits.messages, limits.compression_chars)
        return names_of(scope, request, found, how, strict=options.strict)

    async def _look(self, asked: Asked, *, assumed: bool) -> Seen | None:
        """What is cached and proven; its clock and session only, where liveness is not proven."""
        proven = await self._liveness.proven()
        if proven is None:
            asked.remarks.bypass()
        seen = await self._repository.look(
            asked.names,
            asked.effective,
            asked.remarks,
            fresh=asked.options.fresh or proven is None,
            assumed=assumed,
        )
        if proven is None or seen is None or seen.moment is None:
            return seen
        return self._allowed(asked, seen, seen.moment, proven)

    def _allowed(self, asked: Asked, seen: Seen, moment: Moment, proven: Proven) -> Seen:
        """What of a look may answer this request; the rest is as if it had not been there."""
        if not proven.covers(moment.reign):  # another server than the one that was proven
            asked.remarks.bypass()
            return replace(seen, whole=None, surface=None)
        workspace_id, options = asked.scope.workspace_id, asked.options
        if not all(tokens.proven(one, workspace_id, moment, proven) for one in options.after):
            asked.remarks.unproven_write()
            return replace(seen, whole=None, surface=None)
        if options.max_age_ms is None:
            return seen
        oldest = seen.now_ms - options.max_age_ms
        return replace(seen, whole=_since(seen.whole, oldest), surface=_since(seen.surface, oldest))

    async def _within_bound(self, asked: Asked, seen: Seen | None) -> Answer:
        """Builds, and while a part is away tries again until the bound.

        The clock of the first look serves every attempt: an older clock proves less, never more.
        """
        last: Unavailable | None = None
        try:
            async with asyncio.timeout(self._build_timeout), self._turn(asked):
                for attempt in range(1_000_000):
                    try:
                        return await self._build(asked, seen)
                    except Unavailable as away:
                        last = away
                        await asyncio.sleep(RETRY_SECONDS[min(attempt, len(RETRY_SECONDS) - 1)])
        except TimeoutError:
            pass
        if last is not None:
            raise last
        raise Unavailable("build", f"not done within {self._build_timeout:g} s; try again later")

    def _turn(self, asked: Asked) -> AbstractAsyncContextManager[object]:
        """Builds in place of the whole cache come a few at a time: the database must survive."""
        return self._bypasses if asked.remarks.bypassed else nullcontext()

    async def _build(self, asked: Asked, seen: Seen | None) -> Answer:
        context_id = uuid4().hex
        surfaced = await self._surfaced(asked, seen, context_id)
        built = assemble(
            self._builder.limits,
            asked.request,
            asked.effective,
            surfaced,
            scope_key=asked.scope.key,
            context_id=context_id,
            last_hash=asked.last_hash,
            now=self._now(),
            remarks=tuple(asked.remarks.said),
            clock=seen.moment.clock if seen is not None and seen.moment is not None else None,
        )
        await self._keeper.evidence(asked, built)
        await self._keeper.answer(asked, seen, surfaced, built)
        context = answered(built.payload, built.source, 0)[1]
        return Answer(built.context_id, built.context_hash, built.source, context)

    async def _surfaced(self, asked: Asked, seen: Seen | None, context_id: str) -> Surfaced:
        """The cached surface and the dialogue over it; or all of it, read in one snapshot.

        A denial to a member is kept, with the surface that was made on the way to it.
        """
        at, inherited = asked.effective.at, frozenset(asked.effective.inherited)
        known = None
        try:
            if seen is not None and seen.surface is not None:
                known = self._builder.reload(seen.surface, seen.now_ms)
            known = known or await self._read(asked, seen, context_id)
            self._faults.report(at.workspace_id, known.faults)
            known = self._builder.settled(known, inherited, strict=asked.options.strict)
            if known.over is not None and at.conversation_id is not None:
                known = await self._builder.read_dialogue(self._domain, at, inherited, known)
                self._faults.report(at.workspace_id, known.faults)
            return known
        except access.Denied as refused:
            await self._keeper.denial(asked, seen, known, refused)
            # Without its tags: those of what is hidden and of what is missing differ.
            raise NotFound(refused.kind, refused.id) from None

    async def _read(self, asked: Asked, seen: Seen | None, context_id: str) -> Surfaced:
        """Everything read from the domain, in one snapshot of it."""
        async with self._domain.snapshot() as reads:
            return await self._builder.read_all(
                reads,
                asked.effective.at,
                frozenset(asked.effective.inherited),
                locale=asked.request.locale,
                now=moment_of(seen.now_ms) if seen is not None else None,
                context_id=context_id,
            )


def _since(entry: Entry | None, oldest_ms: int) -> Entry | None:
    """`entry`, if it was built at or after that time, by the store's clock."""
    return entry if entry is not None and entry.built_ms >= oldest_ms else None


def moment_of(ms: int) -> datetime:
    """A reading of the store's clock, in milliseconds since 1970, as a time."""
    return datetime.fromtimestamp(ms / 1000, UTC)


def _cached(entry: Entry, now_ms: int) -> Answer:
    """A cached answer: its bytes, with the source and the age put in front.

    Raises `NotFound` where a denial is cached.
    """
    if (refused := denial(entry.payload)) is not None:
        raise refused
    age = max(0, now_ms - entry.built_ms)
    context_id, context = answered(entry.payload, "cache", age)
    return Answer(context_id, entry.context_hash, "cache", context)
