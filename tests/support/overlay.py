"""People, teams, projects and tasks for a loaded workspace: what exported files do not have."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.services import DomainServices
from context_engine.loading import NewWorkspace
from tests.support.plain_baserow import PlainFile, Row
from tests.support.world import OWN_ROWS

ADMIN, VIEWER = "ana", "vic"
THIRD = 3
"""Of a walled table the viewer made every third row, and sees those only."""

WALLED = {
    "lightweight-crm": ("Activities", "Pipelines"),
    "ooo-management": ("OOO Requests",),
    "product-roadmap": ("Releases",),
    "project-management": ("Projects", "Tasks"),
    "supply-chain-procurement-management": ("Assessments", "Contracts"),
    "task-management": ("Projects",),
}
"""Tables, by file, of which a viewer sees the own rows only: filters of others count them."""

WALL = {
    "default": "show_all",
    "policies": [
        {
            "subjects": [{"type": "role", "id": "viewer"}],
            "mode": "restrictive",
            "pred": OWN_ROWS,
        }
    ],
}
"""Viewers see what they made."""
BARRED = "team-barred"
TEAM, PROJECT, HIDDEN_PROJECT = "team-core", "prj-launch", "prj-secret"


@dataclass(frozen=True)
class Overlay:
    """What was laid over `workspace`, with a task on each row of the first table."""

    workspace: NewWorkspace
    plain: PlainFile
    walled: frozenset[int]
    tasks: tuple[str, ...]

    def sees(self, user: str, table: int, row: Row) -> bool:
        return user == ADMIN or table not in self.walled or row["id"] % THIRD == 0


async def lay(
    services: DomainServices, database: AsyncEngine, made: NewWorkspace, plain: PlainFile
) -> Overlay:
    """Vic, a viewer in the team; a project with its tasks, and one that is not Vic's."""
    w = made.id
    await services.users.create("op", name="Vic", email="vic@x.example", id=VIEWER)
    await services.members.add(ADMIN, w, VIEWER, role="viewer")
    await services.teams.create(ADMIN, w, name="Core", id=TEAM)
    await services.teams.add_member(ADMIN, w, TEAM, VIEWER)
    await services.teams.create(ADMIN, w, name="Others", id=BARRED)
    await services.projects.create(ADMIN, w, name="Launch", id=PROJECT)
    await services.projects.create(ADMIN, w, name="Secret", private=True, id=HIDDEN_PROJECT)
    walled = [x for x in made.tables if x.name in WALLED[plain.path.stem]]
    for one in walled:
        await services.policies.set(ADMIN, w, one.id, WALL)
    third = [row.id for row in made.rows if int(row.id.rpartition("-r")[2]) % THIRD == 0]
    async with database.begin() as connection:
        await connection.execute(
            update(t.records).where(t.records.c.id.in_(third)).values(created_by=VIEWER)
        )
    rows = [row for row in made.rows if row.table_id == walled[0].id][:9]
    tasks = []
    for n, row in enumerate(rows):
        done = await services.tasks.create(
            ADMIN, w, title=f"Task {n}", project_id=PROJECT, table_id=row.table_id,
            record_id=row.id, status="done" if n % 2 else "open",
        )  # fmt: skip
        tasks.append(done.id)
    return Overlay(
        made, plain, frozenset(int(x.id.rpartition("-t")[2]) for x in walled), tuple(tasks)
    )
