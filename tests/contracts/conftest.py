"""The services over real PostgreSQL, in a workspace with a member of each role."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.adapters.sql.engine import create_engine
from context_engine.adapters.sql.services import DomainServices
from context_engine.settings import Settings
from tests.support.services import RecordingMarker, furnish


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[AsyncEngine]:
    made = create_engine(
        Settings.model_validate({"database_url": database_url, "tag_secret": "s" * 32})
    )
    yield made
    await made.dispose()


@pytest.fixture
def marker(database: AsyncEngine) -> RecordingMarker:
    return RecordingMarker(database)


@pytest.fixture
async def services(database: AsyncEngine, marker: RecordingMarker) -> DomainServices:
    made = DomainServices(database, marker, mark_seconds=0.3)
    await furnish(made)
    return made
