"""What the engine needs from outside, each port as small as its use.

Adapters for PostgreSQL, Redis and memory are in `context_engine.adapters`; one suite of tests
(`tests/contracts`) holds for all of them.
"""

from context_engine.ports.cache import (
    ContextCache,
    Entry,
    Epoch,
    Evicted,
    Look,
    Marked,
    Moment,
    NewEntry,
    Reign,
    Seen,
    SessionRecord,
    SessionWrite,
)
from context_engine.ports.domain import Counts, Domain, DomainReads
from context_engine.ports.evidence import (
    SUMMARY_START,
    Clock,
    SnapshotLine,
    SnapshotRecord,
    Snapshots,
)
from context_engine.ports.liveness import (
    Beat,
    LivenessStore,
    Place,
    Proof,
    Proofs,
    Pulse,
    Tally,
)
from context_engine.ports.outbox import OutboxBatch, OutboxRow, OutboxSource, Unpublished

__all__ = [
    "SUMMARY_START",
    "Beat",
    "Clock",
    "ContextCache",
    "Counts",
    "Domain",
    "DomainReads",
    "Entry",
    "Epoch",
    "Evicted",
    "LivenessStore",
    "Look",
    "Marked",
    "Moment",
    "NewEntry",
    "OutboxBatch",
    "OutboxRow",
    "OutboxSource",
    "Place",
    "Proof",
    "Proofs",
    "Pulse",
    "Reign",
    "Seen",
    "SessionRecord",
    "SessionWrite",
    "SnapshotLine",
    "SnapshotRecord",
    "Snapshots",
    "Tally",
    "Unpublished",
]
