"""The reference domain, snapshots and outbox in PostgreSQL."""
