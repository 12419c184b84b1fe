"""The operators' trace of a snapshot: which rules denied, and from which versions it was made.

What a context over a cached surface was denied, the build that read the surface has written down:
its snapshot is looked up too. For operators; no part of this goes to an agent.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import JsonValue

from context_engine.errors import InvalidRequest
from context_engine.models.base import JsonObject
from context_engine.ports import SnapshotRecord


@dataclass(frozen=True, slots=True)
class Denied:
    """`rule` kept `what` out of sight; `read_by` is the context id of the build that saw it."""

    what: str
    rule: str
    read_by: str

    @property
    def kind(self) -> str:
        """`table`, `rows`, `view`, `conversation` and so on."""
        return self.what.partition(" ")[0]


def object_of(stored: object, context_id: str, part: str) -> JsonObject:
    """What evidence keeps as a JSON object. Raises `InvalidRequest`, naming the context."""
    if not isinstance(stored, dict):
        raise InvalidRequest(f"the {part} of {context_id} is damaged: no object", field="CONTEXT")
    return stored


def versions_of(record: SnapshotRecord) -> JsonObject:
    """From which versions a context was made, as far as its evidence says.

    `build`: of the code; `clock`: of the workspace, what the build may know at most; `surfaceOf`:
    the context whose build read the cached surface. Raises `InvalidRequest` for a damaged trace.
    """
    found = object_of(record.operator_trace, record.context_id, "operator trace").get("versions")
    return found if isinstance(found, dict) else {}


def surface_of(record: SnapshotRecord) -> str | None:
    """Context id of the build that read this one's surface; None where it read all itself."""
    found = versions_of(record).get("surfaceOf")
    return found if isinstance(found, str) else None


def denied(record: SnapshotRecord, surface: SnapshotRecord | None = None) -> tuple[Denied, ...]:
    """Each rule that denied, once; `surface`: the evidence that `surface_of` names.

    Raises `InvalidRequest` for a damaged trace: it must not read as one without denials.
    """
    found: dict[tuple[str, str], Denied] = {}
    for one in (record, surface):
        for denial in _denials(one):
            found.setdefault((denial.what, denial.rule), denial)
    return tuple(found.values())


def _denials(record: SnapshotRecord | None) -> list[Denied]:
    if record is None:
        return []
    trace = object_of(record.operator_trace, record.context_id, "operator trace")
    found: JsonValue = trace.get("denials")
    return [
        Denied(str(one.get("what", "")), str(one.get("rule", "")), record.context_id)
        for one in (found if isinstance(found, list) else ())
        if isinstance(one, dict)
    ]
