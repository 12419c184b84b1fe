"""What callers give to the services: refused with the field and the remedy, never half way down."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.faults import database_faults
from context_engine.adapters.sql.services import DomainServices, NewRecord
from context_engine.errors import InvalidRequest, NotFound
from context_engine.models.base import JsonObject
from tests.support.services import ANA, VIC

HALF = "a\ud800b"
Call = Callable[[DomainServices, str], Awaitable[Any]]


def grant(subject: str, scope: str) -> Call:
    return lambda s, bad: s.grants.set(
        ANA,
        "w",
        subject_type="user",
        subject_id=bad if subject == "" else subject,
        scope_id=bad if scope == "" else scope,
        role="viewer",
    )


UNSTORABLE: dict[str, tuple[str, Call]] = {
    "actor": ("actorId", lambda s, bad: s.tables.create(bad, "w", name="N")),
    "operator": ("actorId", lambda s, bad: s.users.create(bad, name="N")),
    "workspace": ("workspaceId", lambda s, bad: s.tables.create(ANA, bad, name="N")),
    "read": ("workspaceId", lambda s, bad: s.tables.list(ANA, bad)),
    "name": ("name", lambda s, bad: s.tables.create(ANA, "w", name=bad)),
    "subject": ("subjectId", grant("", "tbl")),
    "scope": ("scopeId", grant(VIC, "")),
    "member": ("userId", lambda s, bad: s.members.add(ANA, "w", bad, role="viewer")),
    "record": ("recordId", lambda s, bad: s.records.update(ANA, "w", "tbl", bad, {"n": 1})),
    "cell": ("cells.name", lambda s, bad: s.records.create(ANA, "w", "tbl", {"name": bad})),
    "field of a cell": ("cells", lambda s, bad: s.records.create(ANA, "w", "tbl", {bad: 1})),
    "new record": (
        "records.0.cells.name",
        lambda s, bad: s.records.create_many(ANA, "w", "tbl", [NewRecord({"name": bad})]),
    ),
    "page": ("after", lambda s, bad: s.records.list(ANA, "w", "tbl", after=bad)),
    "filter": (
        "filter.cmp.value",
        lambda s, bad: s.views.create(ANA, "w", "tbl", name="V", filter={"cmp": {"value": bad}}),
    ),
    "policy": (
        "policies.policies.0.pred",
        lambda s, bad: s.policies.set(ANA, "w", "tbl", {"policies": [{"pred": bad}]}),
    ),
    "agent": ("agentStack.0", lambda s, bad: s.messages.add(ANA, "w", "c", "x", agent_stack=[bad])),
    "tool call": (
        "toolCalls.0.arguments.q",
        lambda s, bad: s.messages.add(
            ANA, "w", "c", "", role="assistant",
            tool_calls=[{"id": "1", "arguments": {"q": bad}}],
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", UNSTORABLE)
@pytest.mark.parametrize("bad", [HALF, "a\x00b"])
async def test_text_that_cannot_be_stored_is_named(
    services: DomainServices, what: str, bad: str
) -> None:
    """Half a character, or a NUL, anywhere in what any service is given: the field says where."""
    field, call = UNSTORABLE[what]
    with pytest.raises(InvalidRequest, match=r"remove it|control characters") as refused:
        await call(services, bad)
    assert (refused.value.field or "").startswith(field)


async def test_an_id_without_bounds_is_the_callers_error(services: DomainServices) -> None:
    """Not a bare fault of the contract that it would travel in."""
    for bad in ("", "x" * 201, "a\nb"):
        for call in (grant("", "tbl"), grant(VIC, "")):
            with pytest.raises(InvalidRequest, match="write an id") as refused:
                await call(services, bad)
            assert refused.value.field in ("subjectId", "scopeId")
        with pytest.raises(InvalidRequest, match="actorId"):
            await services.users.create(bad, name="N")


def nested(depth: int) -> JsonObject:
    value: JsonObject = {}
    for _ in range(depth):
        value = {"a": value}
    return value


def asking(services: DomainServices, *calls: JsonObject) -> Awaitable[Any]:
    return services.messages.add(ANA, "w", "c", "", role="assistant", tool_calls=calls)


async def test_tool_calls_are_bounded_in_size_and_depth(services: DomainServices) -> None:
    """64 KiB of JSON for all of them, and no deeper than what every reader can walk."""
    await services.conversations.open(ANA, "w", title="Talk", id="c")
    frame = len(json.dumps([{"id": "1", "a": ""}]))
    await asking(services, {"id": "1", "a": "x" * (64 * 1024 - frame)})
    with pytest.raises(InvalidRequest, match=r"toolCalls: 65,537 bytes"):
        await asking(services, {"id": "1", "a": "x" * (64 * 1024 - frame + 1)})
    with pytest.raises(InvalidRequest, match="toolCalls"):
        await asking(services, *({"id": str(n), "a": "语" * 600} for n in range(64)))
    await asking(services, {"id": "1", "a": nested(25)})
    for depth in (40, 5_000):
        with pytest.raises(InvalidRequest, match=r"toolCalls.*deeper"):
            await asking(services, {"id": "1", "a": nested(depth)})
    for bad in (float("nan"), 10**5_000, {1, 2}):
        with pytest.raises(InvalidRequest, match="toolCalls: no JSON"):
            await asking(services, {"id": "1", "a": bad})  # type: ignore[dict-item]


STEERING = {
    "an escape sequence": "\x1b[31mred",
    "a C1 escape sequence": "\x9b31mred",
    "a bell": "a\x07b",
    "a line break": "a\nb",
    "a line separator": "a\u2028b",
    "an override of direction": "abc\u202egpj.exe",
    "an isolate": "a\u2067b",
}
NAMED: dict[str, Call] = {
    "user": lambda s, bad: s.users.create("op", name=bad),
    "workspace": lambda s, bad: s.workspaces.rename(ANA, "w", name=bad),
    "table": lambda s, bad: s.tables.create(ANA, "w", name=bad),
    "field": lambda s, bad: s.fields.create(ANA, "w", "tbl", name=bad, type="text"),
    "choice": lambda s, bad: s.fields.create(
        ANA, "w", "tbl", name="F", type="select", options={"choices": [bad]}
    ),
    "conversation": lambda s, bad: s.conversations.open(ANA, "w", title=bad),
    "email": lambda s, bad: s.users.create("op", name="N", email=bad),
}


@pytest.mark.parametrize("what", NAMED)
@pytest.mark.parametrize("bad", STEERING)
async def test_names_that_steer_a_terminal_are_refused(
    services: DomainServices, what: str, bad: str
) -> None:
    """They would reach every terminal and every prompt that shows the name."""
    with pytest.raises(InvalidRequest, match="remove it") as refused:
        await NAMED[what](services, STEERING[bad])
    assert refused.value.field in ("name", "title", "options.choices", "email")


async def test_names_in_every_script_are_taken(services: DomainServices) -> None:
    """Joiners and direction marks belong to scripts and signs, and stay."""
    for name in ("مشروع\u200f", "क्\u200dष", "👩\u200d🚀 team", "日本 語", "naïve — ‹x›"):
        await services.tables.create(ANA, "w", name=name)


MANY = [f"id-{n}" for n in range(40_000)]
LONG: dict[str, tuple[str, Callable[[DomainServices], Awaitable[Any]]]] = {
    "participants": (
        "participantIds",
        lambda s: s.conversations.open(ANA, "w", title="C", participant_ids=MANY),
    ),
    "members": ("memberIds", lambda s: s.projects.create(ANA, "w", name="P", member_ids=MANY)),
    "tables of an agent": (
        "tableIds",
        lambda s: s.agents.create(ANA, "w", name="A", max_role="viewer", table_ids=MANY[:1_001]),
    ),
    "tables of a message": (
        "tableIds", lambda s: s.messages.add(ANA, "w", "c", "Hello", table_ids=MANY[:51])
    ),
    "agents of a message": (
        "agentStack", lambda s: s.messages.add(ANA, "w", "c", "Hello", agent_stack=MANY[:17])
    ),
    "subjects": (
        "policies.0.subjects",
        lambda s: s.policies.set(
            ANA, "w", "tbl",
            {"policies": [{
                "subjects": [{"type": "user", "id": id} for id in MANY[:1_001]],
                "pred": True, "mode": "restrictive",
            }]},
        ),
    ),
    "links of a record": (
        "links.link", lambda s: s.links.set(ANA, "w", "tbl", "link", "r1", MANY[:10_001])
    ),
    "records of links": (
        "targets", lambda s: s.links.set_many(ANA, "w", "tbl", "link", dict.fromkeys(MANY, ()))
    ),
    "links of new records": (
        "links.link",
        lambda s: s.records.create_many(
            ANA, "w", "tbl", [NewRecord({}, {"link": MANY[:6_000]})] * 2
        ),
    ),
    "new records": (
        "records", lambda s: s.records.create_many(ANA, "w", "tbl", [NewRecord({})] * 1_001)
    ),
    "records": ("recordIds", lambda s: s.records.delete(ANA, "w", "tbl", MANY[:1_001])),
    "cells": ("cells", lambda s: s.records.create(ANA, "w", "tbl", dict.fromkeys(MANY, 1))),
    "hidden fields": ("hidden", lambda s: s.views.create(ANA, "w", "tbl", name="V", hidden=MANY)),
    "choices": (
        "options.choices",
        lambda s: s.fields.create(
            ANA, "w", "tbl", name="F", type="select", options={"choices": [*MANY[:1_001]]}
        ),
    ),
    "page": ("limit", lambda s: s.records.list(ANA, "w", "tbl", limit=1_001)),
    "page of less than nothing": ("limit", lambda s: s.records.list(ANA, "w", "tbl", limit=-1)),
    "version": (
        "expectedVersion",
        lambda s: s.tables.rename(ANA, "w", "tbl", name="T", expected_version=2**63),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", LONG)
async def test_what_is_too_much_for_a_call_is_named(services: DomainServices, what: str) -> None:
    """With the bound and the remedy, and never as a connection that was lost."""
    await services.links.create(ANA, "w", "tbl", name="L", linked_table_id="tbl", id="link")
    await services.conversations.open(ANA, "w", title="C", id="c")
    field, call = LONG[what]
    with pytest.raises(InvalidRequest, match=r"send|write|name a team") as refused:
        await call(services)
    assert refused.value.field == field


async def test_as_many_as_a_call_may_name_are_looked_for(services: DomainServices) -> None:
    """Up to the bounds, which no statement is too small for: who is missing is told."""
    await services.links.create(ANA, "w", "tbl", name="L", linked_table_id="tbl", id="link")
    for call in (
        services.conversations.open(ANA, "w", title="C", participant_ids=MANY[:1_000]),
        services.agents.create(ANA, "w", name="A", max_role="viewer", table_ids=MANY[:1_000]),
    ):
        with pytest.raises(InvalidRequest, match="'id-0'"):
            await call
    with pytest.raises(NotFound, match="record 'id-0'"):
        await services.links.set(ANA, "w", "tbl", "link", "r1", MANY[:10_000])


async def test_more_values_than_a_statement_takes_are_the_callers_error(
    database: AsyncEngine,
) -> None:
    """Another connection would take no more of them."""
    query = select(t.users.c.id).where(t.users.c.id.in_(MANY))
    with pytest.raises(InvalidRequest, match="send fewer"):
        async with database_faults(), database.connect() as connection:
            await connection.execute(query)
