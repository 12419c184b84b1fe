"""How fresh the house is: for each partition of the change topics what waits and what is proven."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Literal

from context_engine import keys
from context_engine.liveness import left_of
from context_engine.ports import LivenessStore, Proof, Proofs, Reign, Tally
from context_engine.settings import Settings
from events.backlog import Backlog, Waiting
from events.topics import Topics

Why = Literal["ended", "another reign", "other tags", "never proven"]
"""Why a partition is not live; docs/freshness.md."""


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition of a change topic."""

    topic: str
    partition: int
    lag: int
    """Records that its consumer has not applied, heartbeats included."""
    oldest_ms: int | None
    """Age of the first of them."""
    applied: int | None
    """Below this offset all is proven applied."""
    live_ms: int | None
    """How much longer it is live, without another heartbeat; less than 0: since when it is not.
    None where nobody knows since when."""
    why: Why | None
    """Why it is not live."""

    @property
    def live(self) -> bool:
        return self.why is None


@dataclass(frozen=True, slots=True)
class Freshness:
    """One look."""

    partitions: tuple[Partition, ...]
    tally: Tally
    """What all build workers answered within the last minute."""

    @property
    def live(self) -> bool:
        """Whether caches may be read."""
        return all(one.live for one in self.partitions)

    @property
    def bypass_rate(self) -> float | None:
        """Of all answers; None without any."""
        return self.tally.bypasses / self.tally.answers if self.tally.answers else None


def backlog_of(settings: Settings) -> AbstractAsyncContextManager[Backlog]:
    """The invalidation consumer's, of the topics that the settings name."""
    topics = Topics.of(settings).changes()
    return Backlog(
        settings.kafka_bootstrap,
        settings.invalidation_group,
        [topic.name for topic in topics],
        max_bytes=max(topic.max_message_bytes for topic in topics),
    )


async def look(backlog: Backlog, store: LivenessStore) -> Freshness:
    """Asks the broker, then the store. Raises `Unavailable`."""
    waiting = await backlog.look()
    proofs = await store.proofs([one.place for one in waiting])
    reigns = (await store.pulse()).reigns
    return Freshness(tuple(_partitions(waiting, proofs, reigns)), await store.counted())


def _partitions(
    waiting: list[Waiting], proofs: Proofs, reigns: frozenset[Reign]
) -> Iterator[Partition]:
    for one, proof in zip(waiting, proofs.each, strict=True):
        why = _why_not(proof, reigns)
        judged = proof is not None and why in (None, "ended")
        yield Partition(
            one.place.topic,
            one.place.partition,
            one.records,
            one.oldest_ms,
            proof.applied if proof is not None else None,
            proof.left_ms if proof is not None and judged else None,
            why,
        )


def _why_not(proof: Proof | None, reigns: frozenset[Reign]) -> Why | None:
    """By the same judgement as a worker's, of every primary: where that of a cluster's is amiss,
    only what lies there is not read."""
    if left_of(proof, reigns) > 0:
        return None
    if proof is None:
        return "never proven"
    if not reigns <= proof.reigns:
        return "another reign"
    if proof.vocabulary != keys.VOCABULARY:
        return "other tags"
    return "ended"
