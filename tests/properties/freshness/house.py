"""Everything that is at work over one workspace, each in a process of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, get_args

from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.adapters.memory import MemorySnapshots
from context_engine.adapters.sql.outbox import SqlOutbox
from context_engine.adapters.sql.reads import SqlDomain
from context_engine.adapters.sql.services import DomainServices
from context_engine.builder import Builder, Limits
from context_engine.changes import AnyChange, Kind
from context_engine.engine import Answer, ContextEngine, Options
from context_engine.errors import (
    ContextEngineError,
    NotFound,
    NotYetEnforced,
    Rejected,
    Unavailable,
)
from context_engine.invalidation import Invalidator
from context_engine.liveness import Lookout
from context_engine.models import AgentContext, ContextBuildInput
from context_engine.ports import Marked
from context_engine.repository import ContextRepository, Lifetimes
from context_engine.settings import Settings
from context_engine.tokens import parse
from events.messages import Heartbeat
from events.records import OutgoingRecord, RawMessage
from events.topics import Topics
from tests.properties.freshness.changes import CHANGES
from tests.properties.freshness.steps import Actor, Crowd
from tests.properties.freshness.stores import Store
from tests.properties.freshness.truth import PATIENCE_SECONDS, REFUSED, Commit, Said, Stale, Truth
from tests.properties.freshness.ways import CLOCK, Cache, Outbox, Proving, Rows, Way
from tests.properties.freshness.workspace import Place
from tests.support.pipe import Offsets, Pipe
from tests.support.world import SECRET
from workers.change_applier import ChangeApplier
from workers.change_reader import Poison, read
from workers.consumption import next_offsets
from workers.heartbeat import Heart
from workers.proving import Prover
from workers.relay import Relay

TTL = Lifetimes().cache
TTL_MS = int(TTL.total_seconds() * 1000)
ROLES = ("builder", "other builder", "writer", "heart", "consumer")
MARK_SECONDS = 0.25


class Applying(Invalidator):
    """Says which changes are marked."""

    def __init__(self, cache: Cache, truth: Truth) -> None:
        super().__init__(cache)
        self._truth = truth

    async def mark(self, changes: Sequence[AnyChange]) -> Sequence[Marked]:
        marks = await super().mark(changes)
        self._truth.applied(change.change_id for change in changes)
        return marks


@dataclass
class Asked:
    """A request on its way."""

    place: Place
    builder: int
    actor: Actor[Answer]
    owed: frozenset[int]


@dataclass
class Writing:
    """A write that is committed, and not acknowledged yet."""

    commit: Commit
    actor: Actor[Any]


@dataclass
class House:
    """Two builders, a writer, two relays, a heart and a consumer over one store."""

    database: AsyncEngine
    store: Store
    truth: Truth
    told: Counter[str]
    """What it came to: answers by their source, refusals, commits."""
    crowd: Crowd = field(default_factory=Crowd)
    ways: dict[str, Way] = field(default_factory=lambda: {role: Way() for role in ROLES})
    asked: list[Asked] = field(default_factory=list)
    writing: list[Writing] = field(default_factory=list)
    working: dict[str, Actor[Any]] = field(default_factory=dict)
    """Relays, heart and consumer in the middle of their work."""
    unfinished: list[RawMessage] | None = None
    """The batch that the consumer has to apply once more."""
    passed: Offsets = field(default_factory=dict)
    """Where its position was last found behind what is marked."""

    def __post_init__(self) -> None:
        CLOCK.begin(self.store.monotonic)
        self.settings = Settings(tag_secret=SECRET)
        self.topics = Topics.of(self.settings)
        names = frozenset(topic.name for topic in self.topics.changes())
        self.pipe = Pipe(names, now_ms=self.store.wall_ms)
        self.caches = {role: Cache(self.store.cache(), self.ways[role]) for role in ROLES}
        self.proofs = {
            role: Proving(self.store.liveness(self.caches[role].inner), self.ways[role])
            for role in ROLES
        }
        self.services = DomainServices(
            self.database, self.caches["writer"], enforce_seconds=MARK_SECONDS, ids_as_given=True
        )
        self.outbox = Outbox(SqlOutbox(self.database))
        self.relay = Relay(self.outbox, self.pipe, self.topics)
        self.heart = Heart(
            self.proofs["heart"], self.caches["heart"], self.outbox, self.pipe, self.topics
        )
        self.new_consumer()
        self.engines = [self.engine(role) for role in ROLES[:2]]

    def engine(self, role: str) -> ContextEngine:
        topics = [self.settings.topic_domain_prefix + kind for kind in get_args(Kind)]
        return ContextEngine(
            Rows(SqlDomain(self.database)),
            ContextRepository(self.caches[role], MemorySnapshots(), Lifetimes()),
            Builder(Limits(tag_secret=SECRET)),
            liveness=Lookout(self.proofs[role], topics, clock=self.store.monotonic),
            build_timeout=PATIENCE_SECONDS,
        )

    # -- requests --

    async def ask(
        self,
        place: Place,
        builder: int,
        *,
        freely: bool,
        fresh: bool = False,
        after: tuple[str, ...] = (),
    ) -> Actor[Answer]:
        """A request arrives; it is answered at once where it runs `freely`."""
        owed = self.truth.owed(await self.store.now_ms(), after)
        options = Options(fresh=fresh, after=tuple(map(parse, after)))
        request = ContextBuildInput.model_validate(place.request)
        work = self.engines[builder].build(request, options)
        actor = self.crowd.begin(place.name, work, freely=freely)
        self.asked.append(Asked(place, builder, actor, owed))
        await self.settle()
        return actor

    async def kill_builder(self, builder: int) -> None:
        """With all that it was asked; what it leads nobody gives up for it."""
        way = self.ways[ROLES[builder]]
        before, way.away = way.away, True
        await self.crowd.end([one.actor for one in self.asked if one.builder == builder])
        way.away = before
        self.asked = [one for one in self.asked if one.builder != builder]
        self.engines[builder] = self.engine(ROLES[builder])
        await self.settle()

    # -- writers --

    async def write(self, change: str, n: int, then: str) -> None:
        """A change is committed; its service acknowledges, stands before it marks, or dies."""
        actor = self.crowd.begin(change, self._write(change, n), freely=False)
        await self.crowd.settle()
        commit = await self.truth.look(await self.store.now_ms())
        if commit is None:
            fault = actor.task.exception() if actor.task.done() else None
            if fault is not None and not isinstance(fault, Rejected):
                raise fault
            self.told["refused writes"] += fault is not None
            return await self.settle()
        self.told["commits"] += 1
        self.told["commits that matter"] += commit.matters
        self.writing.append(Writing(commit, actor))
        if then == "dies":
            await self.crowd.end([actor])
        elif then == "acknowledges":
            actor.go(freely=True)
        await self.settle()

    async def _write(self, change: str, n: int) -> Any:
        return await CHANGES[change](self.services, n)

    # -- relays, heart, consumer --

    async def work(self, role: str, *, freely: bool = False) -> None:
        """The next step of one of them, or the first of its next round."""
        if (actor := self.working.get(role)) is not None:
            actor.go(freely=freely)
        else:
            self.working[role] = self.crowd.begin(role, self._round(role), freely=freely)
        await self.settle()

    async def _round(self, role: str) -> None:
        match role:
            case "heart":
                await self.heart.beat()
            case "consumer":
                await self.consume()
            case _:
                await self.relay.publish()

    async def consume(self) -> None:
        batch = self.unfinished or await self.pipe.poll(0.0)
        if batch:
            self.unfinished = batch
            await self.consumer.apply(batch)
            await self.commit(batch)

    async def commit(self, batch: list[RawMessage]) -> None:
        await self.pipe.commit(next_offsets(batch))
        self.unfinished = None

    async def kill(self, role: str) -> None:
        """In the middle of whatever it does; the next one begins where the last one committed."""
        if (actor := self.working.pop(role, None)) is not None:
            await self.crowd.end([actor])
        if role == "consumer":
            self.unfinished = None
            self.pipe.positions.clear()
            self.pipe.positions.update(self.pipe.committed)
            self.new_consumer()

    async def dismiss(self) -> None:
        """The consumer leaves in order, once its batch is done, and says how far it came."""
        await self.work("consumer", freely=True)
        if self.unfinished is None and "consumer" not in self.working:
            with suppress(Unavailable):
                await self.consumer.leave(self.pipe.committed)
        await self.kill("consumer")

    def new_consumer(self) -> None:
        prover = Prover(self.proofs["consumer"], self.pipe, TTL)
        applying = Applying(self.caches["consumer"], self.truth)
        self.consumer = ChangeApplier(applying, prover, self.pipe, self.topics, self.settings)

    async def garbage(self, workspace: str | None) -> None:
        """A message that nobody can read is on a topic."""
        key = workspace.encode() if workspace else None
        await self.pipe.send(OutgoingRecord(sorted(self.pipe.changes)[0], key, b"garbage"))

    async def all_work(self) -> None:
        """Relay, heart and consumer, freely: what is committed is applied, and proven."""
        await self.kill("heart")  # freely it would wait for rows that nobody publishes
        for role in ("relay", "other relay", "consumer"):
            if role in self.working:
                await self.work(role, freely=True)
        for role in ("relay", "heart", "consumer", "consumer"):
            await self.work(role, freely=True)

    # -- what comes of it --

    async def settle(self) -> None:
        """Until nobody moves; then what has ended is judged."""
        await self.crowd.settle()
        self.crowd.all = [one for one in self.crowd.all if not one.task.done()]
        for asked in [one for one in self.asked if one.actor.task.done()]:
            self.asked.remove(asked)
            self._judge(asked)
        for writing in [one for one in self.writing if one.actor.task.done()]:
            self.writing.remove(writing)
            self._acknowledge(writing)
        for role, actor in list(self.working.items()):
            if actor.task.done():
                del self.working[role]
                if (fault := actor.task.exception()) and not isinstance(fault, Unavailable):
                    raise fault
        self._judge_position()

    def _judge_position(self) -> None:
        """It moves only after what it passes is marked."""
        if (position := self.pipe.committed) == self.passed:
            return
        for raw in self.pipe.records:
            begin, end = (of.get((raw.topic, 0), 0) for of in (self.passed, position))
            if begin <= raw.offset < end and raw.topic in self.pipe.changes:
                change = read(raw)
                unread = isinstance(change, Poison | Heartbeat)
                if not unread and change.change_id not in self.truth.marked:
                    raise Stale(f"the position has passed {change.type}, which is not marked")
        self.passed = dict(position)

    def _judge(self, asked: Asked) -> None:
        if asked.actor.task.cancelled():
            return
        try:
            answer = asked.actor.task.result()
        except NotFound:
            self.told[REFUSED] += 1
            return self.truth.judge(asked.place, Said(REFUSED), asked.owed)
        context = AgentContext.model_validate_json(answer.context)
        if context.age_ms >= TTL_MS:
            raise Stale(f"{asked.place.name}: {context.age_ms} ms old")
        bypassed = any("bypassed" in one for one in context.trace.remarks)
        self.told["bypass" if bypassed else answer.source] += 1
        self.truth.judge(asked.place, Said.of(answer), asked.owed)

    def _acknowledge(self, writing: Writing) -> None:
        task, commit = writing.actor.task, writing.commit
        if task.cancelled():
            return
        try:
            results = task.result()
        except NotYetEnforced as late:
            commit.tokens = frozenset(late.after)
            return
        except ContextEngineError:
            return
        written = results if isinstance(results, tuple) else (results,)
        commit.tokens = frozenset(token for one in written for token in one.after)
        commit.owed = commit.owed or all(one.marked for one in written)

    async def end(self) -> None:
        """Whoever still has something to say says it."""
        await self.kill("heart")
        for actor in self.crowd.all:
            actor.go(freely=True)
        try:
            await self.settle()
            if any(one.polls for one in self.crowd.all):
                await self.store.elapse(self.store.lead_ms)
                await self.settle()
        finally:
            await self.crowd.end(list(self.crowd.all))
            await self.outbox.close()
