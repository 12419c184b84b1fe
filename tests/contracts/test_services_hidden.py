"""What is hidden answers to a write as what is missing: code, words and statements."""

from __future__ import annotations

import re
from dataclasses import dataclass
from inspect import iscoroutinefunction, signature

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.adapters.sql.services import DomainServices
from context_engine.adapters.sql.services.base import Service
from context_engine.errors import Rejected
from tests.support.hidden_services import CASES, ELSEWHERE, GUESSED, HIDDEN, MISSING, Call, hide
from tests.support.services import OUT, RecordingMarker
from tests.support.world import Statements

OPERATORS = {"workspaces.create", "workspaces.attach"}
"""Beside organizations, users and imports: no user is checked."""


@pytest.fixture
async def hiding(services: DomainServices) -> DomainServices:
    await hide(services)
    return services


@dataclass(frozen=True, slots=True)
class Told:
    """All that one write lets its actor know."""

    words: str
    """The error with all that it carries, but for the id that was given."""
    statements: tuple[str, ...]
    """The first word of each."""


async def told(services: DomainServices, database: AsyncEngine, call: Call, *by: str) -> Told:
    """By whom, in which workspace, and the beginning of the ids that are given."""
    who, workspace, which = by
    async with Statements(database) as statements:
        try:
            await call(services, who, workspace, which)
            said = "done"
        except Rejected as error:
            told = {name: _in_order(value) for name, value in vars(error).items()}
            said = f"{type(error).__name__} {sorted(told.items())}"
    for one in (ELSEWHERE, ELSEWHERE.replace(HIDDEN, MISSING), f"{which}-"):
        said = said.replace(one, "?")
    said = re.sub(r'did you mean ".*?"\? ', "", said)
    return Told(said, tuple(s.split(maxsplit=1)[0] for s in statements.seen))


def _in_order(value: object) -> object:
    return sorted(value) if isinstance(value, frozenset) else value


async def test_hidden_reads_as_missing_to_every_service(
    hiding: DomainServices, database: AsyncEngine
) -> None:
    """Whatever is named, by whoever does not see it."""
    apart = {}
    for case, (who, call) in {**CASES, **GUESSED}.items():
        await told(hiding, database, call, who, "w", MISSING)  # the driver learns of types
        missing = await told(hiding, database, call, who, "w", MISSING)
        hidden = await told(hiding, database, call, who, "w", HIDDEN)
        if hidden != missing or (hidden.words == "done") != (case in READS_OF_ALL):
            apart[case] = (hidden, missing)
    assert not apart


READS_OF_ALL = {"members.list", "tables.list", "conversations.list", "listings.teams"}
"""What names nothing but the workspace."""


async def test_another_workspace_reads_as_a_missing_one_to_every_service(
    hiding: DomainServices, database: AsyncEngine
) -> None:
    """To who is no member of it."""
    nowhere = ELSEWHERE.replace(HIDDEN, MISSING)
    apart = {}
    for case, (_, call) in CASES.items():
        hidden = await told(hiding, database, call, OUT, ELSEWHERE, MISSING)
        missing = await told(hiding, database, call, OUT, nowhere, MISSING)
        if hidden != missing or "NotFound" not in hidden.words:
            apart[case] = (hidden, missing)
    assert not apart


def test_no_service_is_left_out(database: AsyncEngine) -> None:
    """Every public method that a workspace's member may call is among the cases."""
    services = DomainServices(database, RecordingMarker(database))
    methods = {
        f"{noun}.{name}"
        for noun, service in vars(services).items()
        if isinstance(service, Service)
        for name, method in vars(type(service)).items()
        if iscoroutinefunction(method)
        and not name.startswith("_")
        and "workspace_id" in signature(method).parameters
    }
    assert methods - OPERATORS == {case.split()[0] for case in CASES}
