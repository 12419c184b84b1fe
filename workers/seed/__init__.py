"""The demo workspace: a delivery team with six linked tables and a thousand records.

Made through the domain services, as a product would; always the same from the same seed.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from context_engine.adapters.sql.services import DomainServices, NewRecord
from context_engine.errors import NotFound
from workers.seed import dialogue, rows, shape, work

OPERATOR = "operator"
"""Who makes users, organizations and workspaces."""

ADMIN = shape.ANA.id


@dataclass(frozen=True, slots=True)
class Seeded:
    """The ids of the demo workspace, and whether this call made it."""

    created: bool
    workspace_id: str = shape.WORKSPACE
    second_workspace_id: str = shape.SECOND
    """A tiny one of somebody else: nothing of it may ever be seen from the first."""
    organization_id: str = shape.ORGANIZATION
    admin_id: str = shape.ANA.id
    editor_id: str = shape.BEN.id
    viewer_id: str = shape.CHLOE.id
    """Sees of the tasks only her own."""
    deferring_id: str = shape.DAN.id
    """Has the role of his team."""
    barred_id: str = shape.EVA.id
    """Has NONE on the incidents."""
    leaving_id: str = shape.FINN.id
    """Is there to be removed."""
    outsider_id: str = shape.GUS.id
    table_ids: tuple[str, ...] = tuple(table.id for table in shape.TABLES)
    team_ids: tuple[str, ...] = (work.DELIVERY, work.SUPPORT)
    project_id: str = work.ATLAS
    private_project_id: str = work.ORCHID
    conversation_id: str = dialogue.CONVERSATION
    workflow_id: str = work.TRIAGE
    agent_ids: tuple[str, ...] = (work.PLANNER, work.READER)


async def seed(services: DomainServices, *, number: int = 2026) -> Seeded:
    """Makes the demo workspace, unless it is there. `number` is the seed of its records.

    Raises as the services do; `Conflict` where an earlier run was cut off: begin with an empty
    database.
    """
    if await _exists(services):
        return Seeded(created=False)
    await _people(services)
    await _tables(services)
    await _records(services, number)
    await services.policies.set(ADMIN, shape.WORKSPACE, work.TASK_TABLE, shape.OWN_TASKS)
    await _rights(services)
    await work.fill(services)
    await _dialogue(services)
    await _second(services)
    return Seeded(created=True)


async def _exists(services: DomainServices) -> bool:
    """The second workspace is made last: where it is, all is."""
    try:
        await services.tables.list(shape.GUS.id, shape.SECOND)
    except NotFound:
        return False
    return True


async def _people(services: DomainServices) -> None:
    await services.organizations.create(OPERATOR, name="Harbour Works", id=shape.ORGANIZATION)
    for person in (*shape.PEOPLE, shape.GUS):
        await services.users.create(
            OPERATOR,
            name=person.name,
            email=person.email,
            locale=person.locale,
            timezone=person.timezone,
            id=person.id,
        )
    for person in shape.PEOPLE[:4]:
        role = "owner" if person is shape.ANA else "member"
        await services.organizations.set_member(OPERATOR, shape.ORGANIZATION, person.id, role=role)
    await services.workspaces.create(
        OPERATOR,
        name="Delivery",
        maker_id=ADMIN,
        organization_id=shape.ORGANIZATION,
        id=shape.WORKSPACE,
    )
    for person in shape.PEOPLE[1:]:
        await services.members.add(ADMIN, shape.WORKSPACE, person.id, role=person.role)


async def _tables(services: DomainServices) -> None:
    for table in shape.TABLES:
        primary, *others = table.fields
        await services.tables.create(
            ADMIN,
            shape.WORKSPACE,
            name=table.name,
            id=table.id,
            primary_id=primary.id,
            primary_name=primary.name,
        )
        for field in others:
            await services.fields.create(
                ADMIN,
                shape.WORKSPACE,
                table.id,
                name=field.name,
                type=field.type,
                options=field.options,
                id=field.id,
            )
    for link in shape.LINKS:
        await services.links.create(
            ADMIN,
            shape.WORKSPACE,
            link.table_id,
            name=link.name,
            linked_table_id=link.linked_table_id,
            cardinality="one",
            id=link.id,
            back_id=link.back_id,
            back_name=link.back_name,
        )
    for table in shape.TABLES:
        for view in table.views:
            await services.views.create(
                ADMIN,
                shape.WORKSPACE,
                table.id,
                name=view.name,
                type=view.type,
                ownership=view.ownership,
                filter=view.filter,
                hidden=view.hidden,
                field_order=view.order,
                id=view.id,
            )


async def _records(services: DomainServices, number: int) -> None:
    """Half of each batch is made by Ana, half by Ben: who made a row is part of a policy."""
    for table in shape.TABLES:
        made = await asyncio.to_thread(rows.rows, table.id, number)
        for index, batch in enumerate(rows.batches(made)):
            maker = (shape.ANA.id, shape.BEN.id)[index % 2]
            await services.records.create_many(
                maker,
                shape.WORKSPACE,
                table.id,
                [NewRecord(row.cells, row.links, row.id) for row in batch],
            )


async def _rights(services: DomainServices) -> None:
    for team_id, (name, user_ids) in work.TEAMS.items():
        await services.teams.create(ADMIN, shape.WORKSPACE, name=name, id=team_id)
        for user_id in user_ids:
            await services.teams.add_member(ADMIN, shape.WORKSPACE, team_id, user_id)
    await services.grants.set(
        ADMIN,
        shape.WORKSPACE,
        subject_type="team",
        subject_id=work.DELIVERY,
        scope_type="workspace",
        scope_id=shape.WORKSPACE,
        role="editor",
    )
    await services.grants.set(
        ADMIN,
        shape.WORKSPACE,
        subject_type="user",
        subject_id=shape.EVA.id,
        scope_id="tbl-incidents",
        role="none",
    )


async def _dialogue(services: DomainServices) -> None:
    await services.conversations.open(
        ADMIN,
        shape.WORKSPACE,
        title=dialogue.TITLE,
        participant_ids=dialogue.PARTICIPANTS,
        id=dialogue.CONVERSATION,
    )
    for said in dialogue.said():
        await services.messages.add(
            said.actor_id,
            shape.WORKSPACE,
            dialogue.CONVERSATION,
            said.content,
            role=said.role,
            tool_calls=said.tool_calls,
            tool_call_id=said.tool_call_id,
            table_ids=said.table_ids,
            id=said.id,
        )


async def _second(services: DomainServices) -> None:
    gus = shape.GUS.id
    await services.workspaces.create(OPERATOR, name="Another house", maker_id=gus, id=shape.SECOND)
    await services.tables.create(
        gus, shape.SECOND, name="Notes", id="tbl-notes", primary_id="fld-note-text"
    )
    await services.records.create_many(
        gus,
        shape.SECOND,
        "tbl-notes",
        [NewRecord({"fld-note-text": f"Note {n}"}, id=f"rec-notes-{n:04d}") for n in (1, 2, 3)],
    )
