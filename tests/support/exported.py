"""Small exported workspaces, made by the tests: two tables that link to each other."""

from __future__ import annotations

import json
from typing import Any

PEOPLE, TASKS = 10, 20
NAME, TITLE, STATE, HOURS, OWNER, OWNED, LOAD, LATEST, DUE = (
    101,
    201,
    202,
    203,
    204,
    102,
    103,
    104,
    205,
)
OPEN, DONE = 31, 32


def exported(rows: int = 4) -> dict[str, Any]:
    """A database of `rows` tasks with an owner each, and two people."""
    owner = [[1 + n % 2] for n in range(rows)]
    return {
        "name": "Small",
        "export": [
            {
                "id": 1, "type": "database", "name": "Small", "order": 1,
                "tables": [
                    {
                        "id": PEOPLE, "name": "People", "order": 1,
                        "fields": [
                            _field(NAME, "text", "Name", primary=True),
                            _field(OWNED, "link_row", "Owns", link_row_table_id=TASKS,
                                   link_row_related_field_id=OWNER),
                            _field(LOAD, "rollup", "Load", through_field_id=OWNED,
                                   target_field_id=HOURS, rollup_function="sum"),
                            _field(LATEST, "rollup", "Latest", through_field_id=OWNED,
                                   target_field_id=DUE, rollup_function="max"),
                        ],
                        "views": [view(11, PEOPLE), view(12, PEOPLE, [
                            filter_(LOAD, "higher_than", "2")])],
                        "rows": [
                            _row(id, **{
                                f"field_{NAME}": f"Person {id}",
                                f"field_{OWNED}": [
                                    n + 1 for n in range(rows) if owner[n] == [id]
                                ],
                                f"field_{LOAD}": None,
                                f"field_{LATEST}": None,
                            })
                            for id in (1, 2)
                        ],
                    },
                    {
                        "id": TASKS, "name": "Tasks", "order": 2,
                        "fields": [
                            _field(TITLE, "text", "Title", primary=True),
                            _field(STATE, "single_select", "State", select_options=[
                                {"id": OPEN, "value": "open"}, {"id": DONE, "value": "done"}]),
                            _field(HOURS, "number", "Hours"),
                            _field(OWNER, "link_row", "Owner", link_row_table_id=PEOPLE,
                                   link_row_related_field_id=OWNED),
                            _field(DUE, "date", "Due", date_include_time=False),
                        ],
                        "views": [
                            view(21, TASKS, [filter_(STATE, "single_select_equal", str(OPEN))]),
                        ],
                        "rows": [
                            _row(n + 1, **{
                                f"field_{TITLE}": f"Task {n + 1}",
                                f"field_{STATE}": OPEN if n % 3 else DONE,
                                f"field_{HOURS}": str(n),
                                f"field_{OWNER}": owner[n],
                                f"field_{DUE}": f"2024-07-{1 + n % 28:02d}",
                            })
                            for n in range(rows)
                        ],
                    },
                ],
            }
        ],
    }  # fmt: skip


def _field(id: int, type: str, name: str, *, primary: bool = False, **more: Any) -> dict[str, Any]:
    return {"id": id, "type": type, "name": name, "order": id, "primary": primary, **more}


def _row(id: int, **cells: Any) -> dict[str, Any]:
    made = "2024-02-01T14:48:47.135844+00:00"
    return {
        "id": id, "order": f"{id}.0", "created_on": made, "updated_on": made,
        "created_by": "vic@x.example", "last_modified_by": None, **cells,
    }  # fmt: skip


def view(id: int, table: int, filters: list[Any] | None = None, **more: Any) -> dict[str, Any]:
    return {
        "id": id, "type": "grid", "name": f"View {id}", "order": id, "filter_type": "AND",
        "filters_disabled": False, "filters": filters or [], "filter_groups": [],
        "sortings": [], "field_options": [], **more,
    }  # fmt: skip


def filter_(field: int, type: str, value: str, group: int | None = None) -> dict[str, Any]:
    return {"id": field * 100, "field_id": field, "type": type, "value": value, "group": group}


def tables(document: dict[str, Any]) -> list[Any]:
    found: list[Any] = document["export"][0]["tables"]
    return found


def as_bytes(document: dict[str, Any]) -> bytes:
    return json.dumps(document).encode()


def generated(rows: int, *, of: int = 4) -> dict[str, Any]:
    """`of` tables of `rows` rows in all, each row but those of the first linked to one of it."""
    each = rows // of
    made = [_generated(number, each) for number in range(of)]
    for row in made[0]["rows"]:
        row |= {f"field_{number + 8}": [] for number in range(1, of)}
    for number, table in enumerate(made[1:], 1):
        for row in table["rows"]:
            (to,) = row[f"field_{number * 100 + 7}"]
            made[0]["rows"][to - 1][f"field_{number + 8}"].append(row["id"])
        link = _field(number + 8, "link_row", f"Of {number}", link_row_table_id=number + 1,
                      link_row_related_field_id=number * 100 + 7)  # fmt: skip
        made[0]["fields"].append(link)
    return {
        "name": f"Generated {rows}",
        "export": [{"id": 1, "type": "database", "name": "Generated", "tables": made}],
    }


def _generated(number: int, rows: int) -> dict[str, Any]:
    f = number * 100
    fields = [
        _field(f + 1, "text", "Name", primary=True),
        _field(f + 2, "long_text", "Notes"),
        _field(f + 3, "number", "Amount"),
        _field(f + 4, "date", "Due", date_include_time=False),
        _field(f + 5, "single_select", "State", select_options=[
            {"id": f + n, "value": value} for n, value in enumerate(("new", "open", "done"))]),
        _field(f + 6, "email", "Contact"),
    ]  # fmt: skip
    if number:
        fields.append(_field(f + 7, "link_row", "Of", link_row_table_id=1,
                             link_row_related_field_id=number + 8))  # fmt: skip
    made = []
    for n in range(rows):
        row = _row(
            n + 1,
            **{
                f"field_{f + 1}": f"Thing {number}.{n}",
                f"field_{f + 2}": f"What there is to say of it, at some length, number {n}.",
                f"field_{f + 3}": f"{n}.25",
                f"field_{f + 4}": f"2026-{1 + n % 12:02d}-{1 + n % 28:02d}",
                f"field_{f + 5}": f + n % 3,
                f"field_{f + 6}": f"person{n % 97}@x.example",
            },
        )
        if number:
            row[f"field_{f + 7}"] = [1 + n * 7 % rows]
        made.append(row)
    views = [view(f + 1, number + 1), view(f + 2, number + 1, [filter_(f + 3, "higher_than", "5")])]
    return {"id": number + 1, "name": f"Table {number}", "order": number, "fields": fields,
            "views": views, "rows": made}  # fmt: skip
