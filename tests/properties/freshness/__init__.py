"""The whole house taken step by step: writers, builders, relays, a heart, a consumer, a store."""
