"""The ports in memory: for tests and for trying things out; they pass the same suite."""
