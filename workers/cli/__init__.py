"""The command line: `context-engine …`. Heavy imports stay inside the command that needs them."""

from __future__ import annotations

import logging
import sys

from workers.cli.guard import guarded
from workers.signals import leave_at_once

__all__ = ["main"]


def main() -> None:
    """Entry point of the console script."""
    if sys.argv[1:2] == ["worker"]:
        leave_at_once()
    else:
        _quiet()
    guarded(_command)


def _command() -> None:
    from workers.cli.main import main as command

    command()


def _quiet() -> None:
    """A client's complaints stay out of a person's terminal: its errors are told, once, as ours."""
    for name in ("aiokafka", "events.closing"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
