"""The steps of the demo, in order. Each checks what it shows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from workers.demo.race import raced
from workers.demo.rights import by_a_view_alone, explained, ruled, without_a_field
from workers.demo.stage import Shown, Stage, expect, records, told

TABLE = "tbl-tasks"
BARRED_TABLE = "tbl-incidents"
VIEW = "viw-tasks-open"
LEAVER = "usr-finn"

Step = Callable[[Stage], Awaitable[Shown]]


def _dialogue(stage: Stage, message: str) -> dict[str, object]:
    return {
        "tableIds": [TABLE, "tbl-projects"],
        "viewId": VIEW,
        "projectId": stage.seeded.project_id,
        "conversationId": stage.seeded.conversation_id,
        "sessionId": "demo",
        "message": message,
        "timezone": "Europe/Berlin",
    }


QUESTION = "Why is this project late?"


async def built(stage: Stage) -> Shown:
    """A request becomes a context"""
    ana = stage.seeded.admin_id
    # The first request of a workspace makes its marks and is not stored.
    await stage.ask(stage.where(ana))
    ready, took = await stage.ask(stage.where(ana, **_dialogue(stage, QUESTION)))
    expect(ready.source == "build", f"source is {ready.source}")
    expect(records(ready.context) == 700, "Ana should see 700 tasks")
    return Shown([f'Ana asks: "{QUESTION}"'], took, ready.context)


async def cached(stage: Stage) -> Shown:
    """The same request again: from the cache"""
    ana = stage.seeded.admin_id
    request = stage.where(ana, **_dialogue(stage, QUESTION))
    ready, took = await stage.ask(request)
    expect(ready.source == "cache", f"source is {ready.source}")
    return Shown([f"source {ready.source}, the same hash {ready.context_hash[:12]}"], took)


async def next_turn(stage: Stage) -> Shown:
    """The next turn of the dialogue: over the cached surface"""
    ana = stage.seeded.admin_id
    turn = stage.where(ana, sessionId="demo", message="And who can help?", timezone="Europe/Berlin")
    ready, took = await stage.ask(turn)
    expect(ready.source == "surface", f"source is {ready.source}")
    inherited = ", ".join(ready.context.trace.inherited)
    return Shown([f"source {ready.source}; from the session: {inherited}"], took)


async def another_user(stage: Stage) -> Shown:
    """Another user, the same table: fewer records"""
    chloe = stage.seeded.viewer_id
    ready, took = await stage.ask(stage.where(chloe, tableIds=[TABLE], viewId=VIEW))
    seen = records(ready.context)
    expect(0 < seen < 700, f"Chloe sees {seen} of 700")
    table = ready.context.table
    permission = table.permission if table is not None else "none"
    return Shown([f"Chloe ({permission}) sees {seen} of Ana's 700 tasks: her own"], took)


async def unreadable(stage: Stage) -> Shown:
    """Not readable, not there: the same answer"""
    eva = stage.seeded.barred_id
    denied, took = await stage.refused(stage.where(eva, tableIds=[BARRED_TABLE]))
    missing, _ = await stage.refused(stage.where(eva, tableIds=["tbl-nowhere"]))
    same = denied.replace(BARRED_TABLE, "tbl-nowhere") == missing
    expect(same, "missing and denied must read the same")
    return Shown([f"not_found  {denied}", f"not_found  {missing}"], took)


async def revoked(stage: Stage) -> Shown:
    """A right is revoked: evicted, and refused at once"""
    chloe, ana = stage.seeded.viewer_id, stage.seeded.admin_id
    request = stage.where(chloe, tableIds=[TABLE], viewId=VIEW)
    ready, _ = await stage.ask(request)
    expect(ready.source == "cache", "Chloe's context should be cached before")
    async with stage.announcements() as announced:
        written = await stage.services.grants.set(
            ana,
            stage.seeded.workspace_id,
            subject_type="user",
            subject_id=chloe,
            scope_id=TABLE,
            role="none",
        )
        words, took = await stage.refused(request)
        event = await announced.of(written)
    expect(ready.context.scope_key in event.scope_keys, "Chloe's scope should be named")
    return Shown(told(event, [f"refused   {words}"]), took)


async def edited(stage: Stage) -> Shown:
    """A record is added: the count changes"""
    ana = stage.seeded.admin_id
    request = stage.where(ana, tableIds=[TABLE])
    before, _ = await stage.ask(request)
    async with stage.announcements() as announced:
        written = await stage.services.records.create(
            ana, stage.seeded.workspace_id, TABLE, {"fld-task-title": "Call the harbour master"}
        )
        after, took = await stage.ask(request)
        event = await announced.of(written)
    expect(records(after.context) == records(before.context) + 1, "one record more")
    line = f"records   {records(before.context)} -> {records(after.context)}"
    return Shown(told(event, [line]), took)


async def removed(stage: Stage) -> Shown:
    """A member is removed: contexts and sessions are gone"""
    request = stage.where(LEAVER, tableIds=[TABLE], sessionId="last-day")
    await stage.ask(request)
    again, _ = await stage.ask(request)
    expect(again.source == "cache", "Finn's context should be cached before")
    async with stage.announcements() as announced:
        written = await stage.services.members.remove(
            stage.seeded.admin_id, stage.seeded.workspace_id, LEAVER
        )
        words, took = await stage.refused(request)
        event = await announced.of(written)
    expect(again.context.scope_key in event.scope_keys, "Finn's scope should be named")
    return Shown(told(event, [f"refused   {words}"]), took)


STEPS: tuple[Step, ...] = (
    built,
    cached,
    next_turn,
    another_user,
    unreadable,
    explained,
    revoked,
    raced,
    edited,
    ruled,
    without_a_field,
    by_a_view_alone,
    removed,
)
