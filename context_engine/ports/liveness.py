"""Liveness: the proof, renewed all the time, that every change up to now was applied.

A relay takes a `Pulse`, waits until all that was committed before it is published, and sends it
behind those changes through every partition of the change topics. The consumer that has applied
what stood before it renews that partition's proof. Readers need the proof of every partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from context_engine.ports.cache import Reign


@dataclass(frozen=True, slots=True)
class Pulse:
    """The store's time, milliseconds since 1970, and who reigned when it was read."""

    at_ms: int
    reigns: frozenset[Reign]
    """Of every primary: one, but for a cluster."""
    settled_ms: int = 0
    """The store's time from which on no primary that was deposed by these answers any more, as if
    nothing had happened: until then a mark is not acknowledged, and a beat not used."""
    timeline: str | None = None
    """The database's that was begun last."""


@dataclass(frozen=True, slots=True)
class Place:
    """A partition of a change topic."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Beat:
    """A pulse as it arrived in a partition: what stood before it there is applied."""

    place: Place
    pulse: Pulse
    partitions: int
    """How many the topic has, as its sender saw it."""
    offset: int
    """Of the next record: every one below it is applied."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What a partition's last beats proved."""

    reigns: frozenset[Reign]
    """Under whom everything below `applied` was marked."""
    applied: int
    """The offset of the first record that is not proven applied."""
    vocabulary: str
    """The version of the tags that its consumer marks."""
    partitions: int
    left_ms: int
    """How long it still proves that nothing waits; less than 0: how long ago that ended."""


@dataclass(frozen=True, slots=True)
class Proofs:
    """One look at the proofs of several partitions."""

    reigns: frozenset[Reign]
    """Who reigned where they are kept, as they were read."""
    each: Sequence[Proof | None]
    """In the order asked for; None where nothing was ever proven, or that was lost."""


@dataclass(frozen=True, slots=True)
class Tally:
    """How many requests were answered, refusals included, and how many of them past the cache."""

    answers: int = 0
    bypasses: int = 0

    def __sub__(self, earlier: Tally) -> Tally:
        return Tally(self.answers - earlier.answers, self.bypasses - earlier.bypasses)


class LivenessStore(Protocol):
    """Where the proofs are kept: beside the marks. Every method raises `Unavailable`."""

    async def pulse(self) -> Pulse:
        """The store's time and its reigns, read together.

        The store remembers when a reign was first seen, by whoever saw it.
        """

    async def begin(self, timeline: str) -> frozenset[Reign]:
        """The database was failed over: ends everything, as `ContextCache.forget_everything`, and
        notes the timeline where that is."""

    async def renew(self, beats: Sequence[Beat], vocabulary: str) -> None:
        """Proves for each beat's partition that all is applied until `LIFE_MS` after its pulse.

        A beat of another reign than the one that answers proves nothing, nor does an older one
        than stands already.
        """

    async def proofs(self, places: Sequence[Place]) -> Proofs:
        """The proofs of `places`, in one round trip to the primary."""

    async def count(self, tally: Tally) -> None:
        """Adds what a process answered since it last said; forgotten after `COUNTED_SECONDS`."""

    async def counted(self) -> Tally:
        """What all processes together answered within the last `COUNTED_SECONDS`."""
