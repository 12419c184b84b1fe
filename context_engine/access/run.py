"""One run of `resolve`: what it reads, and what it notes on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Literal, TypeVar, cast

from pydantic import JsonValue, ValidationError

from context_engine import keys, policy
from context_engine.access.visible import Denial
from context_engine.facts import NOWHERE, Facts, FieldFacts, TableFacts
from context_engine.keys import Coordinates, Tag
from context_engine.models.context import Unresolved

T = TypeVar("T")

Cell = tuple[str, str | None]
"""(table, field or system column); None for the table's rows alone."""

Attributes = Mapping[policy.AttrLookup, tuple[JsonValue, ...] | None]
"""What was found for `user.attr`. What is not in it could not be told, and denies; None was not had
in time: what asks for it denies too, but nobody knows what it would have said."""


@dataclass
class Run:
    """The question, and all that its answer depends on beside what is in sight.

    `tags` is everything that can change the answer; `told` those of them that may leave the
    engine. What is out of sight tells nothing: for its id, the same as if it were missing.
    """

    facts: Facts
    at: Coordinates
    now: datetime
    attributes: Attributes = field(default_factory=dict)
    tags: set[Tag] = field(init=False)
    told: set[Tag] = field(init=False)
    until: datetime | None = field(default=None, init=False)
    """When a date that something here depends on turns."""
    denials: list[Denial] = field(default_factory=list, init=False)
    faults: list[Denial] = field(default_factory=list, init=False)
    missing: list[Unresolved] = field(default_factory=list, init=False)
    _noted: set[Cell] = field(default_factory=set, init=False)
    _made: dict[tuple[str, str], object] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.tags = {
            keys.EVERYTHING,
            keys.WORKSPACE,
            keys.access(self.at.user_id),
            keys.user(self.at.user_id),
            keys.teams_of(self.at.user_id),
        }
        self.told = set(self.tags)
        for table in self.facts.tables:
            for one in table.fields:
                if one.reads == NOWHERE:
                    self._unreadable(f"sources of field {one.id} of table {table.id}")
        if self.facts.conversation is not None:
            for message in self.facts.conversation.dialogue.messages:
                if not message.readable:
                    self._unreadable(f"tool call of message {message.id}")

    # -- what is there -----------------------------------------------------------------------

    @cached_property
    def tables(self) -> Mapping[str, TableFacts]:
        return {table.id: table for table in self.facts.tables}

    @cached_property
    def _fields(self) -> dict[str, Mapping[str, FieldFacts]]:
        return {}

    def fields_of(self, table_id: str) -> Mapping[str, FieldFacts] | None:
        """All fields of a table, by id; None for one that is missing."""
        if table_id not in self._fields and (table := self.tables.get(table_id)) is not None:
            self._fields[table_id] = {one.id: one for one in table.fields}
        return self._fields.get(table_id)

    def leads_of(self, table_id: str) -> Mapping[str, str | None]:
        """All fields of a table, by id, each with the table that it links to."""
        return {one.id: one.linked_table_id for one in (self.fields_of(table_id) or {}).values()}

    @cached_property
    def operands(self) -> policy.UserOperands:
        """What conditions may say of the user."""
        user = self.facts.user
        return policy.UserOperands(
            id=self.at.user_id,
            email_norm=user.email_norm if user else None,
            team_ids=self.facts.team_ids,
            timezone=user.timezone if user else None,
            now=self.now,
            attributes={one: said for one, said in self.attributes.items() if said is not None},
        )

    @cached_property
    def late(self) -> frozenset[policy.AttrLookup]:
        """What rules ask of the user that was not had in time."""
        return frozenset(one for one, said in self.attributes.items() if said is None)

    def once(self, what: tuple[str, str], make: Callable[[], T]) -> T:
        """What `make` gives, made the first time: several ways may ask for the same."""
        if what not in self._made:
            self._made[what] = make()
        return cast("T", self._made[what])

    # -- what depends on what ----------------------------------------------------------------

    def read_by(self, pred: policy.Pred, table: TableFacts) -> None:
        """Depends on the cells that a condition over a table's rows reads; of one that follows a
        link to nowhere, which raises `policy.Unresolvable`, on those that it names here."""
        fields = self.fields_of(table.id) or {}

        def target(field_id: str) -> str | None:
            return fields[field_id].linked_table_id if field_id in fields else None

        try:
            self.reads_cells(policy.reads(pred, table.id, target))
        except policy.Unresolvable:
            self.reads_cells((table.id, name) for name in policy.fields_read(pred))
            raise

    def reads_cells(self, reads: Iterable[Cell]) -> None:
        """Depends on these cells."""
        found = set(reads) - self._noted
        self.tags |= cells_of(found)
        self._noted |= found

    @contextmanager
    def noting(self) -> Iterator[set[Cell]]:
        """The cells that the block depends on, once it has ended."""
        outer, self._noted = self._noted, set()
        mine = self._noted
        try:
            yield mine
        finally:
            outer |= mine  # the very set that a block around this one holds
            self._noted = outer

    def turns(self, until: datetime | None) -> None:
        """Nothing made of this outlives `until`."""
        if until is not None:
            self.until = until if self.until is None else min(self.until, until)

    def tell(self, tags: Iterable[Tag]) -> None:
        """Depends on `tags`, and may say so."""
        found = set(tags)
        self.tags |= found
        self.told |= found

    # -- what is refused ---------------------------------------------------------------------

    def deny(self, what: str, rule: str) -> None:
        self.denials.append(Denial(what=what, rule=rule))

    def garbage(self, what: str, fault: Exception) -> None:
        """Something stored that nobody can read: operators are told."""
        self.faults.append(Denial(what=what, rule=_said(fault)))

    def _unreadable(self, what: str) -> None:
        self.faults.append(Denial(what=what, rule="cannot be read"))

    def absent(
        self,
        kind: Literal["view", "project", "task", "team", "organization", "workflow"],
        id: str,
    ) -> None:
        """Notes a coordinate out of sight; what follows is `settle`'s to say."""
        self.deny(f"{kind} {id}", "missing or out of sight")
        self.missing.append(Unresolved(coordinate=f"{kind}Id", id=id))


def _said(fault: Exception) -> str:
    """On one line."""
    if isinstance(fault, ValidationError):
        first = fault.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return str(fault)


@lru_cache(maxsize=4_096)
def rows_of(table_id: str) -> frozenset[Tag]:
    """Tags of what a count of a table's rows depends on, beside the cells it reads."""
    return linked_rows_of(table_id) | {keys.new_rows(table_id)}


@lru_cache(maxsize=4_096)
def linked_rows_of(table_id: str) -> frozenset[Tag]:
    """The same of those rows alone that something leads to, which new ones are not."""
    return frozenset({keys.schema(table_id), keys.rows(table_id)})


def cells_of(reads: Iterable[Cell]) -> set[Tag]:
    """Tags of cells, and of the rows that they are in."""
    found = set(reads)
    tags = {keys.value(table, name) for table, name in found if name is not None}
    tags |= {keys.any_value(table) for table in {t for t, name in found if name is not None}}
    return tags.union(*(rows_of(table) for table in {table for table, _ in found}))
