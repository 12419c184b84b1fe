"""What the fields of an exported table become here, and what their values are made of."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from context_engine import view_values as v
from context_engine.adapters.baserow.model import Field, Schema, Table
from context_engine.adapters.baserow.sources import sources_of
from context_engine.loading import NewField
from context_engine.models.base import JsonObject

TYPES: Mapping[str, str] = {
    "text": "text",
    "long_text": "long_text",
    "email": "email",
    "phone_number": "phone",
    "url": "url",
    "number": "number",
    "rating": "rating",
    "autonumber": "autonumber",
    "boolean": "boolean",
    "date": "date",
    "single_select": "select",
    "link_row": "link",
    "lookup": "lookup",
    "rollup": "rollup",
    "count": "count",
    "formula": "formula",
    "file": "file",
    "password": "password",
    "created_on": "created_on",
    "last_modified": "last_modified",
}
"""Our type for each of theirs. A type that is not here keeps its name, and no cells."""

KINDS: Mapping[str, v.Kind] = {
    "text": "text",
    "long_text": "text",
    "email": "text",
    "phone_number": "text",
    "url": "text",
    "single_select": "text",
    "number": "number",
    "rating": "number",
    "autonumber": "number",
    "boolean": "boolean",
}
"""What the cells of a type are compared as. Dates depend on whether they have a time."""

_KNOWN = (
    "id", "type", "name", "order", "primary", "select_options", "link_row_table_id",
    "link_row_related_field_id", "has_related_field",
)  # fmt: skip
_FUNCTIONS: Mapping[str, v.Function] = {
    "min": "min", "max": "max", "sum": "sum", "avg": "avg", "any": "any", "every": "every",
}  # fmt: skip
MAX_STEPS = 12
"""Most links that one value may be computed along."""


def map_field(field: Field, position: int, table: Table, schema: Schema) -> NewField:
    """The field here; what is lost of it goes into the report."""
    value = value_of(field, schema)
    options: JsonObject = {}
    if field.choices:
        options["choices"] = list[JsonValue](field.choices.values())
    if field.type in ("lookup", "rollup", "count"):
        options["value"] = value.model_dump(mode="json")
        if (lacking := v.missing(value)) is not None:
            _report_lacking(field, lacking, table, schema)
    if rest := field.at.rest(*_KNOWN):
        options["baserow"] = rest
    reads = sources_of(field, schema)
    if reads is None:
        schema.gap(table, "a formula over fields that are not there: nobody sees it", field=field)
    one = field.at.raw.get("link_row_multiple_relationships") is False
    return NewField(
        id=schema.field(field.id),
        table_id=schema.table(field.table),
        name=field.name,
        type=here(field),
        primary=field.primary,
        position=position,
        options=options,
        linked_table_id=schema.table(field.link_table) if field.link_table is not None else None,
        linked_field_id=schema.field(field.link_back) if field.link_back is not None else None,
        cardinality="one" if one else "many",
        reads=reads,
    )


def here(field: Field) -> str:
    """Our type of the field."""
    if field.type == "date" and with_time(field):
        return "datetime"
    return TYPES.get(field.type, field.type)


def with_time(field: Field) -> bool:
    return field.at.flag("date_include_time")


def _report_lacking(field: Field, lacking: v.Missing, table: Table, schema: Schema) -> None:
    what = {
        "formula": f"a {field.type} over a formula, whose values are not in the file",
        "file": f"a {field.type} over files, whose bytes are not in the file",
        "field": f"a {field.type} that cannot be computed here",
    }[lacking]
    schema.gap(table, what, field=field)


def value_of(field: Field, schema: Schema, steps: int = 0) -> v.Value:
    """What the field's value is made of, along every link that it takes."""
    if steps > MAX_STEPS:
        return v.Needs(needs="field")  # too long, or in a circle
    match field.type:
        case "formula":
            return v.Needs(needs="formula")
        case "file":
            return v.Needs(needs="file")
        case "created_on":
            return v.System(system="created_at")
        case "last_modified":
            return v.System(system="updated_at")
        case "date":
            return v.Stored(
                cell=schema.field(field.id), kind="time" if with_time(field) else "date"
            )
        case "link_row":
            step, name = step_along(field, schema), _name_of(field, schema, steps + 1)
            return v.Lookup(lookup=v.Each(step=step, value=name))
        case "count" | "lookup" | "rollup":
            return _computed(field, schema, steps + 1)
        case _ if field.type in KINDS:
            return v.Stored(cell=schema.field(field.id), kind=KINDS[field.type])
        case _:
            return v.Needs(needs="field")


def step_along(link: Field, schema: Schema) -> v.Step:
    assert link.link_table is not None, "a link field"
    return v.Step(field=schema.field(link.id), table=schema.table(link.link_table))


def _name_of(link: Field, schema: Schema, steps: int) -> v.Value:
    """What a linked row goes by: its primary field, or its id where a formula makes that."""
    assert link.link_table is not None, "a link field"
    name = value_of(schema.primary(link.link_table), schema, steps)
    return v.RowId(row_id=True) if v.missing(name) else name


def _computed(field: Field, schema: Schema, steps: int) -> v.Value:
    assert field.through is not None, "a computed field"
    step = step_along(schema.fields[field.through], schema)
    if field.target is None:
        return v.Count(count=step)
    value = value_of(schema.fields[field.target], schema, steps)
    if field.type == "lookup":
        return v.Lookup(lookup=v.Each(step=step, value=value))
    if (lacking := v.missing(value)) is not None:
        return v.Needs(needs=lacking)
    said = field.at.raw.get("rollup_function")
    function = _FUNCTIONS.get(said) if isinstance(said, str) else None
    if function is None or not v.function_fits(function, v.kind_of(value)):
        return v.Needs(needs="field")
    return v.Rollup(rollup=v.Rolled(step=step, value=value, function=function))
