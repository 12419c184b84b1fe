"""Every metric of the workers: name, kind, labels, and who exports it.

Labels are few and bounded: outcomes, layers, reasons, parts, topics and their partitions; never a
tenant, a user, a session or a table. Names end with their unit, counters with `_total`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["counter", "gauge", "histogram"]

BUILD, INVALIDATE, RELAY, AUDIT = (("build",), ("invalidate",), ("relay",), ("audit",))
WORKERS: Final = BUILD + INVALIDATE + RELAY
ALL: Final = WORKERS + AUDIT


@dataclass(frozen=True, slots=True)
class Family:
    """One metric. `of`: the workers that export it."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    of: tuple[str, ...] = ALL


BUILD_INFO = Family(
    "context_engine_build_info", "gauge", "1, for the version that runs.", ("worker", "version")
)
READY = Family(
    "context_engine_ready",
    "gauge",
    "1 for each check of /readyz that passes, 0 for one that fails or is noted.",
    ("check",),
)
STILL = Family(
    "context_engine_without_progress_seconds",
    "gauge",
    "How long work has waited and none was finished, or a loop has not turned: at"
    " CONTEXT_STALL_SECONDS the worker leaves. Idle, it stays below half of that.",
    ("work",),
    WORKERS,
)
SENT = Family(
    "context_engine_records_sent_total",
    "counter",
    "Records that the broker has acknowledged: replies, announcements, dead letters, changes.",
    ("topic",),
    WORKERS,
)
UNSENT = Family(
    "context_engine_records_refused_total",
    "counter",
    "Records that their topic did not take: too large, or no such topic or partition.",
    ("topic",),
    WORKERS,
)
DEAD = Family(
    "context_engine_dead_letters_total",
    "counter",
    "Messages that could not be handled and were put aside, by the topic that they came on and the"
    " class of the error.",
    ("topic", "reason"),
    BUILD + INVALIDATE,
)

REQUESTS = Family(
    "context_engine_requests_total",
    "counter",
    "Requests answered: by `cache`, `surface` or `build`, or with the code of an error;"
    " `unanswered`: no request id could be read.",
    ("outcome",),
    BUILD,
)
REQUEST_SECONDS = Family(
    "context_engine_request_seconds",
    "histogram",
    "From taking a request to having its answer, which is sent then.",
    ("outcome",),
    BUILD,
)
IN_FLIGHT = Family(
    "context_engine_requests_in_flight",
    "gauge",
    "Requests that were taken and are not answered yet.",
    of=BUILD,
)
WAITING = Family(
    "context_engine_requests_waiting",
    "gauge",
    "Requests at the broker, in this worker's partitions, or fetched and not taken yet.",
    of=BUILD,
)
READS = Family(
    "context_engine_cache_reads_total",
    "counter",
    "What was looked for in the cache: the `whole` context, else its `surface`; and the `session`.",
    ("layer", "result"),
    BUILD,
)
BYPASSES = Family(
    "context_engine_bypasses_total",
    "counter",
    "Requests answered past the cache: changes `unproven` to be applied, an `other_server` than"
    " the proof's, `store_away`, or `asked` for by `fresh`.",
    ("reason",),
    BUILD,
)

CHANGES = Family(
    "context_engine_change_records_total",
    "counter",
    "Records of the change topics that were applied and committed, heartbeats included.",
    of=INVALIDATE,
)
CHANGES_IN_FLIGHT = Family(
    "context_engine_changes_in_flight",
    "gauge",
    "Records that were read and are not committed yet.",
    of=INVALIDATE,
)
EVICTIONS = Family(
    "context_engine_evictions_total",
    "counter",
    "Cached contexts that were unlinked because a change made them untrue.",
    of=INVALIDATE,
)
SESSIONS_ENDED = Family(
    "context_engine_sessions_ended_total",
    "counter",
    "Sessions removed because a membership or a workspace ended.",
    of=INVALIDATE,
)
LAG = Family(
    "context_engine_change_lag_records",
    "gauge",
    "Records of a partition that are not committed, heartbeats included. Every consumer tells it"
    " of every partition: take the maximum.",
    ("topic", "partition"),
    INVALIDATE,
)
OLDEST = Family(
    "context_engine_change_oldest_seconds",
    "gauge",
    "Age of the first record that is not committed; 0 where there is none.",
    ("topic", "partition"),
    INVALIDATE,
)
PROVEN = Family(
    "context_engine_changes_proven",
    "gauge",
    "1 where all changes of a partition are proven to be applied, else 0: caches are bypassed.",
    ("topic", "partition"),
    INVALIDATE,
)

OUTBOX_OLDEST = Family(
    "context_engine_outbox_oldest_seconds",
    "gauge",
    "Age of the oldest change that was committed and is not published; 0 where there is none.",
    of=RELAY,
)

AUDIT_SERVED = Family(
    "context_engine_audit_served_total",
    "counter",
    "Contexts that the audit saw being served.",
    of=AUDIT,
)
AUDITED = Family(
    "context_engine_audited_total",
    "counter",
    "Samples that were built again: `same`, a difference that is `explained` by a change or"
    " `unexplained`; `skipped`: the request was not seen.",
    ("result",),
    AUDIT,
)

FAMILIES: Final = (
    BUILD_INFO, READY, STILL, SENT, UNSENT, DEAD,
    REQUESTS, REQUEST_SECONDS, IN_FLIGHT, WAITING, READS, BYPASSES,
    CHANGES, CHANGES_IN_FLIGHT, EVICTIONS, SESSIONS_ENDED, LAG, OLDEST, PROVEN,
    OUTBOX_OLDEST,
    AUDIT_SERVED, AUDITED,
)  # fmt: skip
