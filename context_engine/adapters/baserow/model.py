"""The schema of an exported workspace: databases, tables and fields, checked to hold together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from context_engine.adapters.baserow.source import AGAIN, At, distinct
from context_engine.loading import Gap

ID_PREFIX_CHARS = 120
"""Longest workspace id here: what is made of it stays a valid id."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field as exported. Numbers are the file's ids."""

    id: int
    table: int
    type: str
    name: str
    primary: bool
    order: int
    at: At
    link_table: int | None = None
    link_back: int | None = None
    through: int | None = None
    target: int | None = None
    choices: Mapping[int, str] = field(default_factory=dict)
    """Text of each select option by its id; texts of one field are distinct."""


@dataclass(frozen=True, slots=True)
class Table:
    id: int
    name: str
    at: At
    fields: tuple[Field, ...]
    """In table order, the primary field first."""


@dataclass(frozen=True, slots=True)
class Schema:
    """Every table, and every field by id; `prefix` is what ids are made unique with."""

    prefix: str
    tables: tuple[Table, ...]
    fields: Mapping[int, Field]
    gaps: list[Gap]

    def table(self, id: int) -> str:
        return f"{self.prefix}-t{id}"

    def field(self, id: int) -> str:
        return f"{self.prefix}-f{id}"

    def view(self, id: int) -> str:
        return f"{self.prefix}-v{id}"

    def row(self, table: int, id: int) -> str:
        return f"{self.prefix}-t{table}-r{id}"

    def primary(self, table: int) -> Field:
        return next(one for one in self.tables if one.id == table).fields[0]

    def gap(
        self,
        table: Table,
        what: str,
        *,
        field: Field | None = None,
        view: str | None = None,
        cells: int | None = None,
    ) -> None:
        """Notes something of the file that has no counterpart here."""
        self.gaps.append(Gap(table.name, field.name if field else None, view, what, cells))


def read_schema(top: At, prefix: str) -> Schema:
    """The schema of the file. Raises `BrokenFile`."""
    gaps: list[Gap] = []
    tables: list[Table] = []
    seen_tables: set[int] = set()
    seen_fields: set[int] = set()
    seen_options: set[int] = set()
    databases = 0
    for application in top.objects("export"):
        if application.text("type") != "database":
            name = application.text("name")
            gaps.append(Gap(name, None, None, f"a {application.text('type')}, which is no tables"))
            continue
        databases += 1
        ordered = sorted(
            application.objects("tables"), key=lambda at: (at.number("order"), at.number("id"))
        )
        for at in ordered:
            id = distinct(seen_tables, at, "table")
            found = [
                _field(one, id, seen_fields, seen_options, gaps, at) for one in at.objects("fields")
            ]
            found.sort(key=lambda f: (not f.primary, f.order, f.id))
            if [f.primary for f in found].count(True) != 1:
                raise at.broken("fields", f"one field should be primary; {AGAIN}")
            tables.append(Table(id, at.text("name"), at, tuple(found)))
    if not databases:
        raise top.broken("export", f"has no database; {AGAIN}")
    schema = Schema(prefix, tuple(tables), {f.id: f for t in tables for f in t.fields}, gaps)
    for one in schema.fields.values():
        if one.link_table is not None and one.link_table not in seen_tables:
            raise _nowhere(one, "link_row_table_id", f"table {one.link_table}")
    for one in schema.fields.values():
        _check_ends(one, schema)
    return schema


def _field(
    at: At, table: int, seen: set[int], seen_options: set[int], gaps: list[Gap], of: At
) -> Field:
    type = at.text("type")
    link = type == "link_row"
    over = type in ("lookup", "rollup", "count")
    return Field(
        id=distinct(seen, at, "field"),
        table=table,
        type=type,
        name=at.text("name"),
        primary=at.flag("primary"),
        order=at.number("order"),
        at=at,
        link_table=at.number("link_row_table_id") if link else None,
        link_back=at.optional_number("link_row_related_field_id") if link else None,
        through=at.number("through_field_id") if over else None,
        target=at.number("target_field_id") if over and type != "count" else None,
        choices=_choices(at, seen_options, gaps, of) if "select_options" in at.raw else {},
    )


def _choices(at: At, seen: set[int], gaps: list[Gap], of: At) -> dict[int, str]:
    """Texts by option id. Two options of one text are told apart by a number, and reported."""
    texts: dict[int, str] = {}
    taken: set[str] = set()
    for option in at.objects("select_options"):
        id, text = distinct(seen, option, "select option"), option.text("value")
        if text in taken:
            while text in taken:
                text = f"{text} ({id})"
            what = f"two options of one text: the second is {text!r} here"
            gaps.append(Gap(of.text("name"), at.text("name"), None, what))
        texts[id] = text
        taken.add(text)
    return texts


def _check_ends(field: Field, schema: Schema) -> None:
    """A link has its other side, and a computed field the fields that it is made of."""
    if field.link_table is not None:
        back = schema.fields.get(field.link_back) if field.link_back is not None else None
        if field.link_back is not None and (
            back is None or (back.table, back.link_table) != (field.link_table, field.table)
        ):
            raise _nowhere(field, "link_row_related_field_id", f"link field {field.link_back}")
    if field.through is not None:
        through = schema.fields.get(field.through)
        if through is None or through.link_table is None or through.table != field.table:
            raise _nowhere(field, "through_field_id", f"link field {field.through}")
        target = schema.fields.get(field.target) if field.target is not None else None
        if field.target is not None and (target is None or target.table != through.link_table):
            raise _nowhere(field, "target_field_id", f"field {field.target}")


def _nowhere(field: Field, name: str, what: str) -> Exception:
    return field.at.broken(name, f"leads nowhere: there is no {what}; {AGAIN}")
