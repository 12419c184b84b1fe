"""The façade: coordinates in, an answer out. Workers and embedders call `ContextEngine.build`."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from datetime import UTC, datetime
from uuid import uuid4

from context_engine import access, tracing
from context_engine.asked import DEFAULTS, Answer, Asked, Options, flight_name
from context_engine.assembly import assemble
from context_engine.builder import Builder
from context_engine.built import Surfaced
from context_engine.errors import Expired, NotFound, Unavailable
from context_engine.faults import Faults
from context_engine.flights import LEAD_MS, Flight, Flights, pauses
from context_engine.keeping import Keeper
from context_engine.liveness import Liveness
from context_engine.looking import Looked, Looking
from context_engine.models.input import ContextBuildInput
from context_engine.ports import Domain, Seen, Tally
from context_engine.rendering import answered
from context_engine.repository import ContextRepository
from context_engine.turns import Turns

__all__ = ["Answer", "ContextEngine", "Options", "moment_of"]

RETRY_SECONDS = (0.05, 0.1, 0.2, 0.5, 1.0)
"""Waits between attempts while a part is away; the last repeats until the build's bound."""

Ids = tuple[str | None, str | None]
"""Of the request and of its trace."""


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
        turns: Turns | None = None,
        build_timeout: float = 10.0,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._domain, self._repository, self._builder = domain, repository, builder
        self.liveness = liveness
        self._looking = Looking(repository, builder.limits, liveness)
        self._keeper = Keeper(repository)
        self._flights, self._bypasses = Flights[Answer](), asyncio.Semaphore(bypass_builds)
        self._turns, self._build_timeout, self._now = turns, build_timeout, now
        self._answers = 0
        self._past: Counter[str] = Counter()
        self._faults = Faults()

    async def build(
        self,
        request: ContextBuildInput,
        options: Options = DEFAULTS,
        *,
        request_id: str | None = None,
        trace_id: str | None = None,
        until: float = math.inf,
    ) -> Answer:
        """The context of `request`, proven fresh and permitted.

        Raises `NotFound` for what is fatal when out of sight, out of the cache too, `Unavailable`
        when the database or the evidence store stays away for the whole of the build's bound,
        `RateLimited` where its workspace may have no further build, `Expired` where none was
        begun before `until`, by `time.monotonic()`.
        """
        arrived, ids, bypass = time.monotonic(), (request_id, trace_id), False
        if self._turns is not None:
            self._turns.asked(request.workspace_id)
        flight = self._joined(request, options, ids, bypass, until)
        if flight.read_at is not None and await self.liveness.proven() is None:
            # What is proven only later may answer who arrives later: this request is built for.
            bypass = True
            flight = self._joined(request, options, ids, bypass, until)
        try:
            await flight.ended()
            while not flight.serves(arrived):
                flight = self._joined(request, options, ids, bypass, until)
                await flight.ended()
            return flight.answer()
        finally:
            self._answers += 1
            if flight.past is not None:
                self._past[flight.past] += 1

    @property
    def tally(self) -> Tally:
        """What it answered since it was made."""
        return Tally(self._answers, self._past["unproven"] + self._past["other_server"])

    @property
    def past_the_cache(self) -> Mapping[str, int]:
        """How many of these were answered past the cache, by `looking.Past`."""
        return self._past

    def _joined(
        self,
        request: ContextBuildInput,
        options: Options,
        ids: Ids,
        bypass: bool,
        until: float,
    ) -> Flight[Answer]:
        """The flight of its like, which begins here if there is none. Raises `RateLimited`."""
        # Made anew each time: a thousand that wait would keep a thousand names.
        name = flight_name(request, options)
        if bypass:
            name = (name, "past the cache")
        flight = self._flights.under_way(name)
        if flight is None:
            asked = self._looking.asked(request, options, *ids)
            flight = self._flights.begin(name, lambda flight: self._fly(flight, asked, bypass))
        elif self._turns is not None:
            self._turns.board(request.workspace_id, flight)
        flight.until = max(flight.until, until)
        return flight

    async def _fly(self, flight: Flight[Answer], asked: Asked, bypass: bool) -> Answer:
        """Looks, as long as another process leads again and again, and builds what is not there."""
        if bypass:
            asked.remarks.bypass()
        flight.read_at = began = time.monotonic()
        look = await self._looking.first(asked)
        for pause in pauses():
            flight.past = look.past
            if not look.led or time.monotonic() - began >= LEAD_MS / 1000:
                break
            await asyncio.sleep(pause)
            flight.read_at = time.monotonic()
            look = await self._looking.again(look.asked)
        return look.whole or await self._led(look, flight)

    async def _led(self, look: Looked, flight: Flight[Answer]) -> Answer:
        """Builds; where nothing was stored in the end, others need not wait for it."""
        try:
            return await self._within_bound(look.asked, look.seen, flight)
        except BaseException:
            if look.seen is not None and look.seen.leads:
                await self._repository.release(look.asked.names)
            raise

    async def _within_bound(
        self, asked: Asked, seen: Seen | None, flight: Flight[Answer]
    ) -> Answer:
        """Builds, and while a part is away tries again until the bound.

        The clock of the first look serves every attempt: an older clock proves less, never more.
        """
        last: Unavailable | None = None
        try:
            async with asyncio.timeout(self._build_timeout), self._turn(asked, flight):
                if time.monotonic() > flight.until:
                    raise Expired
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

    @asynccontextmanager
    async def _turn(self, asked: Asked, flight: Flight[Answer]) -> AsyncIterator[None]:
        """A turn among its workspace's builds. Those in place of the whole cache come a few at a
        time beside that: the database must survive, and no workspace takes all of them."""
        turns = self._turns.of(asked.scope.workspace_id, flight) if self._turns else nullcontext()
        async with turns, self._bypasses if asked.remarks.bypassed else nullcontext():
            yield

    async def _build(self, asked: Asked, seen: Seen | None) -> Answer:
        with tracing.span("build"):
            return await self._built(asked, seen)

    async def _built(self, asked: Asked, seen: Seen | None) -> Answer:
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


def moment_of(ms: int) -> datetime:
    """A reading of the store's clock, in milliseconds since 1970, as a time."""
    return datetime.fromtimestamp(ms / 1000, UTC)
