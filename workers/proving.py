"""The consumer's half of liveness: heartbeats become the proof that changes are applied.

A partition is proven under one reign of the store. Where that is new, marks that the deposed
primary acknowledged may be gone while entries on its successor are not: the partition is read
again, as far back as an entry may live, and only what comes after that proves anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Protocol

import structlog

from context_engine import keys
from context_engine.errors import Unavailable
from context_engine.liveness import Liveness
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


class Prover:
    """Renews the proof of each partition whose changes this member applies."""

    def __init__(self, store: LivenessStore, source: Rewindable, entry_life: timedelta) -> None:
        """`entry_life`: the longest that anything cached may be served."""
        self._store, self._source = store, source
        self._back_ms = int((entry_life + MARGIN).total_seconds() * 1000)
        self._under: dict[Place, frozenset[Reign]] = {}
        """The reigns under which all of a partition was applied, by this member or before it."""
        self._revocations = 0

    async def hear(self, heard: Sequence[Heard]) -> None:
        """Of heartbeats before which all is applied. Raises `Unavailable`: apply again.

        A heartbeat of another reign than the store's proves nothing; nor does one in a partition
        that has to be read again.
        """
        last = {Place(raw.topic, raw.partition): (raw, beat) for raw, beat in heard}
        if not last:
            return
        if self._source.revocations != self._revocations:
            # Another may have had them meanwhile, one that knows fewer tags perhaps.
            self._revocations = self._source.revocations
            self._under.clear()
        reigns = (await self._store.pulse()).reigns
        told = {
            place: (raw, beat)
            for place, (raw, beat) in last.items()
            if frozenset(beat.reigns) == reigns
        }
        await self._inherit([place for place in told if place not in self._under])
        behind = {p: raw for p, (raw, _) in told.items() if self._under.get(p) != reigns}
        if behind:
            log.info("store has a new reign; reading changes again", partitions=len(behind))
            back = {
                (p.topic, p.partition): raw.timestamp - self._back_ms for p, raw in behind.items()
            }
            await self._source.rewind(back)
            self._under.update(dict.fromkeys(behind, reigns))
        beats = [_beat(p, raw, beat) for p, (raw, beat) in told.items() if p not in behind]
        await self._store.renew(beats, keys.VOCABULARY)

    async def _inherit(self, places: Sequence[Place]) -> None:
        """What the members before this one proved of `places`, if the store still has it."""
        if not places:
            return
        found = await self._store.proofs(places)
        for place, proof in zip(places, found.each, strict=True):
            if proof is not None and proof.vocabulary == keys.VOCABULARY:
                self._under[place] = proof.reigns


def _beat(place: Place, raw: RawMessage, heard: Heartbeat) -> Beat:
    pulse = Pulse(heard.at_ms, frozenset(map(Reign, heard.reigns)))
    return Beat(place, pulse, heard.partitions, raw.offset)
