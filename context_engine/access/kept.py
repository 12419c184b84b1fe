"""Decisions of before, by all that was decided on.

Facts are read anew for every build, and most often say what they said the last time: records and
clocks have moved, rights have not. What `decide` makes of them is frozen and depends on nothing
else, so equal facts have the decision that was made of them. A decision ends with the first day
that it depends on.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from threading import Lock

from context_engine import keys
from context_engine.access.run import Run
from context_engine.access.visible import VisibleScope

MOST_TABLES = 512
"""Tables of all decisions that are kept, at some 25 to 40 kB each: those used last."""


@dataclass(frozen=True, slots=True)
class _Decision:
    scope: VisibleScope
    tables: int
    since: datetime
    until: datetime | None

    def holds_at(self, now: datetime) -> bool:
        return self.since <= now and (self.until is None or now < self.until)


class Decisions:
    """As many as `MOST_TABLES` allows."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, _Decision] = OrderedDict()
        self._tables = 0
        self._lock = Lock()  # for whoever runs an engine in each of several threads

    def of(self, run: Run, decide: Callable[[], VisibleScope]) -> VisibleScope:
        """What `decide` makes of `run`, which nothing has been noted in. What it raises is raised
        anew each time."""
        key = _all_of(run)
        if key is None:
            return decide()
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None and kept.holds_at(run.now):
                self._kept.move_to_end(key)
                return kept.scope
        scope = decide()
        with self._lock:
            self._forget(key)
            self._kept[key] = made = _Decision(scope, len(run.facts.tables) + 1, run.now, run.until)
            self._tables += made.tables
            while self._tables > MOST_TABLES:
                self._forget(next(iter(self._kept)))
        return scope

    def forget(self) -> None:
        """All of them: what comes next is decided anew."""
        with self._lock:
            self._kept.clear()
            self._tables = 0

    def _forget(self, key: str) -> None:
        if (gone := self._kept.pop(key, None)) is not None:
            self._tables -= gone.tables


def _all_of(run: Run) -> str | None:
    """Everything that `run` decides on but the time; None for facts that JSON does not spell. JSON
    and `repr` tell 1 from 1.0 and true, which are equal to Python."""
    try:
        spelled = run.facts.model_dump_json(exclude={"now"}).encode()
    except ValueError:  # half a character, or nested too deep: garbage, which is told where it is
        return None
    found = sorted((repr(lookup), repr(values)) for lookup, values in run.attributes.items())
    facts = sha256(spelled).hexdigest()
    return keys.digest(facts, repr(run.at), found)


DECISIONS = Decisions()
"""Those of this process."""
