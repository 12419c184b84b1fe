"""The consumer's half of liveness: heartbeats become the proof that changes are applied.

A partition is proven under one reign of the store. Where that is new, marks that the deposed
primary acknowledged may be gone while entries on its successor are not: the partition is read
again, as far back as an entry may live, and only what comes after that proves anything.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Protocol

import structlog

from context_engine import keys
from context_engine.errors import Unavailable
from context_engine.liveness import LIFE_MS, Liveness
from context_engine.ports import Beat, LivenessStore, Place, Pulse, Reign
from events.messages import Heartbeat
from events.records import RawMessage

log = structlog.get_logger(__name__)

MARGIN = timedelta(seconds=30)
"""Read again beyond the longest life of an entry: for clocks of brokers that differ."""

Heard = tuple[RawMessage, Heartbeat]


async def proven(liveness: Liveness) -> None:
    """For a worker's health. Raises `Unavailable` while caches are bypassed."""
    if await liveness.proven() is None:
        raise Unavailable(
            "liveness",
            "not proven, so caches are bypassed; `context-engine freshness` says where",
        )


class Rewindable(Protocol):
    """What is needed of a consumer."""

    @property
    def revocations(self) -> int: ...

    async def rewind(self, since: Mapping[tuple[str, int], int]) -> None: ...

    def seek(self, topic: str, partition: int, offset: int) -> None: ...


class Prover:
    """Renews the proof of each partition whose changes this member applies."""

    def __init__(self, store: LivenessStore, source: Rewindable, entry_life: timedelta) -> None:
        """`entry_life`: the longest that anything cached may be served."""
        self._store, self._source = store, source
        self._back_ms = int((entry_life + MARGIN).total_seconds() * 1000)
        self._under: dict[Place, frozenset[Reign]] = {}
        """The reigns under which all of a partition was applied, by this member or before it."""
        self._began: dict[Place, int] = {}
        """The first offset that this member read of a partition."""
        self._read: dict[Place, int] = {}
        """The last; all between the two was read, in this order."""
        self._marked: dict[Place, set[Reign]] = {}
        """The reigns under which it marked what it read there."""
        self._unsettled: frozenset[Reign] = frozenset()
        """Reigns of which it was told that they are not settled."""
        self._revocations = 0
        self._proved: dict[Place, Beat] = {}
        """The last of each partition that this member proved."""
        self._batch: Sequence[RawMessage] = ()
        self._sent_back: set[Place] = set()
        """Partitions that are to be read again, of which this batch proves nothing more."""

    def note(self, batch: Sequence[RawMessage], marks: Sequence[tuple[RawMessage, Reign]]) -> None:
        """What was read, and under whom the changes in it were marked. Before `hear` of it."""
        if self._source.revocations != self._revocations:
            # Another may have had them meanwhile, one that knows fewer tags perhaps.
            self._revocations = self._source.revocations
            self._under.clear()
            self._began.clear()
            self._read.clear()
            self._marked.clear()
            self._proved.clear()
        if batch is not self._batch:  # else it is applied again, and nothing else was read since
            self._batch = batch
            self._sent_back.clear()
        for raw in batch:
            place = Place(raw.topic, raw.partition)
            self._began[place] = min(raw.offset, self._began.get(place, raw.offset))
            self._read[place] = raw.offset
        for raw, reign in marks:
            self._marked.setdefault(Place(raw.topic, raw.partition), set()).add(reign)

    async def hear(self, heard: Sequence[Heard]) -> None:
        """Of heartbeats before which all is applied. Raises `Unavailable`: apply again.

        A heartbeat of another reign than the store's proves nothing; nor does one from before that
        was settled, when the server it deposed may have taken changes still; nor one in a
        partition that has to be read again.
        """
        last = {Place(raw.topic, raw.partition): (raw, beat) for raw, beat in heard}
        if not last:
            return
        pulse = await self._store.pulse()
        reigns = pulse.reigns
        told = {
            place: (raw, beat)
            for place, (raw, beat) in last.items()
            if frozenset(beat.reigns) == reigns and beat.at_ms >= pulse.settled_ms
        }
        self._tell(pulse)
        if not await self._database_known(told.values(), pulse):
            return
        await self._inherit([p for p in told if p not in self._under], reigns)
        behind = {p: raw for p, (raw, _) in told.items() if not self._applied_under(p, reigns)}
        if behind:
            log.info("store has a new reign; reading changes again", partitions=len(behind))
            back = {
                (p.topic, p.partition): raw.timestamp - self._back_ms for p, raw in behind.items()
            }
            await self._source.rewind(back)
            for place in behind:
                self._begin_anew(place, reigns)
        beats = [_beat(p, raw, beat) for p, (raw, beat) in told.items() if p not in self._sent_back]
        await self._store.renew(beats, keys.VOCABULARY)
        self._proved.update((beat.place, beat) for beat in beats)

    async def leave(self, finished: Mapping[tuple[str, int], int]) -> None:
        """Of a clean stop: all below these offsets is applied, told and committed. What lies behind
        the last heartbeats need not be read again by the next member. Raises `Unavailable`."""
        if self._source.revocations != self._revocations:
            return  # nobody knows any more whose they are
        # As the record at a beat's offset, the last that was finished is one that was applied: who
        # comes next goes on behind it. Where a partition is being read again, what was finished
        # the first time lies beyond what was read since, and is not known to be applied.
        last = {Place(*place): offset - 1 for place, offset in finished.items()}
        beats = [
            replace(beat, offset=last[place])
            for place, beat in self._proved.items()
            if beat.offset < last.get(place, -1) <= self._read.get(place, -1)
            and self._applied_under(place, beat.pulse.reigns)
        ]
        if not beats:
            return
        reigns = (await self._store.pulse()).reigns
        stand = [beat for beat in beats if beat.pulse.reigns == reigns]
        await self._store.renew(stand, keys.VOCABULARY)

    async def _database_known(self, told: Collection[Heard], pulse: Pulse) -> bool:
        """Whether all in the store is of the database's timeline, by the latest heartbeat; where
        it was not it ends: what was read of another database may never have been. Heartbeats that
        prove nothing any more, of who lags or reads again, tell of the database before, perhaps."""
        count = [one for one in told if one[1].at_ms + LIFE_MS > pulse.at_ms]
        latest = max(count, key=lambda one: one[1].at_ms, default=None)
        timeline = latest[1].timeline if latest is not None else None
        if timeline is None or timeline == pulse.timeline:
            return True
        if pulse.timeline is None:
            log.info("store does not know the database yet; everything cached ends")
        else:
            log.warning("database was failed over; everything cached ends", timeline=timeline)
        return await self._store.begin(timeline) == pulse.reigns

    def _tell(self, pulse: Pulse) -> None:
        """Once for each reign that is not settled yet."""
        if pulse.at_ms < pulse.settled_ms and pulse.reigns != self._unsettled:
            self._unsettled = pulse.reigns
            seconds = round((pulse.settled_ms - pulse.at_ms) / 1000, 1)
            log.warning(
                "store was failed over; waiting until the other is cut off", seconds=seconds
            )

    def _applied_under(self, place: Place, reigns: frozenset[Reign]) -> bool:
        return self._under.get(place) == reigns and self._marked.get(place, set()) <= reigns

    def _begin_anew(self, place: Place, reigns: frozenset[Reign]) -> None:
        self._under[place] = reigns
        self._sent_back.add(place)
        self._began.pop(place, None)
        self._read.pop(place, None)
        self._marked.pop(place, None)
        self._proved.pop(place, None)

    async def _inherit(self, places: Sequence[Place], reigns: frozenset[Reign]) -> None:
        """What the members before this one proved of `places`, if the store still has it.

        What lies between that and what this member read was committed, but marked under another
        reign perhaps: it is read again.
        """
        if not places:
            return
        found = await self._store.proofs(places)
        for place, proof in zip(places, found.each, strict=True):
            if proof is None or proof.vocabulary != keys.VOCABULARY:
                continue
            self._under[place] = proof.reigns
            # The record at `applied` is a heartbeat, or one that its member finished.
            if proof.reigns == reigns and self._began.get(place, 0) > proof.applied + 1:
                self._go_back(place, proof.applied + 1, reigns)

    def _go_back(self, place: Place, offset: int, reigns: frozenset[Reign]) -> None:
        try:
            self._source.seek(place.topic, place.partition, offset)
        except Unavailable:
            log.warning("partition moved before it was read again; its new owner does it")
        self._begin_anew(place, reigns)


def _beat(place: Place, raw: RawMessage, heard: Heartbeat) -> Beat:
    pulse = Pulse(heard.at_ms, frozenset(map(Reign, heard.reigns)))
    return Beat(place, pulse, heard.partitions, raw.offset)
