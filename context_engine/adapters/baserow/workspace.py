"""A whole exported file as a workspace to be loaded."""

from __future__ import annotations

from context_engine.adapters.baserow.fields import map_field
from context_engine.adapters.baserow.model import ID_PREFIX_CHARS, Schema, read_schema
from context_engine.adapters.baserow.rows import read_links, read_rows
from context_engine.adapters.baserow.source import AGAIN, At, parse
from context_engine.adapters.baserow.views import read_views
from context_engine.errors import BrokenFile, InvalidRequest
from context_engine.loading import Gap, NewTable, NewWorkspace, Progress, silent

MAX_ROWS = 200_000
"""Most rows of a file, unless a setting says otherwise."""


def read_workspace(
    data: bytes,
    *,
    name: str | None = None,
    max_rows: int = MAX_ROWS,
    progress: Progress = silent,
) -> NewWorkspace:
    """The workspace that the exported file `data` holds, called `name` or as the file is.

    Its id comes from its name, and every other id from that and the file's own, so that the same
    file gives the same ids. Raises `BrokenFile`, which names the place and the remedy.
    """
    top = parse(data)
    called = name if name is not None else _name(top)
    id = slug(called)
    schema = read_schema(top, id)
    total = _count_rows(schema, max_rows)
    found = read_rows(schema, total, progress)
    fields = [
        map_field(one, position, table, schema)
        for table in schema.tables
        for position, one in enumerate(table.fields)
    ]
    views = read_views(schema)
    links = read_links(schema, found)
    return NewWorkspace(
        id=id,
        name=called,
        tables=[NewTable(schema.table(t.id), t.name, n) for n, t in enumerate(schema.tables)],
        fields=fields,
        views=views,
        rows=found.rows,
        links=links,
        gaps=_in_order(schema),
    )


def slug(name: str) -> str:
    """An id out of a name: its letters and digits in lower case, joined by hyphens."""
    words = "".join(c if c.isalnum() else " " for c in name.lower()).split()
    made = "-".join(words)
    if not 1 <= len(made) <= ID_PREFIX_CHARS:
        raise InvalidRequest(
            f"write a name with 1 to {ID_PREFIX_CHARS} letters and digits", field="workspace"
        )
    return made


def _name(top: At) -> str:
    """The file's own name, else that of its first database."""
    if "name" in top.raw:
        return top.text("name")
    for one in top.objects("export"):
        return one.text("name")
    raise top.broken("export", f"has no database; {AGAIN}")


def _count_rows(schema: Schema, most: int) -> int:
    total = sum(len(table.at.list("rows")) for table in schema.tables)
    if total > most:
        raise BrokenFile(
            "export",
            f"has {total} rows, more than {most}; raise CONTEXT_IMPORT_MAX_ROWS or export less",
        )
    return total


def _in_order(schema: Schema) -> tuple[Gap, ...]:
    """The report by table, as the file has them; fields before views."""
    places = {table.name: n for n, table in enumerate(schema.tables)}
    return tuple(sorted(schema.gaps, key=lambda gap: (places.get(gap.table, -1), gap.view or "")))
