"""Decisions of before, by all that was decided on.

Facts are read anew for every build, and most often say what they said the last time: records and
clocks have moved, rights have not. What `decide` makes of them is frozen and depends on nothing
else, so equal facts have the decision that was made of them. A decision ends with the first day
that it depends on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256

from context_engine import keys
from context_engine.access.run import Run
from context_engine.access.visible import VisibleScope
from context_engine.facts import ReadTables
from context_engine.used_last import UsedLast

MOST_TABLES = 512
"""Tables of all decisions that are kept, at some 25 to 40 kB each: those used last."""
VALUE_CHARS = 10_000
"""Characters of what rules found of the user that weigh as much as a table: they stand in the
decision, and once more in the statement of its counts."""


@dataclass(frozen=True, slots=True)
class _Decision:
    scope: VisibleScope
    since: datetime
    until: datetime | None

    def holds_at(self, now: datetime) -> bool:
        return self.since <= now and (self.until is None or now < self.until)


class Decisions:
    """As many as `MOST_TABLES` allows."""

    def __init__(self) -> None:
        self._kept = UsedLast[_Decision]()

    def of(self, run: Run, decide: Callable[[], VisibleScope]) -> VisibleScope:
        """What `decide` makes of `run`, which nothing has been noted in. What it raises is raised
        anew each time."""
        key = _all_of(run)
        if key is None:
            return decide()
        kept = self._kept.get(key)
        if kept is not None and kept.holds_at(run.now):
            return kept.scope
        scope = decide()
        made = _Decision(scope, run.now, run.until)
        self._kept.keep(key, made, _weight(run), most=MOST_TABLES)
        return scope

    def forget(self) -> None:
        """All of them: what comes next is decided anew."""
        self._kept.forget()


def _weight(run: Run) -> int:
    """In tables, one for what is decided beside them."""
    tables = run.facts.tables
    found = sum(len(repr(values)) for values in run.attributes.values())
    told = tables.weight if isinstance(tables, ReadTables) else len(tables)
    return told + found // VALUE_CHARS + 1


def _all_of(run: Run) -> str | None:
    """Everything that `run` decides on but the time; None for facts that JSON does not spell. JSON
    and `repr` tell 1 from 1.0 and true, which are equal to Python."""
    tables = run.facts.tables
    told, left_out = "", {"now"}
    if isinstance(tables, ReadTables):  # the text that told them tells such values apart too
        told, left_out = tables.digest, {"now", "tables"}
    try:
        spelled = run.facts.model_dump_json(exclude=left_out).encode()
    except ValueError:  # half a character, or nested too deep: garbage, which is told where it is
        return None
    found = sorted((repr(lookup), repr(values)) for lookup, values in run.attributes.items())
    facts = sha256(spelled).hexdigest()
    return keys.digest(facts, told, repr(run.at), found)


DECISIONS = Decisions()
"""Those of this process."""
