"""Cache, sessions and marks in Redis or Valkey."""
