"""Evidence in the product's own database: `Snapshots` in two statements."""

from __future__ import annotations

from pydantic import TypeAdapter

from context_engine.ports import SnapshotRecord
from examples.own_product.database import Database

_record: TypeAdapter[SnapshotRecord] = TypeAdapter(SnapshotRecord)


class SqliteSnapshots:
    """`Snapshots` on SQLite. Saving the same context twice keeps the first."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def save(self, record: SnapshotRecord) -> None:
        """Raises `Unavailable`: an answer whose evidence cannot be kept is not given."""
        async with self._database.writing() as db:
            await db.execute(
                "INSERT OR IGNORE INTO snapshots VALUES (?, ?, ?)",
                record.context_id,
                record.generated_at.isoformat(),
                _record.dump_json(record).decode(),
            )

    async def get(self, context_id: str) -> SnapshotRecord | None:
        """One snapshot, or None."""
        async with self._database.reading() as db:
            row = await db.one("SELECT record FROM snapshots WHERE context_id = ?", context_id)
        return _record.validate_json(row["record"]) if row is not None else None
