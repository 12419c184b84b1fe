"""`LivenessStore` in memory: the proofs beside the marks of one `MemoryCache`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from context_engine.liveness import COUNTED_SECONDS, LIFE_MS, SPANS
from context_engine.ports import Beat, Place, Proof, Proofs, Pulse, Reign, Tally


@dataclass(slots=True)
class _Kept:
    beat: Beat
    """The one that was heard last, which says what is applied."""
    vocabulary: str
    ends_ms: int


class MemoryLiveness:
    """Under the clock and the reign of its cache."""

    def __init__(
        self,
        reign: Callable[[], Reign],
        now: Callable[[], int],
        forget: Callable[[], Awaitable[frozenset[Reign]]],
        max_lag_ms: int = 0,
    ) -> None:
        """`max_lag_ms`: how long another reign than the first is not settled."""
        self._reign, self._now, self._max_lag_ms = reign, now, max_lag_ms
        self._forget = forget
        self._timeline: str | None = None
        self._first = reign()
        self._noted: tuple[Reign, int] | None = None
        """Who reigns, and since when that is known."""
        self._kept: dict[Place, _Kept] = {}
        self._counted: list[tuple[int, Tally]] = []
        """Numbers of spans, and what was answered in them."""

    def flush(self) -> None:
        """Loses everything."""
        self._kept.clear()
        self._counted.clear()
        self._noted = self._timeline = None

    async def pulse(self) -> Pulse:
        reigns, settled = frozenset({self._reign()}), self._settled_ms()
        return Pulse(self._now(), reigns, settled, self._timeline)

    async def begin(self, timeline: str) -> frozenset[Reign]:
        reigns = await self._forget()
        self._timeline = timeline
        return reigns

    def _settled_ms(self) -> int:
        if self._reign() == self._first:
            return 0
        if self._noted is None or self._noted[0] != self._reign():
            self._noted = self._reign(), self._now()
        return self._noted[1] + self._max_lag_ms

    def settles_in(self) -> int:
        """How many ms longer another server, which this one deposed, may answer."""
        return max(0, self._settled_ms() - self._now())

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
            kept.ends_ms - self._now(),
        )

    async def count(self, tally: Tally) -> None:
        self._counted = [*self._lately(), (self._span(), tally)]

    async def counted(self) -> Tally:
        lately = [tally for _, tally in self._lately()]
        return Tally(sum(one.answers for one in lately), sum(one.bypasses for one in lately))

    def _lately(self) -> list[tuple[int, Tally]]:
        return [one for one in self._counted if one[0] > self._span() - SPANS]

    def _span(self) -> int:
        return self._now() * SPANS // (COUNTED_SECONDS * 1000)
