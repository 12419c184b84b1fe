"""Whether the cache may be read at all: proof that no change is stuck on its way to the marks.

Marks end what is stale; this says that they were set. A change whose writer died before it
marked comes through outbox, relay, broker and consumer, any of which may stand still, unseen by
the others. So the proof goes the whole way itself: see `ports/liveness.py`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from context_engine import keys
from context_engine.errors import Unavailable
from context_engine.ports import LivenessStore, Place, Proof, Proofs, Reign

LIFE_MS: Final = 3_000
"""How long after its pulse a beat proves that nothing waits."""

COUNTED_SECONDS: Final = 60
"""How long it is remembered how many answers there were, and how many bypasses."""

SPANS: Final = 6
"""Parts of that time, forgotten one by one."""

LOOK_SECONDS: Final = 0.25
"""How old the last look at the proofs may be."""

ROUNDS: Final = 3
"""Looks at once while topics turn out to have other partitions than was thought."""


@dataclass(frozen=True, slots=True)
class Proven:
    """What a cached answer may rest on now."""

    reigns: frozenset[Reign] | None
    """Those of the proof; None: not proven but taken for granted."""
    applied: Mapping[Place, int] = field(default_factory=dict)
    """For each partition, the offset below which all is applied."""

    def covers(self, reign: Reign) -> bool:
        """Whether the server of this reign may be believed: its marks are those of the proof."""
        return self.reigns is None or reign in self.reigns


class Liveness(Protocol):
    """What the engine asks before it reads the cache."""

    async def proven(self) -> Proven | None:
        """None: something may wait unapplied, so nothing cached is to be read."""


class Assumed:
    """Takes every change for applied: for who has nothing that could send beats.

    Then a change whose writer died between commit and mark stays unseen for up to the cache's
    TTL, and one that came through a topic only until its consumer has read it.
    """

    async def proven(self) -> Proven:
        return Proven(None)


class Lookout:
    """Looks at the proofs of every partition, at most once in `LOOK_SECONDS`, when it is asked.

    A proof lasts from the *sending* of the look, by this process's monotonic clock: no clock of
    another machine, and no delay of the answer, can make it longer.
    """

    def __init__(
        self,
        store: LivenessStore,
        topics: Sequence[str],
        *,
        vocabulary: str = keys.VOCABULARY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._vocabulary, self._clock = store, vocabulary, clock
        self._partitions = dict.fromkeys(topics, 1)
        self._looked, self._deadline = float("-inf"), float("-inf")
        self._proven: Proven | None = None
        self._looking: asyncio.Task[None] | None = None

    async def proven(self) -> Proven | None:
        """Checked now: call it after a request arrived and before its read is sent."""
        if self._looking is None and self._clock() - self._looked >= LOOK_SECONDS:
            self._looking = asyncio.create_task(self._look(), name="liveness")
        if self._clock() >= self._deadline and self._looking is not None:
            # Whoever stops waiting must not end the look of the others.
            await asyncio.shield(self._looking)
        return self._proven if self._clock() < self._deadline else None

    async def _look(self) -> None:
        try:
            sent, places, found = await self._asked()
            shortest = min(left_of(one, found.reigns, self._vocabulary) for one in found.each)
            pairs = zip(places, found.each, strict=True)
            applied = {place: proof.applied for place, proof in pairs if proof is not None}
            self._proven = Proven(_common(found.each), applied)
            self._deadline = sent + shortest / 1000
        except Unavailable:
            # What was proven stands to its end; the read that relies on it meets the same store.
            pass
        finally:
            self._looked, self._looking = self._clock(), None

    async def _asked(self) -> tuple[float, Sequence[Place], Proofs]:
        """When the look was sent, and what it found in the partitions that there are."""
        for _ in range(ROUNDS):
            places = [Place(t, p) for t, count in self._partitions.items() for p in range(count)]
            sent = self._clock()
            found = await self._store.proofs(places)
            counts = dict(self._partitions)
            for place, proof in zip(places, found.each, strict=True):
                if proof is not None:
                    counts[place.topic] = max(counts[place.topic], proof.partitions)
            if counts == self._partitions:
                return sent, places, found
            self._partitions = counts
        return sent, places, Proofs(found.reigns, [None] * len(places))


def _common(proofs: Sequence[Proof | None]) -> frozenset[Reign]:
    """The reigns under which all of them prove."""
    reigns = [proof.reigns if proof is not None else frozenset[Reign]() for proof in proofs]
    return frozenset.intersection(*reigns)


def left_of(
    proof: Proof | None, reigns: frozenset[Reign], vocabulary: str = keys.VOCABULARY
) -> int:
    """How many milliseconds longer a partition counts as live; 0 or less: it does not.

    `reigns`: of those who answered for it. Whether a proof covers the other primaries of a cluster
    is asked of each answer that comes from one: `Proven.covers`.
    """
    if proof is None or not reigns <= proof.reigns or proof.vocabulary != vocabulary:
        return 0
    return proof.left_ms
