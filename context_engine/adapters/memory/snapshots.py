"""Evidence in memory."""

from __future__ import annotations

from context_engine.ports import SnapshotRecord


class MemorySnapshots:
    """Keeps every snapshot for as long as the process lives."""

    def __init__(self) -> None:
        self.records: dict[str, SnapshotRecord] = {}
        """By context id, oldest first."""

    async def save(self, record: SnapshotRecord) -> None:
        self.records[record.context_id] = record

    async def get(self, context_id: str) -> SnapshotRecord | None:
        return self.records.get(context_id)
