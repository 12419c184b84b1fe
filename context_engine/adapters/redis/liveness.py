"""`LivenessStore` in Redis or Valkey: one key for each partition, gone when its proof ends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from context_engine import keys
from context_engine.adapters.redis import packs
from context_engine.adapters.redis.batch import Command, Reply
from context_engine.liveness import COUNTED_SECONDS, LIFE_MS, SPANS
from context_engine.ports import Beat, Place, Proof, Proofs, Pulse, Reign, Tally

COUNTED_MS: Final = 2_000
"""A primary counts its replicas once a second, and their lag in whole seconds."""


class RedisLiveness:
    """The proofs beside the marks of one primary."""

    def __init__(
        self,
        ask: Callable[[Command], Awaitable[Reply]],
        forget: Callable[[], Awaitable[frozenset[Reign]]],
        max_lag_seconds: float,
    ) -> None:
        """`forget`: as `ContextCache.forget_everything`. `max_lag_seconds`: as
        `Settings.redis_max_lag_seconds`."""
        self._ask, self._forget = ask, forget
        self._lag_ms = int(max_lag_seconds * 1000) + COUNTED_MS
        self._known: tuple[Reign, int] | None = None
        """The last reign, and the earliest time known at which it was settled."""
        self._settled: Reign | None = None

    async def pulse(self) -> Pulse:
        names = keys.reign_name(), keys.timeline_name()
        server, now, settles, timeline = await self._ask(
            packs.call("pulse", names, (self._lag_ms,))
        )
        reign = Reign(server.decode())
        if self._known is not None and self._known[0] == reign:
            settles = min(settles, self._known[1])  # the store may have lost its note
        self._known = reign, settles
        if settles <= now:
            self._settled = reign
        return Pulse(now, frozenset({reign}), settles, timeline and timeline.decode())

    async def begin(self, timeline: str) -> frozenset[Reign]:
        reigns = await self._forget()
        if len(reigns) == 1:
            await self._ask(packs.call("begin", (keys.timeline_name(),), (timeline, *reigns)))
        return reigns

    async def settles_in(self, reign: Reign) -> int:
        """How many ms longer a primary that `reign` deposed may answer; 0: none does.

        At least one where another reigns by now: what was done under `reign` may be gone.
        """
        if reign == self._settled:
            return 0
        pulse = await self.pulse()
        if reign not in pulse.reigns:
            return 1
        return max(0, pulse.settled_ms - pulse.at_ms)

    async def renew(self, beats: Sequence[Beat], vocabulary: str) -> None:
        if not beats:
            return
        args: list[str | bytes | int] = [LIFE_MS]
        for beat in beats:
            reigns = " ".join(sorted(beat.pulse.reigns))
            rest = f"{vocabulary}\n{beat.partitions}"
            args += (_field(beat.place), beat.pulse.at_ms, reigns, beat.offset, rest)
        await self._ask(packs.call("renew", _names([beat.place for beat in beats]), args))

    async def proofs(self, places: Sequence[Place]) -> Proofs:
        command = packs.call("proofs", _names(places), [_field(place) for place in places])
        server, *each = await self._ask(command)
        return Proofs(frozenset({Reign(server.decode())}), [_proof(*one) for one in each])

    async def count(self, tally: Tally) -> None:
        await self._tally(tally)

    async def counted(self) -> Tally:
        return await self._tally(Tally())

    async def _tally(self, more: Tally) -> Tally:
        args = (COUNTED_SECONDS * 1000 // SPANS, SPANS, more.answers, more.bypasses)
        answers, bypasses = await self._ask(packs.call("tally", (keys.tally_name(),), args))
        return Tally(answers, bypasses)


def _names(places: Sequence[Place]) -> list[str]:
    live = (keys.live_name(place.topic, place.partition) for place in places)
    return [keys.applied_name(), *live]


def _field(place: Place) -> str:
    return f"{place.topic}:{place.partition}"


def _proof(stored: bytes | None, left_ms: int) -> Proof | None:
    """A proof as it was stored; None also for what is none of ours."""
    if stored is None:
        return None
    try:
        reigns, applied, vocabulary, partitions = stored.decode().split("\n")
        return Proof(
            frozenset(map(Reign, reigns.split(" "))),
            int(applied),
            vocabulary,
            int(partitions),
            left_ms,
        )
    except ValueError:
        return None
