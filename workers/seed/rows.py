"""The thousand records of the demo workspace, and what they link to: the same from each seed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from random import Random

from pydantic import JsonValue

from workers.seed import shape

DAY_ONE = date(2026, 1, 5)
COUNTS = {
    "tbl-clients": 20, "tbl-projects": 30, "tbl-people": 15,
    "tbl-releases": 35, "tbl-tasks": 700, "tbl-incidents": 200,
}  # fmt: skip
"""Records of each table, 1,000 in all."""

_VERBS = ("Draft", "Review", "Ship", "Measure", "Fix", "Migrate", "Document", "Plan")
_THINGS = (
    "invoice export", "berth calendar", "customs form", "login page", "crane telemetry",
    "tariff table", "container search", "alert rules", "audit log", "gate kiosk",
)  # fmt: skip
_PLACES = ("Bergen", "Tallinn", "Porto", "Split", "Varna", "Gdansk", "Piraeus", "Bilbao")


@dataclass(frozen=True, slots=True)
class Row:
    """A record to be: its cells, and whom it links to by link field."""

    id: str
    cells: Mapping[str, JsonValue]
    links: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def record_id(table_id: str, number: int) -> str:
    """Such as `rec-tasks-0007`."""
    return f"rec-{table_id.removeprefix('tbl-')}-{number:04d}"


def rows(table_id: str, seed: int) -> tuple[Row, ...]:
    """Every record of a table. Tables do not share a random stream: each can change alone."""
    rng = Random(f"{seed}:{table_id}")  # noqa: S311 - samples, not secrets
    make = _MAKERS[table_id]
    return tuple(make(rng, record_id(table_id, n), n) for n in range(1, COUNTS[table_id] + 1))


def batches(items: tuple[Row, ...], size: int = 500) -> Iterator[tuple[Row, ...]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _day(rng: Random, spread: int = 330) -> str:
    return (DAY_ONE + timedelta(days=rng.randrange(spread))).isoformat()


def _one(rng: Random, table_id: str) -> tuple[str, ...]:
    return (record_id(table_id, rng.randrange(1, COUNTS[table_id] + 1)),)


def _some(rng: Random, items: tuple[str, ...], most: int) -> list[JsonValue]:
    return [*rng.sample(items, rng.randrange(1, most + 1))]


def _title(rng: Random) -> str:
    return f"{rng.choice(_VERBS)} the {rng.choice(_THINGS)}"


def _client(rng: Random, id: str, n: int) -> Row:
    kind = rng.choice(("Port", "Shipyard", "Clinic", "Market"))
    return Row(
        id,
        {
            "fld-client-name": f"{_PLACES[n % len(_PLACES)]} {kind} {n}",
            "fld-client-sector": rng.choice(("Shipping", "Health", "Retail", "Public")),
            "fld-client-since": _day(rng),
            "fld-client-active": rng.random() < 0.8,
            "fld-client-value": rng.randrange(20, 400) * 1000,
            "fld-client-manager": rng.choice((shape.ANA.id, shape.BEN.id)),
        },
    )


def _project(rng: Random, id: str, n: int) -> Row:
    return Row(
        id,
        {
            "fld-project-name": f"{rng.choice(_PLACES)} {rng.choice(_THINGS)} {n}",
            "fld-project-status": rng.choice(("Planned", "Running", "Running", "Closed")),
            "fld-project-budget": rng.randrange(10, 200) * 1000,
            "fld-project-start": _day(rng),
            "fld-project-lead": rng.choice((shape.ANA.id, shape.BEN.id, shape.DAN.id)),
            "fld-project-tags": _some(rng, shape.LABELS, 3),
        },
        {"fld-project-client": _one(rng, "tbl-clients")},
    )


def _person(rng: Random, id: str, n: int) -> Row:
    account = shape.PEOPLE[n - 1] if n <= len(shape.PEOPLE) else None
    cells: dict[str, JsonValue] = {
        "fld-person-name": account.name if account else f"Guest {n}",
        "fld-person-craft": rng.choice(("Engineer", "Designer", "Analyst", "Manager")),
        "fld-person-skills": _some(rng, shape.SKILLS, 3),
        "fld-person-hours": rng.choice((20, 32, 40)),
        "fld-person-remote": rng.random() < 0.5,
    }
    if account:
        cells["fld-person-user"] = account.id
    return Row(id, cells, {"fld-person-projects": _one(rng, "tbl-projects")})


def _release(rng: Random, id: str, n: int) -> Row:
    return Row(
        id,
        {
            "fld-release-version": f"{1 + n // 10}.{n % 10}",
            "fld-release-state": rng.choice(("Planned", "Frozen", "Shipped")),
            "fld-release-date": _day(rng),
            "fld-release-notes": f"{_title(rng)}; {_title(rng).lower()}.",
        },
        {"fld-release-project": _one(rng, "tbl-projects")},
    )


def _task(rng: Random, id: str, n: int) -> Row:
    people = tuple(person.id for person in shape.PEOPLE)
    start = DAY_ONE + timedelta(days=rng.randrange(300))
    estimate = rng.choice((1, 2, 3, 5, 8, 13))
    cells: dict[str, JsonValue] = {
        "fld-task-title": f"{_title(rng)} ({n})",
        "fld-task-status": rng.choice(shape.STATUS),
        "fld-task-priority": rng.choice(shape.PRIORITY),
        "fld-task-watchers": _some(rng, people, 3),
        "fld-task-start": start.isoformat(),
        "fld-task-due": (start + timedelta(days=estimate * 2)).isoformat(),
        "fld-task-estimate": estimate,
        "fld-task-spent": round(estimate * rng.random(), 1),
        "fld-task-billable": rng.random() < 0.6,
        "fld-task-labels": _some(rng, shape.LABELS, 2),
        "fld-task-notes": f"For {rng.choice(_PLACES)}.",
    }
    if rng.random() < 0.9:  # the rest is nobody's yet
        cells["fld-task-assignee"] = rng.choice(people)
    return Row(
        id,
        cells,
        {
            "fld-task-project": _one(rng, "tbl-projects"),
            "fld-task-release": _one(rng, "tbl-releases"),
        },
    )


def _incident(rng: Random, id: str, n: int) -> Row:
    return Row(
        id,
        {
            "fld-incident-title": f"{rng.choice(_PLACES)}: {rng.choice(_THINGS)} down ({n})",
            "fld-incident-severity": rng.choice(("S1", "S2", "S3", "S3")),
            "fld-incident-opened": _day(rng),
            "fld-incident-resolved": rng.random() < 0.7,
            "fld-incident-reporter": rng.choice((shape.BEN.id, shape.DAN.id, shape.ANA.id)),
            "fld-incident-minutes": rng.randrange(1, 600),
        },
        {"fld-incident-release": _one(rng, "tbl-releases")},
    )


_MAKERS = {
    "tbl-clients": _client,
    "tbl-projects": _project,
    "tbl-people": _person,
    "tbl-releases": _release,
    "tbl-tasks": _task,
    "tbl-incidents": _incident,
}
