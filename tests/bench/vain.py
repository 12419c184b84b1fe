"""Over-eviction: how much of what changes end would have said the same.

A mix of changes as a team makes them in a day, over the demo workspace: mostly cells of records,
then what is said, links and tasks, and now and then rights, views and fields. After each, every
context that was cached is asked for again: what is no hit any more is built, and held against what
it said before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from pydantic import JsonValue

from context_engine.adapters.sql.services import DomainServices
from context_engine.engine import ContextEngine
from context_engine.errors import NotFound
from context_engine.models import ContextBuildInput
from tests.bench.house import BenchHouse
from tests.bench.report import Measure
from workers.seed import Seeded, dialogue, rows, seed, shape, work

CHANGES = 250
ANA, WORKSPACE, TASKS = shape.ANA.id, shape.WORKSPACE, "tbl-tasks"
Change = Callable[[DomainServices, Random, int], Awaitable[object]]

EVERYBODYS: tuple[dict[str, Any], ...] = (
    {},
    *({"tableIds": [table.id]} for table in shape.TABLES),
    {"tableIds": [TASKS, "tbl-projects", "tbl-releases"]},
    {"tableIds": [TASKS], "viewId": "viw-tasks-open"},
    {"tableIds": [TASKS], "viewId": "viw-tasks-billable"},
    {"tableIds": ["tbl-incidents"], "viewId": "viw-incidents-open"},
    {"projectId": work.ATLAS},
    {"taskId": "tsk-export", "projectId": work.ATLAS},
    {"tableIds": [TASKS], "conversationId": dialogue.CONVERSATION, "sessionId": "s"},
)
"""Where each member asks; who may not see it is refused, and left out."""


@dataclass(slots=True)
class Context:
    """What is asked again after every change."""

    request: ContextBuildInput
    said: str


async def in_vain(house: BenchHouse) -> list[Measure]:
    """Of what was ended, the share that says the same again; beside ending all of a workspace."""
    services, engine = house.parts.services, house.parts.engine
    seeded = await seed(services)
    rng, contexts = Random(2026), await _warm(engine, seeded)
    ended, same, changed = Counter[str](), Counter[str](), 0
    for number in range(CHANGES):
        (name,) = rng.choices(list(MIX), [weight for weight, _ in MIX.values()])
        await MIX[name][1](services, rng, number)
        for context in contexts:
            before = context.said
            source, context.said = await _said(engine, context.request)
            changed += context.said != before
            if source != "cache":
                ended[name] += 1
                same[name] += context.said == before
    everything = CHANGES * len(contexts)
    return [
        Measure("contexts cached, of six members", len(contexts), "count"),
        Measure("ended by a change", ended.total() / everything, "of contexts"),
        Measure(
            "ended in vain: the same when built again",
            same.total() / max(1, ended.total()),
            "of ended",
            1 - changed / everything,
            "all of the workspace",
        ),
        *(
            Measure(f"  in vain by: {name}", same[name] / ended[name], "of ended")
            for name in MIX
            if ended[name]
        ),
    ]


async def _warm(engine: ContextEngine, seeded: Seeded) -> list[Context]:
    """What every member is told everywhere; cached from here on."""
    found = []
    for person in shape.PEOPLE:
        for place in EVERYBODYS:
            asked = {"userId": person.id, "workspaceId": seeded.workspace_id, "message": "?"}
            request = ContextBuildInput.model_validate(asked | place)
            for _ in range(2):  # the first may have found no marks
                _, said = await _said(engine, request)
            if said:
                found.append(Context(request, said))
    return found


async def _said(engine: ContextEngine, request: ContextBuildInput) -> tuple[str, str]:
    """The source and the hash of the content; both are empty where it is refused."""
    try:
        answer = await engine.build(request)
    except NotFound:
        return "", ""
    return answer.source, answer.context_hash


# -- the mix -------------------------------------------------------------------------------------


def _record(rng: Random, table: str) -> str:
    return rows.record_id(table, rng.randrange(1, rows.COUNTS[table] + 1))


def _value(rng: Random, field: shape.Field, number: int) -> JsonValue:
    match field.type:
        case "text":
            return f"Value {number}"
        case "number":
            return number
        case "boolean":
            return rng.random() < 0.5
        case "date":
            return f"2026-11-{rng.randrange(1, 31):02d}"
        case "user":
            person = rng.choice(shape.PEOPLE).id
            return [person] if field.options.get("multiple") else person
        case _:
            choices = field.options["choices"]
            assert isinstance(choices, list)
            one = rng.choice(choices)
            return [one] if field.type == "multi_select" else one


def _edit(s: DomainServices, rng: Random, number: int) -> Awaitable[object]:
    """Any cell of any record; tables are edited as often as they have records."""
    (table,) = rng.choices(shape.TABLES, [rows.COUNTS[table.id] for table in shape.TABLES])
    field = rng.choice(table.fields)
    cells: Mapping[str, JsonValue] = {field.id: _value(rng, field, number)}
    return s.records.update(ANA, WORKSPACE, table.id, _record(rng, table.id), cells)


def _link(s: DomainServices, rng: Random, _: int) -> Awaitable[object]:
    link = rng.choice(shape.LINKS)
    to = [_record(rng, link.linked_table_id)]
    record = _record(rng, link.table_id)
    return s.links.set(ANA, WORKSPACE, link.table_id, link.id, record, to)


def _view(s: DomainServices, rng: Random, number: int) -> Awaitable[object]:
    table = rng.choice(shape.TABLES)
    view = rng.choice(table.views)
    if view.ownership == "personal":  # its owner's to change
        view = table.views[0]
    return s.views.update(ANA, WORKSPACE, table.id, view.id, name=f"{view.name} {number}")


def _field(s: DomainServices, rng: Random, number: int) -> Awaitable[object]:
    table = rng.choice(shape.TABLES)
    field = rng.choice(table.fields)
    return s.fields.update(ANA, WORKSPACE, table.id, field.id, name=f"{field.name} {number}")


def _task(s: DomainServices, rng: Random, _: int) -> Awaitable[object]:
    task = rng.choice(("tsk-freeze", "tsk-export", "tsk-audit", "tsk-notes"))
    return s.tasks.update(ANA, WORKSPACE, task, status=rng.choice(("open", "done")))


def _grant(s: DomainServices, rng: Random, _: int) -> Awaitable[object]:
    who, role = rng.choice(shape.PEOPLE[1:]).id, rng.choice(("viewer", "commenter", "editor"))
    return s.grants.set(
        ANA, WORKSPACE, subject_type="user", subject_id=who, scope_id="tbl-clients", role=role
    )


MIX: dict[str, tuple[int, Change]] = {
    "a cell": (55, _edit),
    "a new record": (
        8,
        lambda s, rng, n: s.records.create(
            ANA, WORKSPACE, TASKS, {"fld-task-title": f"New {n}"}, id=f"new-{n}"
        ),
    ),
    "a link": (8, _link),
    "a message": (
        12,
        lambda s, rng, n: s.messages.add(
            dialogue.PARTICIPANTS[0], WORKSPACE, dialogue.CONVERSATION, f"And number {n}."
        ),
    ),
    "a task": (8, _task),
    "a view's name": (3, _view),
    "a field's name": (2, _field),
    "a grant": (3, _grant),
    "a project": (
        1,
        lambda s, rng, n: s.projects.update(ANA, WORKSPACE, work.ATLAS, name=f"Atlas {n}"),
    ),
}
"""How often each comes in a hundred changes, and how it is made."""
