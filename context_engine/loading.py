"""A workspace to be loaded whole: what an importer makes of a file, whatever the file's format.

Ids are final, references hold, cells are as the database keeps them. A loader writes it in one
transaction and checks nothing again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple, Protocol

from pydantic import JsonValue

from context_engine.models.base import JsonObject


@dataclass(frozen=True, slots=True)
class NewTable:
    id: str
    name: str
    position: int


@dataclass(frozen=True, slots=True)
class NewField:
    id: str
    table_id: str
    name: str
    type: str
    primary: bool
    position: int
    options: JsonObject
    linked_table_id: str | None = None
    linked_field_id: str | None = None
    cardinality: Literal["one", "many"] = "many"
    reads: tuple[tuple[str, str], ...] | None = ()
    """(table, field) of all that a computed field is made of at first hand; None where nobody can
    tell, and then nobody sees it."""


@dataclass(frozen=True, slots=True)
class NewView:
    id: str
    table_id: str
    name: str
    type: str
    ownership: str
    owner_email: str | None
    """Whose a personal view is, if a user here has this address."""
    position: int
    filter: JsonValue
    hidden: tuple[str, ...]
    field_order: tuple[str, ...]
    sorts: Sequence[JsonValue]
    options: JsonObject


class NewRow(NamedTuple):
    """A record. Who made and changed it is known by e-mail address, if at all."""

    id: str
    table_id: str
    cells: str
    """The cells by field id, as JSON text."""
    created_by: str | None
    updated_by: str | None
    created_at: datetime | None
    updated_at: datetime | None


class NewLink(NamedTuple):
    field_id: str
    from_record_id: str
    to_record_id: str


@dataclass(frozen=True, slots=True)
class Gap:
    """Something of the file that has no counterpart here, by table and field or view."""

    table: str
    field: str | None
    view: str | None
    what: str
    cells: int | None = None
    """How many cells, links or rows it concerns; None for what is not counted."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How much of everything a workspace has."""

    tables: int
    fields: int
    views: int
    rows: int
    links: int

    def as_json(self) -> dict[str, int]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class NewWorkspace:
    """Everything of a workspace but its people and their rights."""

    id: str
    name: str
    tables: Sequence[NewTable]
    fields: Sequence[NewField]
    views: Sequence[NewView]
    rows: Sequence[NewRow]
    links: Sequence[NewLink]
    gaps: tuple[Gap, ...] = field(default=())

    @property
    def counts(self) -> Counts:
        return Counts(
            tables=len(self.tables),
            fields=len(self.fields),
            views=len(self.views),
            rows=len(self.rows),
            links=len(self.links),
        )


class Progress(Protocol):
    """Told as the work goes on: the step's name, how much of it is done, and how much it is."""

    def __call__(self, step: str, done: int, of: int, /) -> None: ...


def silent(step: str, done: int, of: int, /) -> None:
    """Progress that nobody looks at."""
