"""The demo's steps about rights: why something is denied, and what rules take out of sight."""

from __future__ import annotations

from context_engine.access import Question
from context_engine.models.base import JsonObject
from workers.cli.terminal import plural
from workers.demo.stage import Shown, Stage, expect, records

TASKS, INCIDENTS = "tbl-tasks", "tbl-incidents"
HIDDEN_FIELD = "fld-task-spent"
RESTRICTED = "viw-incidents-serious"


async def explained(stage: Stage) -> Shown:
    """An operator asks why Eva sees no incidents"""
    question = Question(
        user_id=stage.seeded.barred_id,
        workspace_id=stage.seeded.workspace_id,
        table_id=INCIDENTS,
    )
    steps = await stage.explain(question)
    expect(any(one.outcome == "shuts out" for one in steps), "something should shut Eva out")
    return Shown([f"{one.outcome:<9}  {one.step}: {one.because}" for one in steps])


async def ruled(stage: Stage) -> Shown:
    """A row policy: Ben sees only tasks of projects that run"""
    ben, workspace = stage.seeded.editor_id, stage.seeded.workspace_id
    request = stage.where(ben, tableIds=[TASKS])
    before, _ = await stage.ask(request)
    policies = await stage.services.policies.get(stage.seeded.admin_id, workspace, TASKS)
    running: JsonObject = {
        "subjects": [{"type": "user", "id": ben}],
        "mode": "restrictive",
        "pred": {
            "linkedAny": {
                "field": "fld-task-project",
                "pred": {
                    "cmp": {
                        "ref": "field:fld-project-status",
                        "op": "eq",
                        "operand": {"literal": "Running"},
                    }
                },
            }
        },
    }
    stored = policies.model_dump(mode="json")
    await stage.services.policies.set(
        stage.seeded.admin_id,
        workspace,
        TASKS,
        {**stored, "policies": [*stored["policies"], running]},
    )
    after, took = await stage.ask(request)
    expect(0 < records(after.context) < records(before.context), "Ben should see fewer tasks")
    return Shown([f"Ben sees {records(after.context)} of {records(before.context)} tasks"], took)


async def without_a_field(stage: Stage) -> Shown:
    """A field without permission: it is absent everywhere"""
    ben, workspace = stage.seeded.editor_id, stage.seeded.workspace_id
    request = stage.where(ben, tableIds=[TASKS])
    before, _ = await stage.ask(request)
    await stage.services.field_permissions.set(
        stage.seeded.admin_id,
        workspace,
        TASKS,
        HIDDEN_FIELD,
        subject_type="user",
        subject_id=ben,
        level="none",
    )
    after, took = await stage.ask(request)
    old, new = before.context.table, after.context.table
    expect(old is not None and new is not None, "the table should be there before and after")
    assert old is not None
    assert new is not None
    expect(new.field_count == old.field_count - 1, "one field fewer")
    expect(HIDDEN_FIELD not in after.context.model_dump_json(), "not a byte of the field")
    return Shown([f"fields    {old.field_count} -> {new.field_count}, without “Spent (h)”"], took)


async def by_a_view_alone(stage: Stage) -> Shown:
    """A restricted view lets Eva in, and only as far as it shows"""
    ana, eva, workspace = (
        stage.seeded.admin_id,
        stage.seeded.barred_id,
        stage.seeded.workspace_id,
    )
    await stage.services.views.create(
        ana,
        workspace,
        INCIDENTS,
        name="Serious",
        ownership="restricted",
        filter={
            "cmp": {"ref": "field:fld-incident-severity", "op": "eq", "operand": {"literal": "S1"}}
        },
        hidden=["fld-incident-reporter", "fld-incident-minutes"],
        id=RESTRICTED,
    )
    await stage.services.grants.set(
        ana,
        workspace,
        subject_type="user",
        subject_id=eva,
        scope_type="view",
        scope_id=RESTRICTED,
        role="viewer",
    )
    whole, _ = await stage.ask(stage.where(ana, tableIds=[INCIDENTS]))
    ready, took = await stage.ask(stage.where(eva, tableIds=[INCIDENTS], viewId=RESTRICTED))
    table = ready.context.table
    assert table is not None
    expect(table.permission == "views", f"permission is {table.permission}")
    expect(0 < records(ready.context) < records(whole.context), "only the view's rows")
    names = ", ".join(field.name for field in table.fields)
    return Shown(
        [
            f"permission {table.permission}: {records(ready.context)} of"
            f" {records(whole.context)} incidents, {plural(table.view_count, 'view')}",
            f"fields    {names}",
        ],
        took,
    )
