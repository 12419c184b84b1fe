"""One run of `resolve`: what it reads, and what it notes on the way."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from context_engine import keys, policy
from context_engine.access.visible import Denial
from context_engine.facts import Facts, TableFacts
from context_engine.keys import Coordinates, Tag
from context_engine.models.context import Unresolved


@dataclass(slots=True)
class Run:
    """The question, and all that its answer depends on beside what is in sight.

    `tags` is everything that can change the answer; `told` those of them that may leave the
    engine. What is out of sight tells nothing: for its id, the same as if it were missing.
    """

    facts: Facts
    at: Coordinates
    now: datetime
    tags: set[Tag] = field(init=False)
    told: set[Tag] = field(init=False)
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
        self.told = set(self.tags)

    def operands(self) -> policy.UserOperands:
        """What conditions may say of the user."""
        user = self.facts.user
        return policy.UserOperands(
            id=self.at.user_id,
            email_norm=user.email_norm if user else None,
            team_ids=self.facts.team_ids,
            timezone=user.timezone if user else None,
            now=self.now,
        )

    def resolved(self, pred: policy.Pred, table: TableFacts) -> policy.Pred:
        """`pred` over rows of `table`. Raises `policy.Unresolvable`.

        What lookups, days and linked rows depend on is not told here yet, so they are not decided.
        """
        dated = policy.until(pred, self.operands()) is not None
        if dated or policy.attributes(pred) or next(policy.links(pred), None) is not None:
            raise policy.Unresolvable("what is not of this row")
        fields = {field.id: field for field in table.fields}
        if (gone := policy.lacking(pred, {table.id: fields}.get, table.id)) is not None:
            raise policy.Unresolvable(f"missing {gone}")
        return policy.resolve(pred, self.operands())

    def tell(self, tags: Iterable[Tag]) -> None:
        """Depends on `tags`, and may say so."""
        found = set(tags)
        self.tags |= found
        self.told |= found

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


def reads_of(table_id: str, pred: policy.Pred) -> set[Tag]:
    """Tags of the cells that a condition over a table's rows reads."""
    refs = policy.refs_read(pred)
    cells = {keys.value(table_id, ref.partition(":")[2]) for ref in refs}
    return cells | {keys.any_value(table_id)} if refs else cells


def rows_of(table_id: str) -> set[Tag]:
    """Tags of what a count of a table's rows depends on, beside the cells it reads."""
    return {keys.schema(table_id), keys.rows(table_id)}
