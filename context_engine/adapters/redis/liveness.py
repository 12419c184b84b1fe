"""`LivenessStore` in Redis or Valkey: one key for each partition, gone when its proof ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from context_engine import keys
from context_engine.adapters.redis import packs
from context_engine.adapters.redis.batch import Command, Reply
from context_engine.liveness import COUNTED_SECONDS, LIFE_MS, SPANS
from context_engine.ports import Beat, Place, Proof, Proofs, Pulse, Reign, Tally

NOTHING: Final = ("{live}:none",)
"""A key for scripts that touch none: a cluster sends a call where its keys are."""


class RedisLiveness:
    """The proofs on one primary, for the marks of all."""

    def __init__(
        self,
        ask: Callable[[Command], Awaitable[Reply]],
        beside: Callable[[Command], Awaitable[Sequence[Reply]]],
    ) -> None:
        """`ask`: the primary of a command's key. `beside`: those of a cluster, all of them."""
        self._ask, self._beside = ask, beside

    async def pulse(self) -> Pulse:
        """The time is that of the primary that keeps the proofs."""
        (server, now), others = await asyncio.gather(
            self._ask(packs.call("pulse", NOTHING, ())), self._beside(packs.call("pulse", (), ()))
        )
        reigns = (server, *(other for other, _ in others))
        return Pulse(now, frozenset(Reign(one.decode()) for one in reigns))

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
