"""The processes: build worker, invalidation consumer, outbox relay, command line, local stack."""
