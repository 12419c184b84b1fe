"""What a field's value is made of, when a view's filter or a computed field asks for it.

A value is a cell, a column that the product keeps, or something computed over links: a count, a
lookup, a rollup. It names everything that it reads, so that what it depends on can be told, and
what no longer exists found, without a second look at the schema.

    value  := {"cell": f, "kind": k} | {"system": c} | {"rowId": true} | {"needs": what}
            | {"count": step} | {"lookup": {step, value}} | {"rollup": {step, function, value}}
    step   := {"field": link field, "table": the table that it leads to}
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, assert_never

from pydantic import model_validator

from context_engine.models.base import Id
from context_engine.policy import Node

Kind = Literal["text", "number", "boolean", "date", "time", "id"]
"""What is compared: `date` is YYYY-MM-DD, `time` ISO text in UTC, `id` a record's."""

Function = Literal["min", "max", "sum", "avg", "any", "every"]

Missing = Literal["formula", "file", "field"]
"""What a value would need that is not here: a formula's result, a file's bytes, a field that is
gone or of a type that is not known."""


class Stored(Node):
    """A cell. A value of another JSON type than its kind is as none."""

    cell: Id
    kind: Kind


class System(Node):
    """A column of the record itself, as a time."""

    system: Literal["created_at", "updated_at"]


class RowId(Node):
    """The id of the record: what a row goes by whose name a formula makes."""

    row_id: Literal[True]


class Needs(Node):
    """A value that cannot be computed here."""

    needs: Missing


class Step(Node):
    """One step along a link field, to the live records on its other side."""

    field: Id
    table: Id


class Count(Node):
    """How many records the link leads to."""

    count: Step


class Each(Node):
    step: Step
    value: Value


class Lookup(Node):
    """The value of every linked record, as a list; lists in it are joined to one."""

    lookup: Each


class Rolled(Node):
    """`sum` and `avg` are of numbers, `any` and `every` of booleans, the others of the rest."""

    step: Step
    value: Value
    function: Function

    @model_validator(mode="after")
    def _fits(self) -> Rolled:
        if not function_fits(self.function, kind_of(self.value)):
            raise ValueError(f"no {self.function} of this kind of value; use another function")
        return self


class Rollup(Node):
    """One value out of those of the linked records."""

    rollup: Rolled


Value = Stored | System | RowId | Needs | Count | Lookup | Rollup

for _model in (Each, Rolled, Lookup, Rollup):
    _model.model_rebuild()


def kind_of(value: Value) -> Kind:
    """What the value, or each item of it, is compared as."""
    match value:
        case Stored(kind=kind):
            return kind
        case System():
            return "time"
        case RowId() | Needs():
            return "id"
        case Count():
            return "number"
        case Lookup(lookup=each):
            return kind_of(each.value)
        case Rollup(rollup=rolled):
            match rolled.function:
                case "min" | "max":
                    return kind_of(rolled.value)
                case "sum" | "avg":
                    return "number"
                case "any" | "every":
                    return "boolean"
                case _:
                    assert_never(rolled.function)
        case _:
            assert_never(value)


def function_fits(function: Function, kind: Kind) -> bool:
    """Whether a rollup by `function` is defined over values of `kind`."""
    match function:
        case "min" | "max":
            return kind != "boolean"
        case "sum" | "avg":
            return kind == "number"
        case "any" | "every":
            return kind == "boolean"
        case _:
            assert_never(function)


def is_list(value: Value) -> bool:
    return isinstance(value, Lookup)


def missing(value: Value) -> Missing | None:
    """What the value lacks, anywhere in its chain; None for one that can be computed."""
    return next((one.needs for one in chain(value) if isinstance(one, Needs)), None)


def chain(value: Value) -> Iterator[Value]:
    """The value and all that it is made of, outermost first."""
    yield value
    match value:
        case Lookup(lookup=Each(value=inner)) | Rollup(rollup=Rolled(value=inner)):
            yield from chain(inner)
        case _:
            return


def refs_read(value: Value, table_id: str) -> Iterator[tuple[str, str]]:
    """Every (table, field or system column) that the value of a record of `table_id` reads."""
    match value:
        case Stored(cell=field):
            yield table_id, field
        case System(system=column):
            yield table_id, column
        case RowId() | Needs():
            return
        case Count(count=step):
            yield table_id, step.field
        case Lookup(lookup=Each(step=step, value=inner)):
            yield table_id, step.field
            yield from refs_read(inner, step.table)
        case Rollup(rollup=Rolled(step=step, value=inner)):
            yield table_id, step.field
            yield from refs_read(inner, step.table)
        case _:
            assert_never(value)


def steps_taken(value: Value, table_id: str) -> Iterator[tuple[str, str, str]]:
    """Every (table, link field, table that it leads to) of the value of a record of `table_id`."""
    for one in chain(value):
        match one:
            case Count(count=step) | Lookup(lookup=Each(step=step)):
                yield table_id, step.field, step.table
            case Rollup(rollup=Rolled(step=step)):
                yield table_id, step.field, step.table
            case _:
                return
        table_id = step.table


def tables_read(value: Value) -> Iterator[str]:
    """The tables that its links lead to."""
    for _, _, led_to in steps_taken(value, ""):
        yield led_to
