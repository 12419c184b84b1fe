"""What a computed field is made of: who may not see one of its sources does not see it either.

A formula names its sources: `field('Hours')` of its own table, `lookup('Owner', 'Name')` along a
link. A name that nothing goes by leaves the sources unknown, and then nobody sees the field.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from context_engine.adapters.baserow.model import Field, Schema

Source = tuple[str, str]
"""A field's table and id, as they are here."""

_TOKENS = re.compile(
    r"""(?P<comment>/\*.*?\*/|//[^\n]*|\s+)
    |(?P<text>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")
    |(?P<word>\w+)
    |(?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)
_OPEN_TEXT = ("'", '"')
"""As signs of their own: a text that does not end."""


class UnknownSource(Exception):
    """A formula names something that is not there, or not in the way its language has it."""


def sources_of(field: Field, schema: Schema) -> tuple[Source, ...] | None:
    """The fields that `field` is made of at first hand, sorted; None where nobody can tell."""
    match field.type:
        case "lookup" | "rollup" | "count":
            found = _along(schema, field.through, field.target)
        case "formula":
            try:
                found = _of_formula(field, schema)
            except UnknownSource:
                return None
        case _:
            return ()
    return tuple(sorted({(schema.table(one.table), schema.field(one.id)) for one in found}))


def _along(schema: Schema, through: int | None, target: int | None) -> list[Field]:
    """A link field, and what is read of the rows that it leads to."""
    assert through is not None, "a computed field"
    found = [schema.fields[through]]
    return found if target is None else [*found, *_value_of(schema.fields[target], schema)]


def _value_of(field: Field, schema: Schema) -> list[Field]:
    """A field whose value is read: a link's is the names of the rows that it leads to."""
    if field.link_table is None:
        return [field]
    return [field, schema.primary(field.link_table)]


def _of_formula(field: Field, schema: Schema) -> list[Field]:
    text = field.at.raw.get("formula")
    if not isinstance(text, str):
        raise UnknownSource
    own = next(table for table in schema.tables if table.id == field.table)
    found: list[Field] = []
    for function, names, counted in _references(text):
        if function == "field":
            for one in _named(own.fields, names[0]):
                # How many rows a link leads to says nothing of their names.
                found += [one] if counted else _value_of(one, schema)
            continue
        for link in _named(own.fields, names[0]):
            if link.link_table is None:
                raise UnknownSource
            linked = next(table for table in schema.tables if table.id == link.link_table)
            for one in _named(linked.fields, names[1]):
                found += [link, *_value_of(one, schema)]
    return found


def _named(fields: tuple[Field, ...], name: str) -> list[Field]:
    """The fields of a table by that name, of which an export may have several."""
    found = [one for one in fields if one.name == name]
    if not found:
        raise UnknownSource
    return found


_SHAPES = {"field": "(t)", "lookup": "(t,t)"}
"""What follows each function that names fields; t is a text."""


def _references(formula: str) -> Iterator[tuple[str, list[str], bool]]:
    """Function, names, and whether the value is only counted, of all that a formula names.

    Raises `UnknownSource` for a reference of another shape than those.
    """
    tokens = [m for m in _TOKENS.finditer(formula) if m.lastgroup != "comment"]
    words = [m.group().lower() for m in tokens]
    if any(m.lastgroup == "sign" and m.group() in _OPEN_TEXT for m in tokens):
        raise UnknownSource
    for place, token in enumerate(tokens):
        if token.lastgroup != "word" or words[place] not in ("field", "lookup", "field_by_id"):
            continue
        shape = _SHAPES.get(words[place], "by id: no longer written")
        after = tokens[place + 1 : place + 1 + len(shape)]
        if "".join("t" if m.lastgroup == "text" else m.group() for m in after) != shape:
            raise UnknownSource
        end = place + 1 + len(shape)
        counted = words[max(place - 2, 0) : place] == ["count", "("] and words[end : end + 1] == [
            ")"
        ]
        yield words[place], [_unquoted(m.group()) for m in after if m.lastgroup == "text"], counted


def _unquoted(text: str) -> str:
    quote = text[0]
    return text[1:-1].replace(f"\\{quote}", quote)
