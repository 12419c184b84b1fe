"""One id of the suite, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from events.records import Position

Kind = Literal["answered", "refused", "dead"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One answer, announcement or dead letter."""

    kind: Kind
    at_ms: int
    """When it was sent, by its record."""
    came: float
    code: str = ""
    retryable: bool = False


@dataclass(slots=True)
class Sent:
    """One id: a request, a change or a poison."""

    id: str
    asked: float
    expects: Mapping[str, Any] = field(default_factory=dict)
    """What the context of the answer must say, by dotted path: nobody else's will do."""
    place: Position | None = None
    """Where the broker put it; None until then, and where nobody knows."""
    ours: bool = True
    """Sent by the suite itself, whose producer may send a record again; else by the relay."""
    copies: int = 0
    """How often it was seen on its topic."""
    outcomes: list[Outcome] = field(default_factory=list)

    def has(self, kind: Kind) -> bool:
        return any(one.kind == kind for one in self.outcomes)

    @property
    def seconds(self) -> float | None:
        """Until its first outcome."""
        return self.outcomes[0].came - self.asked if self.outcomes else None

    @property
    def duplicates(self) -> int:
        """Answers, and dead letters, beyond one of each for every record."""
        dead = sum(one.kind == "dead" for one in self.outcomes)
        due = max(1, self.copies) if self.ours else 1
        return max(0, dead - due) + max(0, len(self.outcomes) - dead - due)
