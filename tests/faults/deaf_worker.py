"""A worker whose client fetches nothing of some partitions, and looks alive in all else.

    python -m tests.faults.deaf_worker NAME FILE

NAME is `build` or `invalidate`. Once FILE is there, no fetch asks for the partitions whose numbers
stand in it; an `all` in it means every one.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from aiokafka.consumer.fetcher import Fetcher

from workers.cli import main


class Without:
    """An assignment in which some partitions are passed over."""

    def __init__(self, assignment: Any, deaf: str) -> None:
        self._assignment = assignment
        numbers = set(deaf.split())
        self.tps = [
            tp for tp in assignment.tps if "all" not in numbers and str(tp.partition) not in numbers
        ]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._assignment, name)


def deafen(file: Path) -> None:
    """From now on, for every client of this process."""
    actions = Fetcher._get_actions_per_node

    def fewer(self: Fetcher, assignment: Any) -> Any:
        if file.exists():
            assignment = Without(assignment, file.read_text())
        return actions(self, assignment)

    Fetcher._get_actions_per_node = fewer


if __name__ == "__main__":
    deafen(Path(sys.argv[2]))
    sys.argv = ["context-engine", "worker", sys.argv[1]]
    main()
