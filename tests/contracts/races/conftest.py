"""The house of the races."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.settings import Settings
from tests.support.races import Race, race_over


@pytest.fixture
async def race(database: AsyncEngine, redis_url: str, config: Settings) -> AsyncIterator[Race]:
    async with race_over(database, redis_url, config) as made:
        yield made
