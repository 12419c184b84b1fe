"""`LivenessStore` in memory: the proofs beside the marks of one `MemoryCache`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from context_engine.liveness import LIFE_MS
from context_engine.ports import Beat, Place, Proof, Proofs, Pulse, Reign


@dataclass(slots=True)
class _Kept:
    beat: Beat
    """The one that was heard last, which says what is applied."""
    vocabulary: str
    ends_ms: int


class MemoryLiveness:
    """Under the clock and the reign of its cache."""

    def __init__(self, reign: Callable[[], Reign], now: Callable[[], int]) -> None:
        self._reign, self._now = reign, now
        self._kept: dict[Place, _Kept] = {}

    def flush(self) -> None:
        """Loses everything."""
        self._kept.clear()

    async def pulse(self) -> Pulse:
        return Pulse(self._now(), frozenset({self._reign()}))

    async def renew(self, beats: Sequence[Beat], vocabulary: str) -> None:
        for beat in beats:
            if self._reign() not in beat.pulse.reigns:
                continue
            kept = self._kept.get(beat.place)
            ours = kept is not None and self._reign() in kept.beat.pulse.reigns
            stands = kept.ends_ms if kept is not None and ours else 0
            ends = max(stands, beat.pulse.at_ms + LIFE_MS)
            self._kept[beat.place] = _Kept(beat, vocabulary, ends)

    async def proofs(self, places: Sequence[Place]) -> Proofs:
        return Proofs(frozenset({self._reign()}), [self._proof(place) for place in places])

    def _proof(self, place: Place) -> Proof | None:
        if (kept := self._kept.get(place)) is None:
            return None
        beat = kept.beat
        return Proof(
            beat.pulse.reigns,
            beat.offset,
            kept.vocabulary,
            beat.partitions,
            max(0, kept.ends_ms - self._now()),
        )
