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
    """The proofs on one primary, for the marks of all."""

    def __init__(
        self,
        ask: Callable[[Command], Awaitable[Reply]],
        beside: Callable[[Command], Awaitable[Sequence[Reply]]],
        forget: Callable[[], Awaitable[frozenset[Reign]]],
        max_lag_seconds: float,
    ) -> None:
        """`ask`: the primary of a command's key. `beside`: those of a cluster, all of them.
        `forget`: as `ContextCache.forget_everything`. `max_lag_seconds`: as
        `Settings.redis_max_lag_seconds`."""
        self._ask, self._beside, self._forget = ask, beside, forget
        self._lag_ms = int(max_lag_seconds * 1000) + COUNTED_MS
        self._known: tuple[frozenset[Reign], int] = frozenset(), 0
        """The last reigns, and the earliest time known at which they were settled."""
        self._settled: frozenset[Reign] = frozenset()

    async def pulse(self) -> Pulse:
        """The time is that of the primary that keeps the proofs, and notes first sights of all."""
        others = await self._beside(packs.call("pulse", (), ()))
        lately = [other for other, _, first in others if not first]
        server, now, settles, timeline = await self._sight(lately)
        reigns = frozenset(Reign(one.decode()) for one in (server, *(o[0] for o in others)))
        if reigns == self._known[0]:
            settles = min(settles, self._known[1])  # the store may have lost its note
        self._known = reigns, settles
        if settles <= now:
            self._settled |= reigns
        return Pulse(now, reigns, settles, timeline and timeline.decode())

    async def begin(self, timeline: str) -> frozenset[Reign]:
        before = (await self.pulse()).reigns
        reigns = await self._forget()
        if reigns == before:
            await self._ask(packs.call("begin", (keys.timeline_name(),), (timeline, *reigns)))
        return reigns

    async def settles_in(self, reign: Reign, name: str) -> int:
        """How many ms longer a primary that `reign` deposed may answer; 0: none does.

        At least one where the primary that has `name` is of another reign by now: what was done
        under `reign` may be gone. The others of a cluster are not asked: they may be away.
        """
        if reign in self._settled:
            return 0
        server, _, first = await self._ask(packs.call("pulse", (name,), ()))
        if server.decode() != reign:
            return 1
        if not first:
            _, now, settles, _ = await self._sight([server])
            if now < settles:
                return int(settles - now)
        self._settled |= {reign}
        return 0

    async def _sight(self, reigns: Sequence[bytes]) -> Reply:
        """Since when `reigns` are known, where that is noted."""
        names = keys.reign_name(), keys.timeline_name()
        return await self._ask(packs.call("sight", names, (self._lag_ms, *reigns)))

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
