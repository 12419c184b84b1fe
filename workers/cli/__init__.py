"""The command line: `context-engine …`. Heavy imports stay inside the command that needs them."""

from __future__ import annotations

import sys

from workers.signals import leave_at_once

__all__ = ["main"]


def main() -> None:
    """Entry point of the console script."""
    if sys.argv[1:2] == ["worker"]:
        leave_at_once()
    from workers.cli.main import main as command

    command()
