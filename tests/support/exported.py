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
