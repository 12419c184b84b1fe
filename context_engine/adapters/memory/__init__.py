"""The ports in memory: for tests and for trying things out; they pass the same suite."""

from context_engine.adapters.memory.cache import MemoryCache
from context_engine.adapters.memory.snapshots import MemorySnapshots

__all__ = ["MemoryCache", "MemorySnapshots"]
