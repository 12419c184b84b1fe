"""Entry points of a product that ask the engine for context before their agents reason."""
