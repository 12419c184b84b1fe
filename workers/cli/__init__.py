"""The command line: `context-engine …`. Heavy imports stay inside the command that needs them."""

from workers.cli.main import app, main

__all__ = ["app", "main"]
