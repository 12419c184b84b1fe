"""Stored rules that cannot be used, told to operators: each once in a process.

What such a rule decides, it denies; nobody who asks is told of it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from context_engine.access import Denial

log = logging.getLogger(__name__)

MOST = 10_000
"""Rules that are remembered as told; then all are told again."""


class Faults:
    """What one process has told of so far."""

    def __init__(self) -> None:
        self._told: set[tuple[str, str]] = set()

    def report(self, workspace_id: str, faults: Iterable[Denial]) -> None:
        """Warns of each rule that was not told of before."""
        for fault in faults:
            key = (workspace_id, fault.what)
            if key in self._told:
                continue
            if len(self._told) >= MOST:
                self._told.clear()
            self._told.add(key)
            log.warning(
                "a stored rule cannot be used, and denies: %(rule)s of workspace %(workspace)s:"
                " %(reason)s",
                {"rule": fault.what, "workspace": workspace_id, "reason": fault.rule},
            )
