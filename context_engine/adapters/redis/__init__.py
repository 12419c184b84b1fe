"""Cache, sessions and marks in Redis or Valkey."""

from context_engine.adapters.redis.cache import RedisCache

__all__ = ["RedisCache"]
