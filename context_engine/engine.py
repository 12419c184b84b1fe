"""The façade: coordinates in, an answer out. Workers and embedders call `ContextEngine.build`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from uuid import uuid4

from context_engine import access, keys
from context_engine.builder import Builder, Built, Surfaced
from context_engine.coordinates import Effective, effective, kept
from context_engine.errors import NotFound, Unavailable
from context_engine.faults import Faults
from context_engine.keys import Rendering, Scope
from context_engine.models.context import Source
from context_engine.models.input import ContextBuildInput
from context_engine.ports import Domain, Entry, NewEntry, Seen, SnapshotRecord
from context_engine.rendering import answered, denial, denied
from context_engine.repository import ContextRepository, Names, Remarks, names_of

RETRY_SECONDS = (0.05, 0.1, 0.2, 0.5, 1.0)
"""Waits between attempts while a part is away; the last repeats until the build's bound."""


@dataclass(frozen=True, slots=True)
class Options:
    """How one request wants to be answered.

    `fresh`: never from a cache, though it fills it. `strict`: every requested coordinate that
    is out of sight is an error.
    """

    fresh: bool = False
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """An answered request. `context` is the `AgentContext` as JSON, ready for the wire."""

    context_id: str
    context_hash: str
    source: Source
    context: bytes


@dataclass(frozen=True, slots=True)
class Asked:
    """One request on its way through the engine."""

    request: ContextBuildInput
    options: Options
    scope: Scope
    effective: Effective
    names: Names
    remarks: Remarks
    last_hash: str | None = None
    """Hash of the context that the session was answered with before."""
    request_id: str | None = None
    trace_id: str | None = None


class ContextEngine:
    """Decides whose context it is, answers from what is proven fresh, else builds it."""

    def __init__(
        self,
        domain: Domain,
        repository: ContextRepository,
        builder: Builder,
        *,
        build_timeout: float = 10.0,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._domain, self._repository, self._builder = domain, repository, builder
        self._build_timeout, self._now = build_timeout, now
        self._faults = Faults()

    async def build(
        self,
        request: ContextBuildInput,
        options: Options = Options(),
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
        return await self._repository.look(
            asked.names,
            asked.effective,
            asked.remarks,
            fresh=asked.options.fresh,
            assumed=assumed,
        )

    async def _within_bound(self, asked: Asked, seen: Seen | None) -> Answer:
        """Builds, and while a part is away tries again until the bound.

        The clock of the first look serves every attempt: an older clock proves less, never more.
        """
        last: Unavailable | None = None
        try:
            async with asyncio.timeout(self._build_timeout):
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

    async def _build(self, asked: Asked, seen: Seen | None) -> Answer:
        context_id = uuid4().hex
        surfaced = await self._surfaced(asked, seen, context_id)
        built = self._builder.assemble(
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
        await self._repository.evidence(_evidence(asked, built))
        await self._keep(asked, seen, surfaced, built)
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
            await self._keep_denial(asked, seen, known, refused)
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

    async def _keep(
        self,
        asked: Asked,
        seen: Seen | None,
        surfaced: Surfaced,
        built: Built,
    ) -> None:
        """Stores the surface if it is new, the whole context, and the session's two halves."""
        if seen is None:
            return
        entry, names = self._repository.entry, asked.names
        new = self._new_surface(asked, seen, surfaced)
        base, tags = surfaced.over or new, surfaced.tags | surfaced.dialogue_tags
        whole = entry(
            names.whole, built.payload, tags, seen, context_hash=built.context_hash, surface=base
        )
        memory = None
        if built.memory is not None and asked.scope.has_session:
            name = keys.memory_name(asked.scope)
            memory = entry(name, built.memory.encode(), tags, seen, surface=base)
        session = self._repository.session_write(
            asked.effective, asked.scope, built.context_hash, memory
        )
        entries = [one for one in (new, whole) if one is not None]
        await self._repository.keep(seen, entries, session, asked.scope)

    async def _keep_denial(
        self, asked: Asked, seen: Seen | None, known: Surfaced | None, refused: access.Denied
    ) -> None:
        """Stores a denial in the place of the whole context, and the surface if it is new.

        The session keeps nothing of it, and there is no evidence: nothing was told. Nor will it
        be told when they fall, since what is hidden may change and what is missing does not.
        """
        if seen is None:
            return
        new = self._new_surface(asked, seen, known, quiet=True) if known is not None else None
        whole = self._repository.entry(
            asked.names.whole,
            denied(refused.kind, refused.id),
            refused.tags,
            seen,
            surface=(known.over if known is not None else None) or new,
            quiet=True,
        )
        entries = [one for one in (new, whole) if one is not None]
        await self._repository.keep(seen, entries, None, asked.scope)

    def _new_surface(
        self, asked: Asked, seen: Seen, surfaced: Surfaced, *, quiet: bool = False
    ) -> NewEntry | None:
        """The surface as it is to be stored; None where it came out of the cache."""
        if surfaced.over is not None:
            return None
        return self._repository.entry(
            asked.names.surface,
            surfaced.surface.payload,
            surfaced.tags,
            seen,
            passing=surfaced.passing,
            until=surfaced.until,
            quiet=quiet,
        )


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


def _evidence(asked: Asked, built: Built) -> SnapshotRecord:
    at = asked.effective.at
    return SnapshotRecord(
        context_id=built.context_id,
        context_hash=built.context_hash,
        workspace_id=at.workspace_id,
        user_id=at.user_id,
        scope_key=asked.scope.key,
        source=built.source,
        summary=built.summary,
        context=answered(built.payload, built.source, 0)[1],
        compression=built.compression,
        operator_trace=built.operator_trace,
        generated_at=built.generated_at,
        request_id=asked.request_id,
        trace_id=asked.trace_id,
    )
