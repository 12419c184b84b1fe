"""One run of `resolve`: what it reads, and what it notes on the way."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from context_engine import keys, policy
from context_engine.access.visible import Denial
from context_engine.facts import Facts
from context_engine.keys import Coordinates, Tag
from context_engine.models.context import Unresolved


@dataclass(slots=True)
class Run:
    """The question, and all that its answer depends on beside what is in sight."""

    facts: Facts
    at: Coordinates
    now: datetime
    tags: set[Tag] = field(init=False)
    dialogue_tags: set[Tag] = field(default_factory=set, init=False)
    denials: list[Denial] = field(default_factory=list, init=False)
    missing: list[Unresolved] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.tags = {
            keys.EVERYTHING,
            keys.WORKSPACE,
            keys.access(self.at.user_id),
            keys.user(self.at.user_id),
            keys.teams_of(self.at.user_id),
        }

    def operands(self) -> policy.UserOperands:
        """What conditions may say of the user."""
        user = self.facts.user
        return policy.UserOperands(
            id=self.at.user_id,
            email_norm=user.email_norm if user else None,
            team_ids=self.facts.team_ids,
        )

    def tag_reads(self, table_id: str, pred: policy.Pred) -> None:
        """Tags of the cells that a condition over a table's rows reads."""
        refs = policy.refs_read(pred)
        self.tags.update(keys.value(table_id, ref.partition(":")[2]) for ref in refs)
        if refs:
            self.tags.add(keys.any_value(table_id))

    def deny(self, what: str, rule: str) -> None:
        self.denials.append(Denial(what=what, rule=rule))

    def absent(
        self,
        kind: Literal["view", "project", "task", "team", "organization", "workflow"],
        id: str,
    ) -> None:
        """Notes a coordinate out of sight; what follows is `settle`'s to say."""
        self.deny(f"{kind} {id}", "missing or out of sight")
        self.missing.append(Unresolved(coordinate=f"{kind}Id", id=id))
