"""What follows from coordinates out of sight."""

from __future__ import annotations

from collections.abc import Iterable

from context_engine.access.denied import Denied
from context_engine.keys import Tag
from context_engine.models.context import Unresolved


def in_order(absent: Iterable[Unresolved]) -> tuple[Unresolved, ...]:
    """One order for all: when something was found out of sight tells nothing about why."""
    return tuple(sorted(absent, key=lambda one: _ORDER[one.coordinate]))


def settle(
    absent: Iterable[Unresolved],
    inherited: frozenset[str],
    *,
    tags: frozenset[Tag],
    strict: bool = False,
) -> tuple[Unresolved, ...]:
    """What an answer lists as unresolved: the coordinates out of sight that were asked for.

    Inherited ones are left out. `tags`: what the absences depend on. Raises `Denied` for a
    requested table, and with `strict` for every requested coordinate. Holds for a cached surface
    as for a new resolution.
    """
    listed = []
    for one in absent:
        name = _PYTHON_NAMES[one.coordinate]
        if name in inherited:
            continue
        if strict or name == "table_ids":
            raise Denied(name.removesuffix("_id").removesuffix("_ids"), one.id, tags)
        listed.append(one)
    return tuple(listed)


_PYTHON_NAMES = {
    "tableIds": "table_ids",
    "viewId": "view_id",
    "projectId": "project_id",
    "taskId": "task_id",
    "teamId": "team_id",
    "organizationId": "organization_id",
    "workflowId": "workflow_id",
}

_ORDER = {name: place for place, name in enumerate(_PYTHON_NAMES)}
